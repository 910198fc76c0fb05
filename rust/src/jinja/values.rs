//! Python's containers: lists and dicts that change in place, tuples, and what iterates once.

use super::budget::{charge, hold};
use super::{failed, Call};
use indexmap::IndexMap;
use minijinja::value::{Enumerator, Object, ObjectRepr, Value, ValueKind};
use minijinja::{Error, State};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Containers nest no deeper: they are printed, compared and freed recursively.
pub const MAX_DEPTH: usize = 200;
/// What one item of a list costs.
const ITEM_BYTES: usize = 48;

pub struct List {
    items: Mutex<Vec<Value>>,
    depth: AtomicUsize,
}

pub struct Dict {
    items: Mutex<IndexMap<Value, Value>>,
    depth: AtomicUsize,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    Tuple,
    /// What a dict's method gives; the name is printed.
    View(&'static str),
    /// As it is printed.
    Range(String),
}

/// Items that do not change.
pub struct Sequence {
    pub items: Vec<Value>,
    pub kind: Kind,
    depth: usize,
}

/// What filters like `map` give: true whatever is in it, without a length, and empty after the first iteration.
pub struct Generator(Mutex<Vec<Value>>);

/// `d.items` without a call.
struct BoundMethod(Value, String);

/// Without what they hold, which may be themselves.
macro_rules! debug_by_name {
    ($($name:ident),*) => {$(
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(stringify!($name))
            }
        }
    )*};
}
debug_by_name!(List, Dict, Sequence, Generator, BoundMethod);

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn is_namespace(value: &Value) -> bool {
    value.as_object().is_some_and(|object| object.type_name().ends_with("Namespace"))
}

fn depth_of(value: &Value) -> usize {
    if let Some(list) = value.downcast_object_ref::<List>() {
        list.depth.load(Ordering::Relaxed)
    } else if let Some(dict) = value.downcast_object_ref::<Dict>() {
        dict.depth.load(Ordering::Relaxed)
    } else {
        value.downcast_object_ref::<Sequence>().map_or(0, |sequence| sequence.depth)
    }
}

/// The depth of a container with these items, paid for.
fn depth_with<'a>(items: impl Iterator<Item = &'a Value>) -> Result<usize, Error> {
    let mut depth = 1;
    let mut count = 1;
    for item in items {
        count += 1;
        refuse_namespace(item)?;
        depth = depth.max(depth_of(item) + 1);
    }
    charge(count * ITEM_BYTES)?;
    if depth > MAX_DEPTH {
        return Err(failed("a value is nested too deeply"));
    }
    Ok(depth)
}

/// Namespaces are minijinja's own and count references: one that came to hold itself would never be freed.
fn refuse_namespace(value: &Value) -> Result<(), Error> {
    if is_namespace(value) {
        return Err(failed("a namespace can be kept in a variable only"));
    }
    Ok(())
}

/// `value`, which a namespace is to hold.
pub fn held(value: Value) -> Result<Value, Error> {
    refuse_namespace(&value)?;
    Ok(value)
}

pub fn list(items: Vec<Value>) -> Result<Value, Error> {
    let depth = depth_with(items.iter())?;
    Ok(Value::from_object(List { items: Mutex::new(items), depth: AtomicUsize::new(depth) }))
}

pub fn sequence(items: Vec<Value>, kind: Kind) -> Result<Value, Error> {
    let depth = depth_with(items.iter())?;
    Ok(Value::from_object(Sequence { items, kind, depth }))
}

pub fn tuple(items: Vec<Value>) -> Result<Value, Error> {
    sequence(items, Kind::Tuple)
}

pub fn generator(items: Vec<Value>) -> Result<Value, Error> {
    depth_with(items.iter())?;
    Ok(Value::from_object(Generator(Mutex::new(items))))
}

pub fn dict(items: IndexMap<Value, Value>) -> Result<Value, Error> {
    for key in items.keys() {
        check_key(key)?;
    }
    let depth = depth_with(items.values())?;
    Ok(Value::from_object(Dict { items: Mutex::new(items), depth: AtomicUsize::new(depth) }))
}

pub fn pair(first: Value, second: Value) -> Result<Value, Error> {
    tuple(vec![first, second])
}

/// Python hashes no lists and dicts.
pub fn check_key(key: &Value) -> Result<(), Error> {
    if let Some(sequence) = key.downcast_object_ref::<Sequence>() {
        return sequence.items.iter().try_for_each(check_key);
    }
    match key.kind() {
        ValueKind::String | ValueKind::Number | ValueKind::Bool | ValueKind::None | ValueKind::Undefined => Ok(()),
        _ => Err(failed(&format!("unhashable type: '{}'", type_name(key)))),
    }
}

/// Takes what a changed container holds.
pub fn release(container: &Value) {
    if let Some(list) = container.downcast_object_ref::<List>() {
        drop(std::mem::take(&mut *locked(&list.items)));
    } else if let Some(dict) = container.downcast_object_ref::<Dict>() {
        drop(std::mem::take(&mut *locked(&dict.items)));
    }
}

/// As Python names it.
pub fn type_name(value: &Value) -> &'static str {
    if let Some(sequence) = value.downcast_object_ref::<Sequence>() {
        return match &sequence.kind {
            Kind::Tuple => "tuple",
            Kind::View(name) => name,
            Kind::Range(_) => "range",
        };
    }
    match value.kind() {
        ValueKind::Undefined => "undefined",
        ValueKind::None => "NoneType",
        ValueKind::Bool => "bool",
        ValueKind::Number if value.is_integer() => "int",
        ValueKind::Number => "float",
        ValueKind::String => "str",
        ValueKind::Seq => "list",
        ValueKind::Map => "dict",
        ValueKind::Iterable => "generator",
        _ => "object",
    }
}

