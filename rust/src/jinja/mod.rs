//! `minijinja` set up to render as `jinja2` does under the transformers library.
//!
//! minijinja runs the statements: scopes, loops, macros, fuel. What Python computes differently happens here: `source` and `lexer`
//! cut the template as Jinja2 does, `expression` and `prepare` write it again with calls in the place of operators, and `operators`,
//! `methods`, `filters` and `predicates` (the tests) are what is called. `budget` bounds the rest of what a template can cost.
//!
//! Differences that are left:
//! - Integers end at 128 bits; JSON's end at 64 bits and become floats beyond.
//! - A namespace cannot be kept in a list, a map or another namespace.
//! - `true` and `1` are two keys of a map.
//! - A macro's `arguments` print as a list.
//! - A macro's parameter that is given an undefined value takes its default.
//! - All operands of one chain (`a + b - c`, `a < b < c`) are evaluated before the first operator.
//! - What has an address when printed by Python (macros, bound methods, generators) prints otherwise; other messages in errors.
//! - Unknown filters and tests are errors when they are reached, not before.
//! - `cycler`, `joiner`, `lipsum`, `varargs`, `kwargs`, `import`, `include`, `block`, `autoescape` and `str.format` with a
//!   specification are missing; filters that no chat template uses (`groupby`, `batch`, `slice`, `wordwrap`, ...) are minijinja's or missing.

mod budget;
mod expression;
mod filters;
mod json;
mod lexer;
mod methods;
mod operators;
mod predicates;
mod prepare;
mod python;
mod source;
mod strings;
mod values;

pub use budget::{charge, Rendering};
pub use prepare::prepare;
pub use python::printed;
pub use values::value_of;

use minijinja::value::{Kwargs, Rest, Value};
use minijinja::{Environment, Error, ErrorKind, State};

/// White space as Python's `str.isspace`, `strip` and `\s` see it.
pub fn python_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

/// Begins the detail of the error that `raise_exception` makes.
pub const RAISED: &str = "raise_exception: ";

pub fn failed(what: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, what.to_string())
}

/// The arguments of a function, filter, test or method.
#[derive(Clone)]
pub struct Call<'a> {
    state: &'a State<'a, 'a>,
    /// As they came: named ones in a last value.
    all: &'a [Value],
    positional: &'a [Value],
    named: Kwargs,
}

impl<'a> Call<'a> {
    pub fn new(state: &'a State, args: &'a [Value]) -> Result<Call<'a>, Error> {
        match args.split_last() {
            Some((last, positional)) if last.is_kwargs() => {
                Ok(Call { state, all: args, positional, named: Kwargs::try_from(last.clone())? })
            }
            _ => Ok(Call { state, all: args, positional: args, named: Kwargs::from_iter(Vec::<(String, Value)>::new()) }),
        }
    }

    /// The argument in this place, or of this name.
    pub fn optional(&self, index: usize, name: &str) -> Option<Value> {
        self.positional.get(index).cloned().or_else(|| self.named.peek::<Value>(name).ok())
    }

    pub fn required(&self, index: usize, name: &str) -> Result<Value, Error> {
        self.optional(index, name).ok_or_else(|| Error::new(ErrorKind::MissingArgument, name.to_string()))
    }

    /// The value that a filter or a test is applied to.
    pub fn value(&self) -> Result<&'a Value, Error> {
        self.positional.first().ok_or_else(|| Error::from(ErrorKind::MissingArgument))
    }

    pub fn text(&self, index: usize, name: &str) -> Result<Option<String>, Error> {
        match self.optional(index, name) {
            None => Ok(None),
            Some(value) if value.is_none() => Ok(None),
            Some(value) => match value.as_str() {
                Some(text) => Ok(Some(text.to_string())),
                None => Err(failed(&format!("{name}: a text is wanted, not '{}'", values::type_name(&value)))),
            },
        }
    }

    pub fn integer(&self, index: usize, name: &str) -> Result<Option<i64>, Error> {
        match self.optional(index, name) {
            Some(value) if !value.is_none() => {
                let number = i64::try_from(value).map_err(|_| failed(&format!("{name}: an integer is wanted")))?;
                Ok(Some(number))
            }
            _ => Ok(None),
        }
    }

    pub fn flag(&self, index: usize, name: &str, otherwise: bool) -> bool {
        self.optional(index, name).map_or(otherwise, |value| value.is_true())
    }

    /// At most this many in places, and none by other names.
    pub fn accepts(&self, most: usize, names: &[&str]) -> Result<(), Error> {
        let unknown = self.named.args().find(|name| !names.contains(name));
        if self.positional.len() > most || unknown.is_some() {
            return Err(Error::new(ErrorKind::TooManyArguments, unknown.unwrap_or("").to_string()));
        }
        Ok(())
    }
}

type Body = fn(&Call) -> Result<Value, Error>;

/// Everything that templates call.
pub fn install(env: &mut Environment<'static>) {
    let wrapped = |body: Body| move |state: &State, args: Rest<Value>| body(&Call::new(state, &args)?);
    for (name, body) in operators::FUNCTIONS {
        env.add_function(*name, wrapped(*body));
    }
    for (name, body) in filters::FILTERS.iter().chain(strings::FILTERS) {
        env.add_filter(*name, wrapped(*body));
    }
    for (name, body) in predicates::TESTS {
        let body = *body;
        env.add_test(*name, move |state: &State, args: Rest<Value>| body(&Call::new(state, &args)?));
    }
    env.add_global("__infinity", Value::from(f64::INFINITY));
    env.set_unknown_method_callback(|state, value, method, args| methods::of_text(state, value, method, args));
}
