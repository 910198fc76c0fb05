//! Filters on texts, and what they share with methods of texts.

use super::budget::charge;
use super::python::{percent_format, printed};
use super::values::{dict, iterate, tuple, type_name};
use super::{failed, python_space, Body, Call};
use minijinja::value::Value;
use minijinja::Error;

/// Wider texts are not made.
const MAX_WIDTH: usize = 1 << 20;

pub const FILTERS: &[(&str, Body)] = &[
    ("string", |c| of_text(c, str::to_string)),
    ("safe", |c| of_text(c, str::to_string)),
    ("upper", |c| of_text(c, str::to_uppercase)),
    ("lower", |c| of_text(c, str::to_lowercase)),
    ("title", |c| of_text(c, title_words)),
    ("capitalize", |c| of_text(c, capitalize)),
    ("escape", |c| of_text(c, escape)),
    ("e", |c| of_text(c, escape)),
    ("trim", |c| {
        let chars = c.text(1, "chars")?;
        of_text(c, |text| cut_both(text, chars.as_deref(), true, true).to_string())
    }),
    ("replace", |c| {
        let (old, new) = (printed(&c.required(1, "old")?)?, printed(&c.required(2, "new")?)?);
        replaced(&printed(c.value()?)?, &old, &new, c.integer(3, "count")?).map(Value::from)
    }),
    ("join", join),
    ("indent", indent),
    ("format", |c| {
        let named = super::operators::named(&Call { positional: &[], ..c.clone() })?;
        let arguments = if named.is_empty() { tuple(c.positional[1..].to_vec())? } else { dict(named)? };
        percent_format(&printed(c.value()?)?, &arguments).map(Value::from)
    }),
];

fn of_text(call: &Call, body: impl FnOnce(&str) -> String) -> Result<Value, Error> {
    let text = printed(call.value()?)?;
    charge(text.len())?;
    Ok(Value::from(body(&text)))
}

/// Python's str.capitalize.
pub fn capitalize(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().collect::<String>()).unwrap_or_default();
    first + &chars.as_str().to_lowercase()
}

/// Python's str.title: every run of letters begins with a capital.
pub fn title(text: &str) -> String {
    let mut inside = false;
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if inside {
            out.extend(c.to_lowercase());
        } else {
            out.extend(c.to_uppercase());
        }
        inside = c.is_lowercase() || c.is_uppercase();
    }
    out
}

/// Jinja2's filter: words begin behind white space, hyphens and opening brackets only.
fn title_words(text: &str) -> String {
    let mut inside = false;
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let parts = python_space(c) || matches!(c, '-' | '(' | '{' | '[' | '<');
        if inside {
            out.extend(c.to_lowercase());
        } else {
            out.extend(c.to_uppercase());
        }
        inside = !parts;
    }
    out
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('\'', "&#39;").replace('"', "&#34;")
}

/// `text` less the characters (white space, if none are named) at its ends.
pub fn cut_both<'a>(text: &'a str, chars: Option<&str>, left: bool, right: bool) -> &'a str {
    let cut = |c: char| chars.map_or_else(|| python_space(c), |chars| chars.contains(c));
    let text = if left { text.trim_start_matches(cut) } else { text };
    if right { text.trim_end_matches(cut) } else { text }
}

pub fn replaced(text: &str, old: &str, new: &str, count: Option<i64>) -> Result<String, Error> {
    let limit = count.and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
    let found = if old.is_empty() { text.chars().count() + 1 } else { text.matches(old).count() };
    charge(text.len().saturating_add(found.min(limit).saturating_mul(new.len())))?;
    Ok(text.replacen(old, new, limit))
}

/// `strict`: only texts are joined, as the method does.
pub fn joined(items: &[Value], separator: &str, strict: bool) -> Result<Value, Error> {
    let mut out = String::new();
    for (i, item) in items.iter().enumerate() {
        if strict && item.as_str().is_none() {
            return Err(failed(&format!("join() takes texts, not '{}'", type_name(item))));
        }
        let text = printed(item)?;
        charge(text.len() + separator.len())?;
        out.push_str(if i > 0 { separator } else { "" });
        out.push_str(&text);
    }
    Ok(Value::from(out))
}