pub fn is_dict(value: &Value) -> bool {
    value.downcast_object_ref::<Dict>().is_some()
}

/// What a loop over the value goes through; `none` and numbers are errors.
pub fn iterate(value: &Value) -> Result<Vec<Value>, Error> {
    let items: Vec<Value> = match value.kind() {
        ValueKind::Undefined => Vec::new(),
        ValueKind::String => value.as_str().unwrap_or("").chars().map(|c| Value::from(c.to_string())).collect(),
        ValueKind::Seq | ValueKind::Map | ValueKind::Iterable => value.try_iter()?.collect(),
        _ => return Err(failed(&format!("'{}' object is not iterable", type_name(value)))),
    };
    charge(items.len() * ITEM_BYTES)?;
    Ok(items)
}

/// The same, left as it is where minijinja iterates as Python does.
pub fn iterable(value: Value) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::Seq | ValueKind::Map | ValueKind::Iterable => Ok(value),
        _ => tuple(iterate(&value)?),
    }
}

pub fn length(value: &Value) -> Result<usize, Error> {
    match value.kind() {
        ValueKind::Undefined => Ok(0),
        ValueKind::String => Ok(value.as_str().unwrap_or("").chars().count()),
        ValueKind::Seq | ValueKind::Map => Ok(value.len().unwrap_or(0)),
        _ => Err(failed(&format!("object of type '{}' has no len()", type_name(value)))),
    }
}

/// Python's index, from the end if negative.
pub fn position(index: i64, length: usize) -> Option<usize> {
    let at = if index < 0 { index.checked_add_unsigned(length as u64)? } else { index };
    usize::try_from(at).ok().filter(|at| *at < length)
}

fn item_at(items: &[Value], key: &Value) -> Option<Value> {
    let index = i64::try_from(key.clone()).ok()?;
    position(index, items.len()).map(|at| items[at].clone())
}

/// JSON as template values.
pub fn value_of(json: serde_json::Value) -> Result<Value, Error> {
    match json {
        serde_json::Value::Array(items) => list(items.into_iter().map(value_of).collect::<Result<_, _>>()?),
        serde_json::Value::Object(map) => {
            dict(map.into_iter().map(|(key, item)| Ok((Value::from(key), value_of(item)?))).collect::<Result<_, Error>>()?)
        }
        serde_json::Value::Null => Ok(Value::from(())),
        other => Ok(Value::from_serialize(other)),
    }
}

impl List {
    pub fn with<T>(&self, body: impl FnOnce(&mut Vec<Value>) -> T) -> T {
        body(&mut locked(&self.items))
    }

    /// Pays for items that are about to be added.
    pub fn admit(self: &Arc<Self>, items: &[Value]) -> Result<(), Error> {
        let depth = depth_with(items.iter())?;
        if depth > 1 {
            self.depth.fetch_max(depth, Ordering::Relaxed);
            hold(Value::from_dyn_object(self.clone()));
        }
        Ok(())
    }
}

impl Dict {
    pub fn with<T>(&self, body: impl FnOnce(&mut IndexMap<Value, Value>) -> T) -> T {
        body(&mut locked(&self.items))
    }

    pub fn insert(self: &Arc<Self>, key: Value, item: Value) -> Result<(), Error> {
        check_key(&key)?;
        let depth = depth_with(std::iter::once(&item))?;
        if depth > 1 {
            self.depth.fetch_max(depth, Ordering::Relaxed);
            hold(Value::from_dyn_object(self.clone()));
        }
        self.with(|items| items.insert(key, item));
        Ok(())
    }

    pub fn keys(&self) -> Vec<Value> {
        self.with(|items| items.keys().cloned().collect())
    }

    pub fn pairs(&self) -> Vec<(Value, Value)> {
        self.with(|items| items.iter().map(|(key, item)| (key.clone(), item.clone())).collect())
    }
}

impl Object for List {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.with(|items| item_at(items, key))
    }
    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.with(|items| items.len()))
    }
    fn call_method(self: &Arc<Self>, state: &State, method: &str, args: &[Value]) -> Result<Value, Error> {
        super::methods::of_list(self, method, &Call::new(state, args)?)
    }
}

impl Object for Dict {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        check_key(key).ok()?;
        self.with(|items| items.get(key).cloned())
    }
    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.keys())
    }
    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.with(|items| items.len()))
    }
    fn call_method(self: &Arc<Self>, state: &State, method: &str, args: &[Value]) -> Result<Value, Error> {
        super::methods::of_dict(self, method, &Call::new(state, args)?)
    }
}

impl Object for Sequence {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        item_at(&self.items, key)
    }
    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.items.len())
    }
    fn call_method(self: &Arc<Self>, state: &State, method: &str, args: &[Value]) -> Result<Value, Error> {
        super::methods::of_items(&self.items, method, &Call::new(state, args)?)
    }
}

impl Object for Generator {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }
    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Iter(Box::new(std::mem::take(&mut *locked(&self.0)).into_iter()))
    }
    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        None
    }
    fn is_true(self: &Arc<Self>) -> bool {
        true
    }
}

impl Object for BoundMethod {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }
    fn call(self: &Arc<Self>, state: &State, args: &[Value]) -> Result<Value, Error> {
        self.0.call_method(state, &self.1, args)
    }
}

/// `value.name`, where `name` is a method of dicts.
pub fn attribute(value: &Value, name: &str) -> Result<Value, Error> {
    if is_dict(value) {
        return Ok(Value::from_object(BoundMethod(value.clone(), name.to_string())));
    }
    value.get_attr(name)
}
