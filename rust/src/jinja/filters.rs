//! Jinja2's filters on values that are no texts.

use super::json::{to_json, JsonStyle};
use super::operators::{equal, item, order, Number};
use super::values::{generator, iterate, length, list, pair, type_name, value_of, Dict, Generator};
use super::{failed, Body, Call};
use minijinja::value::Value;
use minijinja::Error;
use std::cmp::Ordering;

pub const FILTERS: &[(&str, Body)] = &[
    ("tojson", |c| {
        let mut out = String::new();
        to_json(c.value()?, &JsonStyle::of(c)?, 0, &mut out)?;
        Ok(Value::from(out))
    }),
    ("fromjson", |c| {
        let text = c.text(0, "value")?.unwrap_or_default();
        serde_json::from_str(&text).map_err(|e| failed(&format!("fromjson: {e}"))).and_then(value_of)
    }),
    ("length", |c| length(c.value()?).map(Value::from)),
    ("count", |c| length(c.value()?).map(Value::from)),
    ("default", default),
    ("d", default),
    ("list", |c| list(iterate(c.value()?)?)),
    ("first", |c| Ok(iterate(c.value()?)?.into_iter().next().unwrap_or(Value::UNDEFINED))),
    ("last", |c| Ok(reversible(c.value()?)?.pop().unwrap_or(Value::UNDEFINED))),
    ("reverse", reverse),
    ("items", |c| match c.value()?.downcast_object_ref::<Dict>() {
        Some(dict) => generator(dict.pairs().into_iter().map(|(key, item)| pair(key, item)).collect::<Result<_, _>>()?),
        None if c.value()?.is_undefined() => generator(Vec::new()),
        None => Err(failed("items: a dict is wanted")),
    }),
    ("dictsort", dictsort),
    ("sort", |c| {
        let (fold, attribute) = (!c.flag(2, "case_sensitive", false), c.optional(3, "attribute"));
        let key = |item: &Value| keys(item, attribute.as_ref(), fold);
        list(sorted(iterate(c.value()?)?, key, c.flag(1, "reverse", false))?)
    }),
    ("unique", unique),
    ("min", |c| extreme(c, Ordering::Less)),
    ("max", |c| extreme(c, Ordering::Greater)),
    ("map", map),
    ("select", |c| choose(c, None, true)),
    ("reject", |c| choose(c, None, false)),
    ("selectattr", |c| choose(c, Some(&c.required(1, "attribute")?), true)),
    ("rejectattr", |c| choose(c, Some(&c.required(1, "attribute")?), false)),
    ("int", |c| Ok(integer(c.value()?, c.integer(2, "base")?).unwrap_or(c.optional(1, "default").unwrap_or(Value::from(0))))),
    ("float", |c| Ok(float(c.value()?).map(Value::from).unwrap_or(c.optional(1, "default").unwrap_or(Value::from(0.0))))),
    ("abs", |c| match Number::of(c.value()?) {
        Some(Number::Int(x)) => Ok(Value::from(x.wrapping_abs())),
        Some(Number::Float(x)) => Ok(Value::from(x.abs())),
        None => Err(failed(&format!("abs: bad operand '{}'", type_name(c.value()?)))),
    }),
    ("round", round),
    ("attr", |c| {
        let name = c.text(1, "name")?.unwrap_or_default();
        Ok(c.value()?.get_attr(&name).unwrap_or(Value::UNDEFINED))
    }),
];

fn default(call: &Call) -> Result<Value, Error> {
    let value = call.value()?;
    let otherwise = || call.optional(1, "default_value").unwrap_or(Value::from(""));
    let missing = value.is_undefined() || (call.flag(2, "boolean", false) && !value.is_true());
    Ok(if missing { otherwise() } else { value.clone() })
}

/// Python's reversed() takes what has a length.
fn reversible(value: &Value) -> Result<Vec<Value>, Error> {
    if value.downcast_object_ref::<Generator>().is_some() {
        return Err(failed("'generator' object is not reversible"));
    }
    iterate(value)
}

