//! The methods of Python's lists, dicts and texts.

use super::budget::charge;
use super::operators::equal;
use super::strings::{self, capitalize, cut_both, title};
use super::values::{iterate, list, pair, position, sequence, tuple, type_name, Dict, Kind, List};
use super::{failed, python_space, Call};
use minijinja::value::Value;
use minijinja::{Error, ErrorKind, State};
use std::sync::Arc;

fn none() -> Value {
    Value::from(())
}

fn place_of(items: &[Value], item: &Value) -> Result<Option<usize>, Error> {
    for (i, candidate) in items.iter().enumerate() {
        if equal(candidate, item, 0)? {
            return Ok(Some(i));
        }
    }
    Ok(None)
}

/// The methods that lists and tuples share.
pub fn of_items(items: &[Value], method: &str, call: &Call) -> Result<Value, Error> {
    match method {
        "index" => {
            let found = place_of(items, call.value()?)?;
            found.map(Value::from).ok_or_else(|| failed("index(): the item is not in the list"))
        }
        "count" => {
            let mut count = 0;
            for item in items {
                count += u32::from(equal(item, call.value()?, 0)?);
            }
            Ok(Value::from(count))
        }
        _ => Err(Error::from(ErrorKind::UnknownMethod)),
    }
}

pub fn of_list(list: &Arc<List>, method: &str, call: &Call) -> Result<Value, Error> {
    match method {
        "append" => {
            list.admit(&[call.value()?.clone()])?;
            list.with(|items| items.push(call.positional[0].clone()));
        }
        "extend" => {
            let more = iterate(call.value()?)?;
            list.admit(&more)?;
            list.with(|items| items.extend(more));
        }
        "insert" => {
            let (index, item) = (call.integer(0, "index")?.unwrap_or(0), call.required(1, "object")?);
            list.admit(std::slice::from_ref(&item))?;
            list.with(|items| {
                let at = position(index, items.len()).unwrap_or(if index < 0 { 0 } else { items.len() });
                items.insert(at, item);
            });
        }
        "pop" => {
            let index = call.integer(0, "index")?.unwrap_or(-1);
            let item = list.with(|items| position(index, items.len()).map(|at| items.remove(at)));
            return item.ok_or_else(|| failed("pop index out of range"));
        }
        "remove" => {
            let at = place_of(&list.with(|items| items.clone()), call.value()?)?;
            let at = at.ok_or_else(|| failed("remove(): the item is not in the list"))?;
            list.with(|items| items.remove(at));
        }
        "clear" => list.with(Vec::clear),
        "reverse" => list.with(|items| items.reverse()),
        "copy" => return super::values::list(list.with(|items| items.clone())),
        "sort" => {
            let sorted = super::filters::sorted(list.with(|items| items.clone()), |item| Ok(item.clone()), call.flag(1, "reverse", false))?;
            list.with(|items| *items = sorted);
        }
        _ => return of_items(&list.with(|items| items.clone()), method, call),
    }
    Ok(none())
}

pub fn of_dict(dict: &Arc<Dict>, method: &str, call: &Call) -> Result<Value, Error> {
    match method {
        "get" => {
            let key = call.value()?;
            super::values::check_key(key)?;
            Ok(dict.with(|items| items.get(key).cloned()).or(call.optional(1, "default")).unwrap_or_else(none))
        }
        "items" => {
            let pairs = dict.pairs().into_iter().map(|(key, item)| pair(key, item)).collect::<Result<_, _>>()?;
            sequence(pairs, Kind::View("dict_items"))
        }
        "keys" => sequence(dict.keys(), Kind::View("dict_keys")),
        "values" => sequence(dict.pairs().into_iter().map(|(_, item)| item).collect(), Kind::View("dict_values")),
        "copy" => super::values::dict(dict.pairs().into_iter().collect()),
        "clear" => {
            dict.with(|items| items.clear());
            Ok(none())
        }
        "update" => {
            for (key, item) in super::operators::named(call)? {
                dict.insert(key, item)?;
            }
            Ok(none())
        }
        "setdefault" => {
            let key = call.value()?.clone();
            if let Some(found) = dict.with(|items| items.get(&key).cloned()) {
                return Ok(found);
            }
            let item = call.optional(1, "default").unwrap_or_else(none);
            dict.insert(key, item.clone())?;
            Ok(item)
        }
        "pop" => {
            let key = call.value()?;
            let found = dict.with(|items| items.shift_remove(key)).or(call.optional(1, "default"));
            Ok(found.ok_or_else(|| failed(&format!("pop(): there is no key {key}")))?)
        }
        "popitem" => {
            let (key, item) = dict.with(|items| items.pop()).ok_or_else(|| failed("popitem(): the dict is empty"))?;
            pair(key, item)
        }
        _ => Err(Error::from(ErrorKind::UnknownMethod)),
    }
}

