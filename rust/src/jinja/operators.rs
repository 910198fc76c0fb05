//! Python's operators, and the functions that `expression.rs` and templates call.

use super::budget::charge;
use super::python::{percent_format, printed};
use super::values::{
    attribute, dict, held, is_dict, iterable, iterate, list, sequence, tuple, type_name, Dict, Generator, Kind, List, Sequence, MAX_DEPTH,
};
use super::{failed, Body, Call};
use indexmap::IndexMap;
use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind};
use std::cmp::Ordering;

/// As Jinja2's sandbox has it.
const MAX_RANGE: i128 = 100_000;
/// Comparing and searching cost less than making text.
const BYTES_READ_PER_CHARGE: usize = 16;

pub const FUNCTIONS: &[(&str, Body)] = &[
    ("__math", math),
    ("__concat", concat),
    ("__compare", compare),
    ("__sign", sign),
    ("__item", |c| item(c.value()?, &c.positional[1])),
    ("__attribute", |c| attribute(c.value()?, c.positional[1].as_str().unwrap_or(""))),
    ("__slice", slice),
    ("__list", |c| list(c.positional.to_vec())),
    ("__tuple", |c| tuple(c.positional.to_vec())),
    ("__dict", |c| dict(c.positional.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect())),
    ("__iterable", |c| iterable(c.value()?.clone())),
    ("__held", |c| held(c.value()?.clone())),
    ("__test", test),
    ("__charge", |c| charge(usize::try_from(c.value()?.clone())?).map(|()| Value::from(""))),
    ("range", range),
    ("dict", |c| dict(named(c)?)),
    ("namespace", namespace),
    ("raise_exception", |c| Err(failed(&format!("{}{}", super::RAISED, printed(c.value()?)?)))),
    ("strftime_now", |c| strftime_now(&c.text(0, "format")?.unwrap_or_default())),
];

#[derive(Clone, Copy)]
pub enum Number {
    Int(i128),
    Float(f64),
}

impl Number {
    /// A bool is a number, as in Python.
    pub fn of(value: &Value) -> Option<Number> {
        match value.kind() {
            ValueKind::Bool => Some(Number::Int(i128::from(value.is_true()))),
            ValueKind::Number if value.is_integer() => i128::try_from(value.clone()).ok().map(Number::Int),
            ValueKind::Number => f64::try_from(value.clone()).ok().map(Number::Float),
            _ => None,
        }
    }

    pub fn float(self) -> f64 {
        match self {
            Number::Int(x) => x as f64,
            Number::Float(x) => x,
        }
    }
}

fn unsupported(operator: &str, left: &Value, right: &Value) -> Error {
    if left.is_undefined() || right.is_undefined() {
        return Error::new(ErrorKind::UndefinedError, format!("an operand of {operator} is undefined"));
    }
    failed(&format!("unsupported operand types for {operator}: '{}' and '{}'", type_name(left), type_name(right)))
}

fn math(call: &Call) -> Result<Value, Error> {
    let mut result = call.value()?.clone();
    for step in call.positional[1..].chunks(2) {
        result = binary(step[0].as_str().unwrap_or(""), &result, &step[1])?;
    }
    Ok(result)
}

fn binary(operator: &str, left: &Value, right: &Value) -> Result<Value, Error> {
    match (operator, left.as_str(), right.as_str()) {
        ("+", Some(a), Some(b)) => {
            charge(a.len() + b.len())?;
            return Ok(Value::from([a, b].concat()));
        }
        ("%", Some(format), _) => return percent_format(format, right).map(Value::from),
        ("+", ..) if is_list(left) && is_list(right) => {
            return list(iterate(left)?.into_iter().chain(iterate(right)?).collect());
        }
        ("+", ..) if is_tuple(left) && is_tuple(right) => {
            return tuple(iterate(left)?.into_iter().chain(iterate(right)?).collect());
        }
        ("*", ..) if repeats(left) && right.is_integer() => return repeat(left, right),
        ("*", ..) if repeats(right) && left.is_integer() => return repeat(right, left),
        _ => {}
    }
    let (Some(a), Some(b)) = (Number::of(left), Number::of(right)) else { return Err(unsupported(operator, left, right)) };
    match (a, b) {
        (Number::Int(a), Number::Int(b)) => integers(operator, a, b),
        _ => floats(operator, a.float(), b.float()),
    }
}

fn is_list(value: &Value) -> bool {
    value.downcast_object_ref::<List>().is_some()
}