fn reverse(call: &Call) -> Result<Value, Error> {
    let value = call.value()?;
    if let Some(text) = value.as_str() {
        return Ok(Value::from(text.chars().rev().collect::<String>()));
    }
    generator(iterate(value)?.into_iter().rev().collect())
}

fn folded(value: &Value, fold: bool) -> Value {
    match value.as_str() {
        Some(text) if fold => Value::from(text.to_lowercase()),
        _ => value.clone(),
    }
}

/// `item`'s attribute: a name, a number, or several joined by dots.
pub fn path(value: &Value, attribute: &Value) -> Result<Value, Error> {
    let Some(names) = attribute.as_str() else { return item(value, attribute) };
    let mut found = value.clone();
    for name in names.split('.') {
        found = item(&found, &name.parse::<i64>().map_or_else(|_| Value::from(name), Value::from))?;
    }
    Ok(found)
}

/// What to sort by: the item or its attributes, which commas part.
fn keys(value: &Value, attribute: Option<&Value>, fold: bool) -> Result<Value, Error> {
    match attribute.filter(|given| !given.is_none()) {
        None => Ok(folded(value, fold)),
        Some(given) => match given.as_str() {
            None => Ok(folded(&item(value, given)?, fold)),
            Some(names) => {
                let parts = names.split(',').map(|name| Ok(folded(&path(value, &Value::from(name))?, fold)));
                list(parts.collect::<Result<_, Error>>()?)
            }
        },
    }
}

/// Stable, as Python's sorted() is in both directions.
pub fn sorted(items: Vec<Value>, key: impl Fn(&Value) -> Result<Value, Error>, reverse: bool) -> Result<Vec<Value>, Error> {
    let mut failure = None;
    let mut keyed: Vec<(Value, Value)> = items.into_iter().map(|item| Ok((key(&item)?, item))).collect::<Result<_, Error>>()?;
    keyed.sort_by(|(a, _), (b, _)| {
        if failure.is_some() {
            return Ordering::Equal;
        }
        let (first, second) = if reverse { (b, a) } else { (a, b) };
        order(first, second, "<", 0).unwrap_or_else(|error| {
            failure = Some(error);
            None
        }).unwrap_or(Ordering::Equal)
    });
    match failure {
        Some(error) => Err(error),
        None => Ok(keyed.into_iter().map(|(_, item)| item).collect()),
    }
}

fn dictsort(call: &Call) -> Result<Value, Error> {
    let Some(dict) = call.value()?.downcast_object_ref::<Dict>() else { return Err(failed("dictsort: a dict is wanted")) };
    let fold = !call.flag(1, "case_sensitive", false);
    let place = match call.text(2, "by")?.as_deref() {
        None | Some("key") => 0,
        Some("value") => 1,
        Some(_) => return Err(failed("dictsort: by is \"key\" or \"value\"")),
    };
    let pairs = dict.pairs().into_iter().map(|(key, item)| pair(key, item)).collect::<Result<_, _>>()?;
    let key = |entry: &Value| Ok(folded(&item(entry, &Value::from(place))?, fold));
    list(sorted(pairs, key, call.flag(3, "reverse", false))?)
}

fn unique(call: &Call) -> Result<Value, Error> {
    let (fold, attribute) = (!call.flag(1, "case_sensitive", false), call.optional(2, "attribute"));
    let mut seen: Vec<Value> = Vec::new();
    let mut kept = Vec::new();
    'items: for item in iterate(call.value()?)? {
        let key = keys(&item, attribute.as_ref(), fold)?;
        for earlier in &seen {
            super::budget::charge(1)?;
            if equal(earlier, &key, 0)? {
                continue 'items;
            }
        }
        seen.push(key);
        kept.push(item);
    }
    generator(kept)
}

fn extreme(call: &Call, wanted: Ordering) -> Result<Value, Error> {
    let (fold, attribute) = (!call.flag(1, "case_sensitive", false), call.optional(2, "attribute"));
    let mut best: Option<(Value, Value)> = None;
    for item in iterate(call.value()?)? {
        let key = keys(&item, attribute.as_ref(), fold)?;
        let better = match &best {
            None => true,
            Some((other, _)) => order(&key, other, "<", 0)? == Some(wanted),
        };
        if better {
            best = Some((key, item));
        }
    }
    Ok(best.map_or(Value::UNDEFINED, |(_, item)| item))
}

