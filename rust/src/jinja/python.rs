//! Values as Python writes them: `print`, `repr` and `%` formatting.

use super::budget::charge;
use super::operators::Number;
use super::values::{type_name, Dict, Kind, Sequence, MAX_DEPTH};
use super::failed;
use minijinja::value::{Value, ValueKind};
use minijinja::Error;

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

/// Rust's escape_debug and Python's repr escape the same categories; behind another letter, marks do not count.
fn is_printable(c: char) -> bool {
    c == ' ' || c.is_ascii_graphic() || (!c.is_ascii() && ['a', c].iter().collect::<String>().escape_debug().count() == 2)
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
            c if is_printable(c) => out.push(c),
            c => out.push_str(&match c as u32 {
                code @ ..0x100 => format!("\\x{code:02x}"),
                code @ ..0x10000 => format!("\\u{code:04x}"),
                code => format!("\\U{code:08x}"),
            }),
        }
    }
    out.push(quote);
}

const MAX_PRECISION: usize = 1000;

pub fn check_depth(depth: usize) -> Result<(), Error> {
    if depth <= MAX_DEPTH { Ok(()) } else { Err(failed("a value is nested too deeply")) }
}

/// Python's repr() of a value.
fn repr(value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
    check_depth(depth)?;
    charge(1)?;
    match value.kind() {
        ValueKind::Undefined => out.push_str("Undefined"),
        ValueKind::String => {
            let text = value.as_str().unwrap_or("");
            charge(text.len())?;
            string_repr(text, out);
        }
        ValueKind::Map => {
            let pairs = match value.downcast_object_ref::<Dict>() {
                Some(dict) => dict.pairs(),
                None => value.try_iter()?.map(|key| (key.clone(), value.get_item(&key).unwrap_or_default())).collect(),
            };
            out.push('{');
            for (i, (key, item)) in pairs.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                repr(key, depth + 1, out)?;
                out.push_str(": ");
                repr(item, depth + 1, out)?;
            }
            out.push('}');
        }
        ValueKind::Seq => match value.downcast_object_ref::<Sequence>().map(|sequence| &sequence.kind) {
            Some(Kind::Range(text)) => out.push_str(text),
            Some(Kind::Tuple) => {
                out.push('(');
                let count = repr_items(value, depth, out)?;
                out.push_str(if count == 1 { ",)" } else { ")" });
            }
            Some(Kind::View(name)) => {
                out.push_str(&format!("{name}(["));
                repr_items(value, depth, out)?;
                out.push_str("])");
            }
            None => {
                out.push('[');
                repr_items(value, depth, out)?;
                out.push(']');
            }
        },
        ValueKind::Iterable => out.push_str("<generator object>"),
        _ => out.push_str(&printed(value)?),
    }
    Ok(())
}

fn repr_items(value: &Value, depth: usize, out: &mut String) -> Result<usize, Error> {
    let mut count = 0;
    for item in value.try_iter()? {
        out.push_str(if count > 0 { ", " } else { "" });
        repr(&item, depth + 1, out)?;
        count += 1;
    }
    Ok(count)
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

/// Python's `format % arguments` without %g, `*` and the flag #.
pub fn percent_format(format: &str, arguments: &Value) -> Result<String, Error> {
    let is_tuple = arguments.downcast_object_ref::<Sequence>().is_some_and(|sequence| sequence.kind == Kind::Tuple);
    let mut items = if is_tuple { arguments.try_iter()?.collect() } else { vec![arguments.clone()] }.into_iter();
    let mut by_name = false;
    let mut out = String::new();
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let mut named = None;
        if let Some(inner) = rest.strip_prefix('(') {
            let (name, behind) = inner.split_once(')').ok_or_else(|| failed("% formatting: a key does not end"))?;
            named = Some(arguments.get_item(&Value::from(name))?);
            by_name = true;
            rest = behind;
        }
        let length = rest.find(|c: char| !matches!(c, '0'..='9' | '-' | '+' | ' ' | '.')).unwrap_or(rest.len());
        let (spec, behind) = rest.split_at(length);
        let kind = behind.chars().next().ok_or_else(|| failed("% formatting: the format ends in %"))?;
        rest = &behind[kind.len_utf8()..];
        if kind == '%' {
            out.push('%');
            continue;
        }
        let value = named.or_else(|| items.next()).ok_or_else(|| failed("% formatting: too few arguments"))?;
        let text = padded(spec, kind, &value)?;
        charge(text.len())?;
        out.push_str(&text);
    }
    if !by_name && items.next().is_some() && arguments.downcast_object_ref::<Dict>().is_none() {
        return Err(failed("% formatting: too many arguments"));
    }
    Ok(out + rest)
}

/// One value as `%{spec}{kind}` writes it.
fn padded(spec: &str, kind: char, value: &Value) -> Result<String, Error> {
    let flags = &spec[..spec.len() - spec.trim_start_matches(['-', '+', ' ', '0']).len()];
    let (width, precision) = match spec[flags.len()..].split_once('.') {
        Some((width, precision)) => (width, Some(precision.parse::<usize>().unwrap_or(0).min(MAX_PRECISION))),
        None => (&spec[flags.len()..], None),
    };
    let width = width.parse::<usize>().unwrap_or(0).min(MAX_PRECISION);
    let text = converted(kind, value, precision)?;
    let number = !matches!(kind, 's' | 'r' | 'c');
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) if number => ("-", digits),
        _ if number && flags.contains('+') => ("+", text.as_str()),
        _ if number && flags.contains(' ') => (" ", text.as_str()),
        _ => ("", text.as_str()),
    };
    let missing = width.saturating_sub(sign.len() + digits.chars().count());
    Ok(if flags.contains('-') {
        format!("{sign}{digits}{}", " ".repeat(missing))
    } else if flags.contains('0') && number {
        format!("{sign}{}{digits}", "0".repeat(missing))
    } else {
        format!("{}{sign}{digits}", " ".repeat(missing))
    })
}

fn converted(kind: char, value: &Value, precision: Option<usize>) -> Result<String, Error> {
    if matches!(kind, 's' | 'r') {
        let mut text = String::new();
        match kind {
            's' => text = printed(value)?,
            _ => repr(value, 0, &mut text)?,
        }
        return Ok(match precision {
            Some(count) => text.chars().take(count).collect(),
            None => text,
        });
    }
    let number = Number::of(value).ok_or_else(|| failed(&format!("%{kind} wants a number, not {}", type_name(value))))?;
    Ok(match (kind, number) {
        ('d' | 'i' | 'u', Number::Int(x)) => x.to_string(),
        ('d' | 'i' | 'u', Number::Float(x)) => format!("{:.0}", x.trunc()),
        ('f' | 'F', number) => format!("{:.*}", precision.unwrap_or(6), number.float()),
        ('x', Number::Int(x)) => format!("{}{:x}", if x < 0 { "-" } else { "" }, x.unsigned_abs()),
        ('X', Number::Int(x)) => format!("{}{:X}", if x < 0 { "-" } else { "" }, x.unsigned_abs()),
        ('o', Number::Int(x)) => format!("{}{:o}", if x < 0 { "-" } else { "" }, x.unsigned_abs()),
        ('e', number) => {
            let text = format!("{:.*e}", precision.unwrap_or(6), number.float());
            let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
            format!("{digits}e{sign}{exponent:0>2}")
        }
        _ => return Err(failed(&format!("%{kind} is not supported"))),
    })
}
