//! json.dumps as the transformers library configures it.

use super::budget::charge;
use super::operators::{order, Number};
use super::python::{check_depth, float_text};
use super::values::{type_name, Dict, Kind, Sequence};
use super::{failed, Call};
use minijinja::value::{Value, ValueKind};
use minijinja::Error;

const MAX_INDENT: usize = 64;

/// The keyword arguments of `tojson`.
pub struct JsonStyle {
    ensure_ascii: bool,
    indent: Option<usize>,
    item: String,
    key: String,
    sort_keys: bool,
}

impl JsonStyle {
    /// Of `tojson(value, ensure_ascii, indent, separators, sort_keys)`.
    pub fn of(call: &Call) -> Result<JsonStyle, Error> {
        call.accepts(5, &["ensure_ascii", "indent", "separators", "sort_keys"])?;
        let indent = call.integer(2, "indent")?.map(|n| usize::try_from(n).unwrap_or(0));
        if indent.is_some_and(|n| n > MAX_INDENT) {
            return Err(failed("tojson: indent is too large"));
        }
        let default_item = if indent.is_some() { "," } else { ", " };
        let (item, key) = match call.optional(3, "separators").filter(|given| !given.is_none()) {
            None => (default_item.to_string(), ": ".to_string()),
            Some(given) => match given.try_iter()?.map(|text| text.as_str().map(str::to_string)).collect::<Vec<_>>().as_slice() {
                [Some(item), Some(key)] => (item.clone(), key.clone()),
                _ => return Err(failed("separators must be two texts")),
            },
        };
        let ensure_ascii = call.flag(1, "ensure_ascii", false);
        Ok(JsonStyle { ensure_ascii, indent, item, key, sort_keys: call.flag(4, "sort_keys", false) })
    }
}

fn json_string(text: &str, style: &JsonStyle, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20 || (style.ensure_ascii && !(' '..='~').contains(&c)) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

fn break_line(style: &JsonStyle, depth: usize, out: &mut String) -> Result<(), Error> {
    if let Some(indent) = style.indent {
        charge(indent * depth)?;
        out.push('\n');
        out.push_str(&" ".repeat(indent * depth));
    }
    Ok(())
}

fn number_text(number: Number) -> String {
    match number {
        Number::Int(x) => x.to_string(),
        Number::Float(x) if x.is_nan() => "NaN".into(),
        Number::Float(x) if x.is_infinite() => if x > 0.0 { "Infinity" } else { "-Infinity" }.into(),
        Number::Float(x) => float_text(x),
    }
}

/// Of texts, numbers, bools and none.
fn scalar(value: &Value) -> Option<String> {
    match value.kind() {
        ValueKind::None => Some("null".into()),
        ValueKind::Bool => Some(value.is_true().to_string()),
        ValueKind::Number => Number::of(value).map(number_text),
        _ => None,
    }
}

pub fn to_json(value: &Value, style: &JsonStyle, depth: usize, out: &mut String) -> Result<(), Error> {
    check_depth(depth)?;
    charge(1)?;
    if let Some(text) = value.as_str() {
        charge(text.len())?;
        json_string(text, style, out);
        return Ok(());
    }
    if let Some(text) = scalar(value) {
        out.push_str(&text);
        return Ok(());
    }
    if let Some(dict) = value.downcast_object_ref::<Dict>() {
        return object(dict.pairs(), style, depth, out);
    }
    let is_array = match value.downcast_object_ref::<Sequence>() {
        Some(sequence) => sequence.kind == Kind::Tuple,
        None => value.kind() == ValueKind::Seq,
    };
    if !is_array {
        return Err(failed(&format!("a value of type {} has no JSON", type_name(value))));
    }
    out.push('[');
    let mut count = 0;
    for item in value.try_iter()? {
        out.push_str(if count > 0 { &style.item } else { "" });
        break_line(style, depth + 1, out)?;
        to_json(&item, style, depth + 1, out)?;
        count += 1;
    }
    if count > 0 {
        break_line(style, depth, out)?;
    }
    out.push(']');
    Ok(())
}

fn object(mut pairs: Vec<(Value, Value)>, style: &JsonStyle, depth: usize, out: &mut String) -> Result<(), Error> {
    if style.sort_keys {
        let mut failure = None;
        pairs.sort_by(|(a, _), (b, _)| {
            order(a, b, "<", 0).unwrap_or_else(|error| {
                failure = Some(error);
                None
            }).unwrap_or(std::cmp::Ordering::Equal)
        });
        if let Some(error) = failure {
            return Err(error);
        }
    }
    out.push('{');
    for (i, (key, item)) in pairs.iter().enumerate() {
        out.push_str(if i > 0 { &style.item } else { "" });
        break_line(style, depth + 1, out)?;
        let key = key.as_str().map(str::to_string).or_else(|| scalar(key));
        json_string(&key.ok_or_else(|| failed("a tuple is no key in JSON"))?, style, out);
        out.push_str(&style.key);
        to_json(item, style, depth + 1, out)?;
    }
    if !pairs.is_empty() {
        break_line(style, depth, out)?;
    }
    out.push('}');
    Ok(())
}