/// `map("filter", ...)` and `map(attribute=..., default=...)`.
fn map(call: &Call) -> Result<Value, Error> {
    let items = iterate(call.value()?)?;
    let mapped: Vec<Value> = match call.positional.get(1) {
        Some(filter) => {
            let name = filter.as_str().ok_or_else(|| failed("map: the name of a filter is wanted"))?;
            items
                .into_iter()
                .map(|item| {
                    let mut args = vec![item];
                    args.extend_from_slice(&call.all[2..]);
                    call.state.apply_filter(name, &args)
                })
                .collect::<Result<_, _>>()?
        }
        None => {
            let attribute = call.named.peek::<Value>("attribute").map_err(|_| failed("map: a filter or an attribute is wanted"))?;
            let otherwise = call.named.peek::<Value>("default").ok();
            items
                .iter()
                .map(|item| {
                    let found = path(item, &attribute)?;
                    Ok(if found.is_undefined() { otherwise.clone().unwrap_or(found) } else { found })
                })
                .collect::<Result<_, Error>>()?
        }
    };
    generator(mapped)
}

/// The items that pass a test, or whose attribute passes it; without a test, those that are true.
fn choose(call: &Call, attribute: Option<&Value>, wanted: bool) -> Result<Value, Error> {
    let at = if attribute.is_some() { 2 } else { 1 };
    let mut kept = Vec::new();
    for item in iterate(call.value()?)? {
        let subject = attribute.map_or_else(|| Ok(item.clone()), |attribute| path(&item, attribute))?;
        let passes = match call.positional.get(at) {
            None => subject.is_true(),
            Some(test) => {
                let name = test.as_str().ok_or_else(|| failed("the name of a test is wanted"))?;
                let mut args = vec![subject];
                args.extend_from_slice(&call.all[at + 1..]);
                call.state.perform_test(name, &args)?
            }
        };
        if passes == wanted {
            kept.push(item);
        }
    }
    generator(kept)
}

/// Python's int(value), then int(float(value)).
fn integer(value: &Value, base: Option<i64>) -> Option<Value> {
    if let Some(text) = value.as_str() {
        let digits = text.trim_matches(super::python_space);
        let radix = u32::try_from(base.unwrap_or(10)).ok().filter(|radix| (2..=36).contains(radix))?;
        let digits = match radix {
            16 => digits.trim_start_matches("0x"),
            8 => digits.trim_start_matches("0o"),
            2 => digits.trim_start_matches("0b"),
            _ => digits,
        };
        if let Ok(number) = i128::from_str_radix(digits, radix) {
            return Some(Value::from(number));
        }
    }
    match Number::of(value) {
        Some(Number::Int(x)) => Some(Value::from(x)),
        _ => float(value).filter(|x| x.is_finite()).map(|x| Value::from(x as i128)),
    }
}

fn float(value: &Value) -> Option<f64> {
    match value.as_str() {
        Some(text) => text.trim_matches(super::python_space).parse().ok(),
        None => Number::of(value).map(Number::float),
    }
}

fn round(call: &Call) -> Result<Value, Error> {
    let precision = usize::try_from(call.integer(1, "precision")?.unwrap_or(0)).map_err(|_| failed("round: a negative precision"))?;
    let number = Number::of(call.value()?).ok_or_else(|| failed("round: a number is wanted"))?;
    let scale = 10f64.powi(i32::try_from(precision).unwrap_or(i32::MAX));
    match (call.text(2, "method")?.as_deref(), number) {
        (None | Some("common"), Number::Int(x)) => Ok(Value::from(x)),
        // Exact digits, ties to even: Python's round().
        (None | Some("common"), Number::Float(x)) => Ok(Value::from(format!("{x:.*}", precision.min(1000)).parse::<f64>().unwrap_or(x))),
        (Some("ceil"), number) => Ok(Value::from((number.float() * scale).ceil() / scale)),
        (Some("floor"), number) => Ok(Value::from((number.float() * scale).floor() / scale)),
        _ => Err(failed("round: the method is common, ceil or floor")),
    }
}