/// Methods of texts; of what else has methods that minijinja's Python layer knows.
pub fn of_text(state: &State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    let Some(text) = value.as_str() else {
        return Err(Error::from(if value.is_undefined() { ErrorKind::UndefinedError } else { ErrorKind::UnknownMethod }));
    };
    let call = Call::new(state, args)?;
    charge(text.len())?;
    match method {
        "split" | "rsplit" => split(text, &call, method == "rsplit"),
        "splitlines" => list(strings::lines(text).into_iter().map(Value::from).collect()),
        "strip" => strip(text, &call, true, true),
        "lstrip" => strip(text, &call, true, false),
        "rstrip" => strip(text, &call, false, true),
        "startswith" => any_affix(call.value()?, |affix| text.starts_with(affix)),
        "endswith" => any_affix(call.value()?, |affix| text.ends_with(affix)),
        "removeprefix" => Ok(Value::from(text.strip_prefix(argument(&call)?.as_str()).unwrap_or(text))),
        "removesuffix" => Ok(Value::from(text.strip_suffix(argument(&call)?.as_str()).unwrap_or(text))),
        "replace" => {
            let (old, new) = (argument(&call)?, call.text(1, "new")?.ok_or_else(|| failed("replace() takes two texts"))?);
            strings::replaced(text, &old, &new, call.integer(2, "count")?).map(Value::from)
        }
        "upper" => Ok(Value::from(text.to_uppercase())),
        "lower" => Ok(Value::from(text.to_lowercase())),
        "title" => Ok(Value::from(title(text))),
        "capitalize" => Ok(Value::from(capitalize(text))),
        "join" => strings::joined(&iterate(call.value()?)?, text, /*strict=*/ true),
        "find" | "rfind" | "index" | "rindex" => find(text, method, &argument(&call)?),
        "count" => {
            let part = argument(&call)?;
            Ok(Value::from(if part.is_empty() { text.chars().count() + 1 } else { text.matches(part.as_str()).count() }))
        }
        "partition" | "rpartition" => partition(text, &argument(&call)?, method == "rpartition"),
        "ljust" | "rjust" | "center" | "zfill" => strings::justified(text, method, &call),
        "format" => strings::formatted(text, &call),
        _ => minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args),
    }
}

fn argument(call: &Call) -> Result<String, Error> {
    call.text(0, "argument")?.ok_or_else(|| failed("a text is wanted as argument"))
}

fn strip(text: &str, call: &Call, left: bool, right: bool) -> Result<Value, Error> {
    Ok(Value::from(cut_both(text, call.text(0, "chars")?.as_deref(), left, right)))
}

fn any_affix(affixes: &Value, has: impl Fn(&str) -> bool) -> Result<Value, Error> {
    if let Some(affix) = affixes.as_str() {
        return Ok(Value::from(has(affix)));
    }
    if type_name(affixes) != "tuple" {
        return Err(failed(&format!("a text or a tuple of texts is wanted, not '{}'", type_name(affixes))));
    }
    Ok(Value::from(iterate(affixes)?.iter().any(|affix| affix.as_str().is_some_and(&has))))
}

fn split(text: &str, call: &Call, from_right: bool) -> Result<Value, Error> {
    let separator = call.text(0, "sep")?;
    let limit = call.integer(1, "maxsplit")?.and_then(|n| usize::try_from(n).ok());
    let mut parts: Vec<&str> = match (&separator, limit, from_right) {
        (Some(s), ..) if s.is_empty() => return Err(failed("empty separator")),
        (Some(s), None, _) => text.split(s.as_str()).collect(),
        (Some(s), Some(n), false) => text.splitn(n.saturating_add(1), s.as_str()).collect(),
        (Some(s), Some(n), true) => text.rsplitn(n.saturating_add(1), s.as_str()).collect(),
        (None, limit, _) => words(text, limit.unwrap_or(usize::MAX), from_right),
    };
    if from_right && (separator.is_none() || limit.is_some()) {
        parts.reverse();
    }
    list(parts.into_iter().map(Value::from).collect())
}

/// What runs of white space part, at most `limit` times; from the right in reverse.
fn words(text: &str, limit: usize, from_right: bool) -> Vec<&str> {
    let mut rest = if from_right { text.trim_end_matches(python_space) } else { text.trim_start_matches(python_space) };
    let mut parts = Vec::new();
    while !rest.is_empty() && parts.len() < limit {
        let found = if from_right { rest.rfind(python_space) } else { rest.find(python_space) };
        let Some(at) = found else { break };
        if from_right {
            parts.push(rest[at..].trim_start_matches(python_space));
            rest = rest[..at].trim_end_matches(python_space);
        } else {
            parts.push(&rest[..at]);
            rest = rest[at..].trim_start_matches(python_space);
        }
    }
    if !rest.is_empty() {
        parts.push(rest);
    }
    parts
}

fn find(text: &str, method: &str, part: &str) -> Result<Value, Error> {
    let found = if method.starts_with('r') { text.rfind(part) } else { text.find(part) };
    match found {
        Some(at) => Ok(Value::from(text[..at].chars().count())),
        None if method.ends_with("find") => Ok(Value::from(-1)),
        None => Err(failed("substring not found")),
    }
}

fn partition(text: &str, separator: &str, from_right: bool) -> Result<Value, Error> {
    if separator.is_empty() {
        return Err(failed("empty separator"));
    }
    let found = if from_right { text.rsplit_once(separator) } else { text.split_once(separator) };
    let parts = match found {
        Some((before, after)) => [before, separator, after],
        None if from_right => ["", "", text],
        None => [text, "", ""],
    };
    tuple(parts.map(Value::from).to_vec())
}