fn join(call: &Call) -> Result<Value, Error> {
    let mut items = iterate(call.value()?)?;
    if let Some(attribute) = call.optional(2, "attribute").filter(|given| !given.is_none()) {
        items = items.iter().map(|item| super::filters::path(item, &attribute)).collect::<Result<_, _>>()?;
    }
    let separator = call.optional(1, "d").map_or(Ok(String::new()), |given| printed(&given))?;
    joined(&items, &separator, /*strict=*/ false)
}

/// Python's str.splitlines.
pub fn lines(text: &str) -> Vec<&str> {
    let ends = |c: char| matches!(c, '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}');
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(ends) {
        out.push(&rest[..at]);
        let end = &rest[at..];
        let length = if end.starts_with("\r\n") { 2 } else { end.chars().next().map_or(0, char::len_utf8) };
        rest = &end[length..];
    }
    if !rest.is_empty() {
        out.push(rest);
    }
    out
}

fn indent(call: &Call) -> Result<Value, Error> {
    let text = printed(call.value()?)? + "\n";
    let margin = match call.optional(1, "width") {
        None => " ".repeat(4),
        Some(width) if width.as_str().is_some() => printed(&width)?,
        Some(_) => " ".repeat(usize::try_from(call.integer(1, "width")?.unwrap_or(0)).unwrap_or(0).min(MAX_WIDTH)),
    };
    let blank = call.flag(3, "blank", false);
    let mut out = String::new();
    for (i, line) in lines(&text).into_iter().enumerate() {
        charge(line.len() + margin.len())?;
        out.push_str(if i > 0 { "\n" } else { "" });
        let wanted = if i == 0 { call.flag(2, "first", false) } else { blank || !line.is_empty() };
        out.push_str(if wanted { &margin } else { "" });
        out.push_str(line);
    }
    Ok(Value::from(out))
}

/// `ljust`, `rjust`, `center` and `zfill`.
pub fn justified(text: &str, method: &str, call: &Call) -> Result<Value, Error> {
    let width = usize::try_from(call.integer(0, "width")?.unwrap_or(0)).unwrap_or(0).min(MAX_WIDTH);
    let fill = call.text(1, "fillchar")?.unwrap_or_else(|| if method == "zfill" { "0" } else { " " }.to_string());
    let missing = width.saturating_sub(text.chars().count());
    charge(text.len() + missing * fill.len())?;
    let left = match method {
        "ljust" => 0,
        // Python's rounding: the odd one goes left where the width is odd.
        "center" => missing / 2 + (missing & width & 1),
        _ => missing,
    };
    let (before, after) = (fill.repeat(left), fill.repeat(missing - left));
    if method == "zfill" && text.starts_with(['-', '+']) {
        return Ok(Value::from(format!("{}{before}{}", &text[..1], &text[1..])));
    }
    Ok(Value::from(format!("{before}{text}{after}")))
}

/// `str.format` with `{}`, `{0}` and `{name}`.
pub fn formatted(text: &str, call: &Call) -> Result<Value, Error> {
    let mut out = String::new();
    let mut rest = text;
    let mut next = 0;
    while let Some(at) = rest.find(['{', '}']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if rest.starts_with("{{") || rest.starts_with("}}") {
            out.push_str(&rest[..1]);
            rest = &rest[2..];
            continue;
        }
        let (field, behind) = rest[1..].split_once('}').filter(|_| rest.starts_with('{')).ok_or_else(|| failed("format(): a single brace"))?;
        rest = behind;
        let value = match field.parse::<usize>() {
            Ok(index) => call.positional.get(index).cloned(),
            Err(_) if field.is_empty() => {
                next += 1;
                call.positional.get(next - 1).cloned()
            }
            Err(_) => call.named.peek::<Value>(field).ok(),
        };
        let value = printed(&value.ok_or_else(|| failed(&format!("format(): there is no {field:?}")))?)?;
        charge(value.len())?;
        out.push_str(&value);
    }
    Ok(Value::from(out + rest))
}
