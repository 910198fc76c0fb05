//! `minijinja` set up as the transformers library sets up Jinja2.

use crate::limits::{self, Holder};
use crate::prepare::prepare;
use crate::python::{percent_format, printed, to_json, JsonStyle};
use crate::{guarded, text_of, ExoText};
use minijinja::value::{from_args, Enumerator, Kwargs, Object, ObjectRepr, StringInput, Value, ValueKind};
use minijinja::{filters, Environment, Error, ErrorKind, State, UndefinedBehavior};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

/// Instructions that one rendering may execute; real templates over long chats stay far below.
const FUEL: u64 = 10_000_000;

/// A list that `append`, `pop`, `insert` and `extend` change in place.
#[derive(Debug)]
pub struct List {
    items: Mutex<Vec<Value>>,
    /// In how many values it lies, at most.
    pub depth: AtomicUsize,
}

impl List {
    fn value(items: Vec<Value>) -> Value {
        Value::from_object(List { items: Mutex::new(items), depth: AtomicUsize::new(0) })
    }
    fn with<T>(&self, body: impl FnOnce(&mut Vec<Value>) -> T) -> T {
        body(&mut self.items.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }
}

/// Python's index: from the end if negative.
fn position(index: i64, length: usize) -> Option<usize> {
    let at = if index < 0 { index + length as i64 } else { index };
    usize::try_from(at).ok().filter(|at| *at < length)
}

impl Object for List {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let index = i64::try_from(key.clone()).ok()?;
        self.with(|items| position(index, items.len()).map(|at| items[at].clone()))
    }
    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.with(|items| items.len()))
    }
    fn call_method(self: &Arc<Self>, _: &State, method: &str, args: &[Value]) -> Result<Value, Error> {
        match method {
            "append" => {
                let (item,): (Value,) = from_args(args)?;
                limits::check(&item, Holder::List(self))?;
                self.with(|items| items.push(item));
                Ok(Value::from(()))
            }
            "extend" => {
                let (more,): (Value,) = from_args(args)?;
                let more = limits::elements(&more)?;
                for item in &more {
                    limits::check(item, Holder::List(self))?;
                }
                self.with(|items| items.extend(more));
                Ok(Value::from(()))
            }
            "insert" => {
                let (index, item): (i64, Value) = from_args(args)?;
                limits::check(&item, Holder::List(self))?;
                self.with(|items| {
                    let length = items.len() as i64;
                    let at = if index < 0 { (index + length).max(0) } else { index.min(length) };
                    items.insert(at as usize, item);
                });
                Ok(Value::from(()))
            }
            "pop" => {
                let (index,): (Option<i64>,) = from_args(args)?;
                self.with(|items| position(index.unwrap_or(-1), items.len()).map(|at| items.remove(at)))
                    .ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "pop index out of range"))
            }
            _ => Err(Error::from(ErrorKind::UnknownMethod)),
        }
    }
}

/// JSON as template values, with lists that can be changed.
fn value_of(json: serde_json::Value) -> Value {
    match json {
        serde_json::Value::Array(items) => List::value(items.into_iter().map(value_of).collect()),
        serde_json::Value::Object(map) => map.into_iter().map(|(key, item)| (key, value_of(item))).collect(),
        serde_json::Value::Null => Value::from(()),
        other => Value::from_serialize(other),
    }
}

/// Methods that neither minijinja nor its Python layer has.
fn unknown_method(state: &State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    if let (Some(text), "rsplit") = (value.as_str(), method) {
        let (separator, limit): (Option<String>, Option<i64>) = from_args(args)?;
        let limit = limit.and_then(|l| usize::try_from(l).ok());
        let mut parts: Vec<Value> = match (separator, limit) {
            (Some(s), Some(n)) => text.rsplitn(n + 1, s.as_str()).map(Value::from).collect(),
            (Some(s), None) => text.rsplit(s.as_str()).map(Value::from).collect(),
            (None, Some(n)) => {
                let mut rest = text.trim_end();
                let mut parts = Vec::new();
                while parts.len() < n {
                    let Some(at) = rest.rfind(char::is_whitespace) else { break };
                    parts.push(Value::from(rest[at..].trim_start()));
                    rest = rest[..at].trim_end();
                }
                if !rest.trim_start().is_empty() {
                    parts.push(Value::from(rest.trim_start()));
                }
                parts
            }
            (None, None) => text.split_whitespace().rev().map(Value::from).collect(),
        };
        parts.reverse();
        return Ok(List::value(parts));
    }
    minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args)
}

fn has_elements(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Map | ValueKind::String)
}

/// What a template names is a list that it may append to, whichever expression made it.
fn own(value: Value, holder: Holder) -> Result<Value, Error> {
    let is_other_list =
        matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) && value.downcast_object_ref::<List>().is_none();
    let owned = if is_other_list { List::value(limits::elements(&value)?) } else { value };
    limits::check(&owned, holder)?;
    Ok(owned)
}

