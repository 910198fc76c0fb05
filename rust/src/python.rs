//! Values as Python writes them: `print`, `repr`, `json.dumps` and `%` formatting.

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind};

/// A float as Python's repr: the shortest digits that give it back, an exponent from 1e16 on and below 1e-4.
pub fn float_text(x: f64) -> String {
    if x.is_nan() {
        return "nan".into();
    }
    if x.is_infinite() {
        return if x > 0.0 { "inf".into() } else { "-inf".into() };
    }
    let magnitude = x.abs();
    if magnitude != 0.0 && !(1e-4..1e16).contains(&magnitude) {
        let text = format!("{x:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, number) = exponent.strip_prefix('-').map_or(("+", exponent), |n| ("-", n));
        return format!("{digits}e{sign}{number:0>2}");
    }
    let text = format!("{x}");
    if text.contains('.') {
        text
    } else {
        text + ".0"
    }
}

fn is_float(value: &Value) -> bool {
    value.kind() == ValueKind::Number && !value.is_integer()
}

fn string_repr(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if (c as u32) < 0x20 || c as u32 == 0x7f => out.push_str(&format!("\\x{:02x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push(quote);
}

/// Deeper values are refused: a template can make one that contains itself, and the stack is not endless.
const MAX_DEPTH: usize = 100;
const MAX_INDENT: usize = 64;
const MAX_PRECISION: usize = 1000;

fn check_depth(depth: usize) -> Result<(), Error> {
    if depth < MAX_DEPTH {
        return Ok(());
    }
    Err(Error::new(ErrorKind::InvalidOperation, "a value is nested too deeply"))
}

/// Python's repr() of a value.
fn repr(value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
    check_depth(depth)?;
    match value.kind() {
        ValueKind::String => string_repr(value.as_str().unwrap_or(""), out),
        ValueKind::Map => {
            out.push('{');
            for (i, key) in value.try_iter()?.enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                repr(&key, depth + 1, out)?;
                out.push_str(": ");
                repr(&value.get_item(&key)?, depth + 1, out)?;
            }
            out.push('}');
        }
        ValueKind::Seq | ValueKind::Iterable => {
            out.push('[');
            for (i, item) in value.try_iter()?.enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                repr(&item, depth + 1, out)?;
            }
            out.push(']');
        }
        _ => out.push_str(&printed(value)?),
    }
    Ok(())
}

/// What `{{ value }}` prints, and str().
pub fn printed(value: &Value) -> Result<String, Error> {
    Ok(match value.kind() {
        ValueKind::Undefined => String::new(),
        ValueKind::None => "None".into(),
        ValueKind::Bool => if value.is_true() { "True" } else { "False" }.into(),
        ValueKind::String => value.as_str().unwrap_or("").into(),
        ValueKind::Number if is_float(value) => float_text(f64::try_from(value.clone())?),
        ValueKind::Map | ValueKind::Seq | ValueKind::Iterable => {
            let mut out = String::new();
            repr(value, 0, &mut out)?;
            out
        }
        _ => value.to_string(),
    })
}

/// The keyword arguments of `tojson`.
pub struct JsonStyle {
    ensure_ascii: bool,
    indent: Option<usize>,
    item: String,
    key: String,
    sort_keys: bool,
}

impl JsonStyle {
    pub fn from(kwargs: &Kwargs) -> Result<JsonStyle, Error> {
        let indent: Option<usize> = kwargs.get::<Option<usize>>("indent")?;
        if indent.is_some_and(|n| n > MAX_INDENT) {
            return Err(Error::new(ErrorKind::InvalidOperation, "tojson: indent is too large"));
        }
        let separators: Option<Vec<String>> = kwargs.get("separators")?;
        let default_item = if indent.is_some() { "," } else { ", " };
        let (item, key) = match separators.as_deref() {
            Some([item, key]) => (item.clone(), key.clone()),
            Some(_) => return Err(Error::new(ErrorKind::InvalidOperation, "separators must be two texts")),
            None => (default_item.into(), ": ".into()),
        };
        let style = JsonStyle {
            ensure_ascii: kwargs.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
            indent,
            item,
            key,
            sort_keys: kwargs.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
        };
        kwargs.assert_all_used()?;
        Ok(style)
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

fn break_line(style: &JsonStyle, depth: usize, out: &mut String) {
    if let Some(indent) = style.indent {
        out.push('\n');
        out.push_str(&" ".repeat(indent * depth));
    }
}

/// json.dumps(value) as the transformers library configures it.
pub fn to_json(value: &Value, style: &JsonStyle, depth: usize, out: &mut String) -> Result<(), Error> {
    check_depth(depth)?;
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number if is_float(value) => {
            let text = float_text(f64::try_from(value.clone())?);
            out.push_str(match text.as_str() {
                "nan" => "NaN",
                "inf" => "Infinity",
                "-inf" => "-Infinity",
                other => other,
            });
        }
        ValueKind::Number => out.push_str(&value.to_string()),
        ValueKind::String => json_string(value.as_str().unwrap_or(""), style, out),
        ValueKind::Map => {
            let mut keys: Vec<Value> = value.try_iter()?.collect();
            if style.sort_keys {
                keys.sort();
            }
            out.push('{');
            for (i, key) in keys.iter().enumerate() {
                if i > 0 {
                    out.push_str(&style.item);
                }
                break_line(style, depth + 1, out);
                json_string(&printed(key)?, style, out);
                out.push_str(&style.key);
                to_json(&value.get_item(key)?, style, depth + 1, out)?;
            }
            if !keys.is_empty() {
                break_line(style, depth, out);
            }
            out.push('}');
        }
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Vec<Value> = value.try_iter()?.collect();
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push_str(&style.item);
                }
                break_line(style, depth + 1, out);
                to_json(item, style, depth + 1, out)?;
            }
            if !items.is_empty() {
                break_line(style, depth, out);
            }
            out.push(']');
        }
        _ => return Err(Error::new(ErrorKind::InvalidOperation, "an undefined value has no JSON")),
    }
    Ok(())
}