fn is_tuple(value: &Value) -> bool {
    value.downcast_object_ref::<Sequence>().is_some_and(|sequence| sequence.kind == Kind::Tuple)
}

fn repeats(value: &Value) -> bool {
    value.as_str().is_some() || is_list(value) || is_tuple(value)
}

fn repeat(value: &Value, count: &Value) -> Result<Value, Error> {
    let count = usize::try_from(i128::try_from(count.clone())?.max(0)).unwrap_or(usize::MAX);
    if let Some(text) = value.as_str() {
        charge(text.len().saturating_mul(count))?;
        return Ok(Value::from(text.repeat(if text.is_empty() { 0 } else { count })));
    }
    let items = iterate(value)?;
    charge(items.len().saturating_mul(count).saturating_mul(std::mem::size_of::<Value>()))?;
    let repeated = if items.is_empty() { items } else { items.iter().cycle().take(items.len() * count).cloned().collect() };
    if is_list(value) { list(repeated) } else { tuple(repeated) }
}

fn integers(operator: &str, a: i128, b: i128) -> Result<Value, Error> {
    if b == 0 && matches!(operator, "/" | "//" | "%") {
        return Err(failed("division by zero"));
    }
    let result = match operator {
        "+" => a.checked_add(b),
        "-" => a.checked_sub(b),
        "*" => a.checked_mul(b),
        "//" => a.checked_div(b).map(|q| if a % b != 0 && (a < 0) != (b < 0) { q - 1 } else { q }),
        "%" => a.checked_rem(b).map(|r| if r != 0 && (r < 0) != (b < 0) { r + b } else { r }),
        "**" if b >= 0 => u32::try_from(b).ok().and_then(|b| a.checked_pow(b)),
        _ => return floats(operator, a as f64, b as f64),
    };
    result.map(Value::from).ok_or_else(|| failed("an integer is too large"))
}

fn floats(operator: &str, a: f64, b: f64) -> Result<Value, Error> {
    if b == 0.0 && matches!(operator, "/" | "//" | "%") {
        return Err(failed("division by zero"));
    }
    let remainder = if a % b != 0.0 && ((a % b < 0.0) != (b < 0.0)) { a % b + b } else { a % b };
    Ok(Value::from(match operator {
        "+" => a + b,
        "-" => a - b,
        "*" => a * b,
        "/" => a / b,
        "//" => ((a - remainder) / b).round(),
        "%" => remainder,
        _ => a.powf(b),
    }))
}

fn sign(call: &Call) -> Result<Value, Error> {
    let (sign, value) = (call.value()?, &call.positional[1]);
    let minus = sign.as_str() == Some("-");
    match Number::of(value) {
        Some(Number::Int(x)) => Ok(Value::from(if minus { -x } else { x })),
        Some(Number::Float(x)) => Ok(Value::from(if minus { -x } else { x })),
        None => Err(unsupported("a sign", value, value)),
    }
}

fn concat(call: &Call) -> Result<Value, Error> {
    let mut out = String::new();
    for part in call.positional {
        let text = printed(part)?;
        charge(text.len())?;
        out.push_str(&text);
    }
    Ok(Value::from(out))
}

fn compare(call: &Call) -> Result<Value, Error> {
    let mut left = call.value()?;
    for step in call.positional[1..].chunks(2) {
        let right = &step[1];
        let holds = match step[0].as_str().unwrap_or("") {
            "==" => equal(left, right, 0)?,
            "!=" => !equal(left, right, 0)?,
            "in" => contains(right, left)?,
            "not in" => !contains(right, left)?,
            operator => {
                let order = order(left, right, operator, 0)?;
                match operator {
                    "<" => order == Some(Ordering::Less),
                    "<=" => matches!(order, Some(Ordering::Less | Ordering::Equal)),
                    ">" => order == Some(Ordering::Greater),
                    _ => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
                }
            }
        };
        if !holds {
            return Ok(Value::from(false));
        }
        left = right;
    }
    Ok(Value::from(true))
}

fn check_depth(depth: usize) -> Result<(), Error> {
    if depth > MAX_DEPTH { Err(failed("a value is nested too deeply")) } else { Ok(()) }
}