fn indent(
    text: StringInput, width: Option<usize>, first: Option<bool>, blank: Option<bool>, kwargs: Kwargs,
) -> Result<Value, Error> {
    if let Some(width) = width.or(kwargs.get("width")?) {
        limits::count(width)?;
    }
    filters::indent(text, width, first, blank, kwargs)
}

/// Filters of minijinja that allocate whatever number a template names.
fn add_bounded_filters(env: &mut Environment) {
    env.add_filter("list", |value: Value| limits::elements(&value));
    env.add_filter("indent", indent);
    env.add_filter("batch", |state: &State, value: Value, count: usize, fill: Option<Value>| {
        filters::batch(state, value, limits::count(count)?, fill)
    });
    env.add_filter("slice", |state: &State, value: Value, count: usize, fill: Option<Value>| {
        filters::slice(state, value, limits::count(count)?, fill)
    });
    env.add_filter("replace", |text: Value, from: Value, to: Value| {
        limits::replace(&printed(&text)?, &printed(&from)?, &printed(&to)?)
    });
}

fn environment(source: &str) -> Result<Environment<'static>, String> {
    let mut env = Environment::new();
    env.set_trim_blocks(true);
    env.set_lstrip_blocks(true);
    env.set_undefined_behavior(UndefinedBehavior::Lenient);
    env.set_fuel(Some(FUEL));
    env.set_recursion_limit(200);
    env.set_unknown_method_callback(unknown_method);
    env.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    env.set_formatter(|out, _, value| {
        limits::check_time()?;
        out.write_str(&printed(value)?).map_err(Error::from)
    });
    env.add_function("raise_exception", |message: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, format!("raise_exception: {message}")))
    });
    env.add_function("strftime_now", |format: String| -> Result<String, Error> {
        use std::fmt::Write;
        let mut text = String::new();
        write!(text, "{}", chrono::Local::now().format(&format))
            .map_err(|_| Error::new(ErrorKind::InvalidOperation, "strftime_now: bad format"))?;
        Ok(text)
    });
    env.add_function("__list", |items: Value| -> Result<Value, Error> { Ok(List::value(limits::elements(&items)?)) });
    env.add_function("__own", |value: Value| own(value, Holder::Nothing));
    env.add_function("__own_attribute", |value: Value| own(value, Holder::Namespace));
    env.add_filter("__format", |format: String, arguments: Value| percent_format(&format, &arguments));
    env.add_filter("string", |value: Value| printed(&value));
    env.add_filter("fromjson", |text: String| -> Result<Value, Error> {
        serde_json::from_str(&text)
            .map(value_of)
            .map_err(|e| Error::new(ErrorKind::InvalidOperation, format!("fromjson: {e}")))
    });
    env.add_filter("tojson", |value: Value, indent: Option<usize>, kwargs: Kwargs| -> Result<String, Error> {
        let style = match indent {
            Some(n) => JsonStyle::from(&Kwargs::from_iter([("indent", Value::from(n))]))?,
            None => JsonStyle::from(&kwargs)?,
        };
        let mut out = String::new();
        to_json(&value, &style, 0, &mut out)?;
        Ok(out)
    });
    add_bounded_filters(&mut env);
    env.add_test("sequence", |value: Value| has_elements(&value));
    env.add_test("iterable", |value: Value| has_elements(&value) || value.kind() == ValueKind::Iterable);
    env.add_template_owned("chat", prepare(source)?).map_err(|e| describe(&e))?;
    Ok(env)
}

/// One sentence: what the template raised, or the error with its line.
fn describe(error: &Error) -> String {
    if let Some(message) = error.detail().and_then(|d| d.strip_prefix("raise_exception: ")) {
        return message.to_string();
    }
    let line = error.line().map_or(String::new(), |l| format!(" in line {l}"));
    match error.detail() {
        Some(detail) => format!("chat template: {}{line}: {detail}", error.kind()),
        None => format!("chat template: {}{line}", error.kind()),
    }
}

pub struct ExoTemplate {
    env: Environment<'static>,
}

fn render(template: &ExoTemplate, variables: &str) -> Result<String, String> {
    let json: serde_json::Value = serde_json::from_str(variables).map_err(|e| e.to_string())?;
    limits::reset();
    let chat = template.env.get_template("chat").map_err(|e| describe(&e))?;
    let mut output = limits::Output(Vec::new());
    chat.render_captured_to(value_of(json), &mut output).map_err(|e| describe(&e))?;
    String::from_utf8(output.0).map_err(|e| e.to_string())
}

/// # Safety
/// `source` points to `size` bytes; `error` is null or writable.
#[no_mangle]
pub unsafe extern "C" fn exo_template_new(source: *const u8, size: usize, error: *mut ExoText) -> *mut ExoTemplate {
    guarded(error, || environment(text_of(source, size)?))
        .map_or(std::ptr::null_mut(), |env| Box::into_raw(Box::new(ExoTemplate { env })))
}