/// Python's `format % arguments` for %s, %r, %d, %i, %f, %x and %%, with flags 0 and -, width and precision.
pub fn percent_format(format: &str, arguments: &Value) -> Result<String, Error> {
    let bad = |what: &str| Error::new(ErrorKind::InvalidOperation, format!("% formatting: {what}"));
    let mut items: std::collections::VecDeque<Value> = match arguments.kind() {
        ValueKind::Seq => arguments.try_iter()?.collect(),
        _ => [arguments.clone()].into(),
    };
    let mut out = String::new();
    let mut chars = format.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut spec = String::new();
        while let Some(c) = chars.next_if(|c| matches!(c, '0'..='9' | '-' | '+' | '.')) {
            spec.push(c);
        }
        let kind = chars.next().ok_or_else(|| bad("the format ends in %"))?;
        if kind == '%' {
            out.push('%');
            continue;
        }
        let value = items.pop_front().ok_or_else(|| bad("too few arguments"))?;
        let (width, precision) = match spec.split_once('.') {
            Some((width, precision)) => (width, precision.parse::<usize>().ok().map(|n| n.min(MAX_PRECISION))),
            None => (spec.as_str(), None),
        };
        let number = || f64::try_from(value.clone()).map_err(|_| bad("a number is wanted"));
        let text = match kind {
            's' => printed(&value)?,
            'r' => {
                let mut text = String::new();
                repr(&value, 0, &mut text)?;
                text
            }
            'd' | 'i' => format!("{:.0}", number()?.trunc()),
            'f' => format!("{:.*}", precision.unwrap_or(6), number()?),
            'x' => format!("{:x}", number()? as i64),
            other => return Err(bad(&format!("%{other} is not supported"))),
        };
        let count: usize = width.trim_start_matches(['-', '+', '0']).parse().unwrap_or(0);
        let missing = count.min(1000).saturating_sub(text.chars().count());
        match (width.starts_with('-'), width.starts_with('0')) {
            (true, _) => out.push_str(&(text + &" ".repeat(missing))),
            (_, true) => out.push_str(&("0".repeat(missing) + &text)),
            _ => out.push_str(&(" ".repeat(missing) + &text)),
        }
    }
    Ok(out)
}
