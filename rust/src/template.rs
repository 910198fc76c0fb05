//! Chat templates behind C functions.

use crate::jinja::{charge, install, prepare, printed, value_of, Rendering, RAISED};
use crate::{guarded, text_of, ExoText};
use minijinja::{AutoEscape, Environment, Error, UndefinedBehavior};

/// Instructions that one rendering may execute; real templates over long chats stay far below.
const FUEL: u64 = 50_000_000;
/// Calls of macros in macros; each uses the thread's stack.
const MAX_RECURSION: usize = 200;

fn environment(source: &str) -> Result<Environment<'static>, String> {
    let mut env = Environment::empty();
    // White space is settled by prepare().
    env.set_keep_trailing_newline(true);
    env.set_undefined_behavior(UndefinedBehavior::Lenient);
    env.set_fuel(Some(FUEL));
    env.set_recursion_limit(MAX_RECURSION);
    env.set_auto_escape_callback(|_| AutoEscape::None);
    env.set_formatter(|out, _, value| {
        let text = printed(value)?;
        charge(text.len())?;
        out.write_str(&text).map_err(Error::from)
    });
    install(&mut env);
    env.add_template_owned("chat", prepare(source)?).map_err(|e| describe(&e))?;
    Ok(env)
}

/// One sentence: what the template raised, or the error with its line.
fn describe(error: &Error) -> String {
    if let Some(message) = error.detail().and_then(|d| d.strip_prefix(RAISED)) {
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
    let _rendering = Rendering::start();
    let chat = template.env.get_template("chat").map_err(|e| describe(&e))?;
    value_of(json).and_then(|variables| chat.render(variables)).map_err(|e| describe(&e))
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
            "{{ a|tojson(indent=9999999999999) }}",
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
