//! Jinja2's tests, on Python's types.

use super::operators::{contains, equal, order, Number};
use super::values::{is_dict, type_name, Generator};
use super::Call;
use minijinja::value::{Value, ValueKind};
use minijinja::Error;
use std::cmp::Ordering;

type Test = fn(&Call) -> Result<bool, Error>;

pub const TESTS: &[(&str, Test)] = &[
    ("defined", |c| Ok(!c.value()?.is_undefined())),
    ("undefined", |c| Ok(c.value()?.is_undefined())),
    ("none", |c| Ok(c.value()?.is_none())),
    ("string", |c| Ok(c.value()?.as_str().is_some())),
    ("mapping", |c| Ok(is_dict(c.value()?))),
    ("sequence", |c| Ok(is_sequence(c.value()?))),
    ("iterable", |c| Ok(is_sequence(c.value()?) || c.value()?.downcast_object_ref::<Generator>().is_some())),
    ("boolean", |c| Ok(c.value()?.kind() == ValueKind::Bool)),
    ("number", |c| Ok(Number::of(c.value()?).is_some())),
    ("integer", |c| Ok(type_name(c.value()?) == "int")),
    ("float", |c| Ok(type_name(c.value()?) == "float")),
    ("true", |c| Ok(c.value()?.kind() == ValueKind::Bool && c.value()?.is_true())),
    ("false", |c| Ok(c.value()?.kind() == ValueKind::Bool && !c.value()?.is_true())),
    ("callable", |c| Ok(!is_sequence(c.value()?) && c.value()?.as_object().is_some())),
    ("sameas", |c| {
        let (value, other) = (c.value()?, c.required(1, "other")?);
        Ok(value.kind() == other.kind() && equal(value, &other, 0)?)
    }),
    ("lower", |c| Ok(has_case(c.value()?, char::is_uppercase, char::is_lowercase))),
    ("upper", |c| Ok(has_case(c.value()?, char::is_lowercase, char::is_uppercase))),
    ("odd", |c| remainder(c.value()?, 2).map(|rest| rest == 1)),
    ("even", |c| remainder(c.value()?, 2).map(|rest| rest == 0)),
    ("divisibleby", |c| remainder(c.value()?, i128::from(c.integer(1, "num")?.unwrap_or(0))).map(|rest| rest == 0)),
    ("in", |c| contains(&c.required(1, "seq")?, c.value()?)),
    ("eq", is_equal),
    ("equalto", is_equal),
    ("==", is_equal),
    ("ne", |c| is_equal(c).map(|same| !same)),
    ("!=", |c| is_equal(c).map(|same| !same)),
    ("lt", is_less),
    ("lessthan", is_less),
    ("<", is_less),
    ("gt", is_greater),
    ("greaterthan", is_greater),
    (">", is_greater),
    ("le", |c| is_ordered(c, &[Ordering::Less, Ordering::Equal])),
    ("<=", |c| is_ordered(c, &[Ordering::Less, Ordering::Equal])),
    ("ge", |c| is_ordered(c, &[Ordering::Greater, Ordering::Equal])),
    (">=", |c| is_ordered(c, &[Ordering::Greater, Ordering::Equal])),
];

/// What has a length and items: an undefined value has both, too.
fn is_sequence(value: &Value) -> bool {
    value.is_undefined() || is_dict(value) || matches!(value.kind(), ValueKind::Seq | ValueKind::String)
}

fn is_equal(call: &Call) -> Result<bool, Error> {
    equal(call.value()?, &call.required(1, "other")?, 0)
}

fn is_less(call: &Call) -> Result<bool, Error> {
    is_ordered(call, &[Ordering::Less])
}

fn is_greater(call: &Call) -> Result<bool, Error> {
    is_ordered(call, &[Ordering::Greater])
}

fn is_ordered(call: &Call, wanted: &[Ordering]) -> Result<bool, Error> {
    Ok(order(call.value()?, &call.required(1, "other")?, "<", 0)?.is_some_and(|found| wanted.contains(&found)))
}

fn has_case(value: &Value, never: fn(char) -> bool, once: fn(char) -> bool) -> bool {
    let text = value.as_str().unwrap_or("");
    !text.chars().any(never) && text.chars().any(once)
}

fn remainder(value: &Value, divisor: i128) -> Result<i128, Error> {
    match Number::of(value) {
        Some(Number::Int(x)) if divisor > 0 => Ok(x.rem_euclid(divisor)),
        _ => Err(super::failed("integers are wanted")),
    }
}