/// Python's `==`: a bool equals a number, a list no tuple.
pub fn equal(left: &Value, right: &Value, depth: usize) -> Result<bool, Error> {
    check_depth(depth)?;
    if let (Some(a), Some(b)) = (left.as_str(), right.as_str()) {
        charge(a.len().min(b.len()) / BYTES_READ_PER_CHARGE)?;
        return Ok(a == b);
    }
    if let (Some(a), Some(b)) = (Number::of(left), Number::of(right)) {
        return Ok(match (a, b) {
            (Number::Int(a), Number::Int(b)) => a == b,
            _ => a.float() == b.float(),
        });
    }
    if (is_list(left) && is_list(right)) || (is_tuple(left) && is_tuple(right)) {
        let (a, b) = (iterate(left)?, iterate(right)?);
        if a.len() != b.len() {
            return Ok(false);
        }
        for (a, b) in a.iter().zip(&b) {
            if !equal(a, b, depth + 1)? {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    if let (Some(a), Some(b)) = (left.downcast_object_ref::<Dict>(), right.downcast_object_ref::<Dict>()) {
        let a = a.pairs();
        charge(a.len())?;
        if a.len() != b.with(|items| items.len()) {
            return Ok(false);
        }
        for (key, item) in a {
            let Some(other) = b.with(|items| items.get(&key).cloned()) else { return Ok(false) };
            if !equal(&item, &other, depth + 1)? {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    Ok(left.kind() == right.kind() && matches!(left.kind(), ValueKind::None | ValueKind::Undefined))
}

/// None where floats have no order.
pub fn order(left: &Value, right: &Value, operator: &str, depth: usize) -> Result<Option<Ordering>, Error> {
    check_depth(depth)?;
    if let (Some(a), Some(b)) = (left.as_str(), right.as_str()) {
        charge(a.len().min(b.len()) / BYTES_READ_PER_CHARGE)?;
        return Ok(Some(a.cmp(b)));
    }
    if let (Some(a), Some(b)) = (Number::of(left), Number::of(right)) {
        return Ok(match (a, b) {
            (Number::Int(a), Number::Int(b)) => Some(a.cmp(&b)),
            _ => a.float().partial_cmp(&b.float()),
        });
    }
    if (is_list(left) && is_list(right)) || (is_tuple(left) && is_tuple(right)) {
        let (a, b) = (iterate(left)?, iterate(right)?);
        for (a, b) in a.iter().zip(&b) {
            if !equal(a, b, depth + 1)? {
                return order(a, b, operator, depth + 1);
            }
        }
        return Ok(Some(a.len().cmp(&b.len())));
    }
    Err(unsupported(operator, left, right))
}

/// Python's `item in container`.
pub fn contains(container: &Value, item: &Value) -> Result<bool, Error> {
    if let Some(text) = container.as_str() {
        let part = item.as_str().ok_or_else(|| failed(&format!("'in <text>' requires a text, not '{}'", type_name(item))))?;
        charge(text.len() / BYTES_READ_PER_CHARGE)?;
        return Ok(text.contains(part));
    }
    if let Some(dict) = container.downcast_object_ref::<Dict>() {
        super::values::check_key(item)?;
        return Ok(dict.with(|items| items.contains_key(item)));
    }
    for candidate in iterate(container)? {
        if equal(&candidate, item, 0)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// `value[key]`; undefined where there is no such item.
pub fn item(value: &Value, key: &Value) -> Result<Value, Error> {
    if value.is_undefined() {
        return Err(Error::new(ErrorKind::UndefinedError, format!("it has no item {}", printed(key)?)));
    }
    if let Some(text) = value.as_str() {
        let Ok(index) = i64::try_from(key.clone()) else { return Ok(Value::UNDEFINED) };
        let from_end = index < 0;
        let at = usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX);
        charge(text.len() / BYTES_READ_PER_CHARGE)?;
        let found = if from_end { text.chars().rev().nth(at - 1) } else { text.chars().nth(at) };
        return Ok(found.map_or(Value::UNDEFINED, |c| Value::from(c.to_string())));
    }
    if value.downcast_object_ref::<Generator>().is_some() {
        return Ok(Value::UNDEFINED);
    }
    Ok(value.get_item(key).unwrap_or(Value::UNDEFINED))
}

/// The places that Python's slice takes of `length` items.
fn slice_places(bounds: [Option<i64>; 3], length: usize) -> Result<Vec<usize>, Error> {
    let [start, stop, step] = bounds;
    let (step, length) = (step.unwrap_or(1), i64::try_from(length).unwrap_or(i64::MAX));
    if step == 0 {
        return Err(failed("slice step cannot be zero"));
    }
    let (low, high) = if step > 0 { (0, length) } else { (-1, length - 1) };
    let place = |bound: Option<i64>, otherwise: i64| match bound {
        None => otherwise,
        Some(at) if at < 0 => at.saturating_add(length).max(low),
        Some(at) => at.min(high),
    };
    let mut at = place(start, if step > 0 { low } else { high });
    let stop = place(stop, if step > 0 { high } else { low });
    let mut places = Vec::new();
    while (step > 0 && at < stop) || (step < 0 && at > stop) {
        places.extend(usize::try_from(at).ok());
        at = at.saturating_add(step);
    }
    Ok(places)
}

fn slice(call: &Call) -> Result<Value, Error> {
    let value = call.value()?;
    let bounds = [call.integer(1, "start")?, call.integer(2, "stop")?, call.integer(3, "step")?];
    if let Some(text) = value.as_str() {
        charge(text.len())?;
        let characters: Vec<char> = text.chars().collect();
        let places = slice_places(bounds, characters.len())?;
        return Ok(Value::from(places.into_iter().map(|at| characters[at]).collect::<String>()));
    }
    if value.is_undefined() {
        return Err(Error::new(ErrorKind::UndefinedError, "it cannot be sliced"));
    }
    if value.kind() != ValueKind::Seq {
        return Ok(Value::UNDEFINED);
    }
    let items = iterate(value)?;
    let places = slice_places(bounds, items.len())?;
    let taken = places.into_iter().map(|at| items[at].clone()).collect();
    if value.downcast_object_ref::<Sequence>().is_some() { tuple(taken) } else { list(taken) }
}

fn test(call: &Call) -> Result<Value, Error> {
    let name = call.positional[1].as_str().unwrap_or("");
    let mut args = vec![call.positional[0].clone()];
    args.extend_from_slice(&call.positional[2..]);
    call.state.perform_test(name, &args).map(Value::from)
}

fn range(call: &Call) -> Result<Value, Error> {
    let bounds: Vec<i128> = call
        .positional
        .iter()
        .map(|bound| match Number::of(bound) {
            Some(Number::Int(at)) => Ok(at),
            _ => Err(failed("range() takes integers")),
        })
        .collect::<Result<_, _>>()?;
    let (start, stop, step) = match bounds[..] {
        [stop] => (0, stop, 1),
        [start, stop] => (start, stop, 1),
        [start, stop, step] if step != 0 => (start, stop, step),
        _ => return Err(failed("range() takes one to three integers, the step not zero")),
    };
    let span = if step > 0 { stop.saturating_sub(start) } else { start.saturating_sub(stop) };
    let count = if span <= 0 { 0 } else { (span - 1) / step.saturating_abs() + 1 };
    if count > MAX_RANGE {
        return Err(failed("the range is too big"));
    }
    let items = (0..count).map(|i| Value::from(start + i * step)).collect();
    let text = if step == 1 { format!("range({start}, {stop})") } else { format!("range({start}, {stop}, {step})") };
    sequence(items, Kind::Range(text))
}

/// What `dict(...)` makes of its arguments.
pub fn named(call: &Call) -> Result<IndexMap<Value, Value>, Error> {
    let mut items = IndexMap::new();
    if let Some(first) = call.positional.first() {
        if let Some(dict) = first.downcast_object_ref::<Dict>() {
            items.extend(dict.pairs());
        } else {
            for entry in iterate(first)? {
                let [key, value] = <[Value; 2]>::try_from(iterate(&entry)?).map_err(|_| failed("dict() takes pairs"))?;
                super::values::check_key(&key)?;
                items.insert(key, value);
            }
        }
    }
    for name in call.named.args() {
        items.insert(Value::from(name), call.named.peek::<Value>(name)?);
    }
    Ok(items)
}

fn namespace(call: &Call) -> Result<Value, Error> {
    if call.positional.first().is_some_and(|first| !is_dict(first)) {
        return Err(failed("namespace() takes a dict"));
    }
    let items = named(call)?;
    for value in items.values() {
        held(value.clone())?;
    }
    minijinja::functions::namespace(Some(Value::from_iter(items)))
}

fn strftime_now(format: &str) -> Result<Value, Error> {
    use chrono::format::{Item, StrftimeItems};
    charge(format.len())?;
    let items: Vec<Item> = StrftimeItems::new(format).collect();
    if items.contains(&Item::Error) {
        return Err(failed("strftime_now: bad format"));
    }
    Ok(Value::from(chrono::Local::now().format_with_items(items.iter()).to_string()))
}