/// # Safety
/// `template` came from `exo_template_new` and was not freed.
#[no_mangle]
pub unsafe extern "C" fn exo_template_free(template: *mut ExoTemplate) {
    if !template.is_null() {
        drop(Box::from_raw(template));
    }
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn exo_template_render(
    template: *const ExoTemplate, variables: *const u8, size: usize, out: *mut ExoText, error: *mut ExoText,
) -> bool {
    match guarded(error, || render(&*template, text_of(variables, size)?)) {
        Some(text) => {
            *out = ExoText::from(text.into_bytes());
            true
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{environment, render, ExoTemplate};

    fn rendered(source: &str) -> Result<String, String> {
        render(&ExoTemplate { env: environment(source)? }, r#"{"a": [1, "x", true, null, 1.0], "m": {"z": "\u00fc<", "b": []}}"#)
    }

    #[test]
    fn writes_values_as_python_does() {
        for (source, expected) in [
            ("{{ a }}", "[1, 'x', True, None, 1.0]"),
            ("{{ a[::-1] }}", "[1.0, None, True, 'x', 1]"),
            ("{{ m }}", "{'z': '\u{fc}<', 'b': []}"),
            ("{{ m|tojson }}", "{\"z\": \"\u{fc}<\", \"b\": []}"),
            ("{{ a|tojson(indent=1) }}", "[\n 1,\n \"x\",\n true,\n null,\n 1.0\n]"),
            ("{{ 1e16 }} {{ 7 // 2 }} {{ '%s-%03d' % ('a', 5) }}", "1e+16 3 a-005"),
        ] {
            assert_eq!(rendered(source).as_deref(), Ok(expected), "{source}");
        }
    }

    #[test]
    fn lists_change_in_place() {
        for (source, expected) in [
            ("{% set x = [] %}{% set _ = x.append(1) %}{% set _ = x.insert(0, 2) %}{{ x }}{{ x.pop(0) }}", "[2, 1]2"),
            ("{% set x = a[:1] + [5] %}{% set _ = x.append(6) %}{{ x }}", "[1, 5, 6]"),
            ("{% set x = 'a b'.split() %}{% set _ = x.append('c') %}{{ x|join(',') }}", "a,b,c"),
            ("{% set n = namespace(l=[]) %}{% for i in a %}{% set n.l = n.l + [loop.index] %}{% endfor %}{{ n.l }}", "[1, 2, 3, 4, 5]"),
        ] {
            assert_eq!(rendered(source).as_deref(), Ok(expected), "{source}");
        }
    }

    #[test]
    fn hostile_templates_are_errors() {
        for source in [
            "{% set x = [1] %}{% set _ = x.append(x) %}{{ x }}",
            "{% set x = [1] %}{% set _ = x.append(x) %}{{ x|tojson }}",
            "{% set x = [1] %}{% set _ = x.append(x) %}{{ x ~ '' }}",
            "{% set x = [1] %}{% set _ = x.insert(0, {'a': [x]}) %}{{ x == x }}",
            "{% set x = [1] %}{% set y = [x] %}{% set _ = x.extend([y]) %}{{ x|upper }}",
            "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns ~ '' }}",
            "{% set ns = namespace() %}{% set ns.x = [{'a': ns}] %}{{ ns ~ '' }}",
            "{% set ns = namespace(x=[]) %}{% for i in range(100000) %}{% set ns.x = [ns.x] %}{% endfor %}",
            "{% set ns = namespace(x=[]) %}{% for i in range(100000) %}{% set ns.x = {'a': ns.x} %}{% endfor %}",
            "{% set ns = namespace(x=[]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
            "{% set ns = namespace(x=[]) %}{% for i in range(100) %}{% set y = [] %}{% set _ = ns.x.append(y) %}{% set ns.x = y %}{% endfor %}",
            "{% set ns = namespace(s='aaaa') %}{% for i in range(40) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
            "{% set x = [1] * 1000000000000 %}",
            "{{ ([1] * 1000000000000)|list }}",
            "{{ [1]|batch(1000000000000) }}",
            "{{ [1]|slice(1000000000000) }}",
            "{% set s = 'a' * 100000 %}{{ s|replace('a', s) }}",
            "{{ 'a'|indent(1000000000000) }}",
            "{{ a|tojson(indent=9999999999999) }}",
            "{% for i in range(100000) %}{% for j in range(100000) %}{{ m|tojson }}{% endfor %}{% endfor %}",
            "{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{{ s }}{% endfor %}",
            "{% for i in range(1000000000) %}{% for j in range(1000000000) %}{% endfor %}{% endfor %}",
            "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
            "{{ raise_exception('no') }}",
            "{{ a.b.c }}",
            "{% if %}",
        ] {
            assert!(rendered(source).is_err(), "{source}");
        }
        assert!(rendered("{{ '%.70000f' % 1.5 }}").is_ok());
    }
}
