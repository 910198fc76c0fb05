//! Bounds on the values that a template keeps. minijinja compares, hashes, prints and frees values by recursion, so one that is nested
//! without end, or that contains itself, would overflow the stack; one that holds the same list again and again would take for ever.

use crate::template::List;
use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind};
use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const MAX_DEPTH: usize = 64;
const MAX_ITEMS: usize = 1_000_000;
const MAX_TEXT: usize = 64 << 20;
const MAX_OUTPUT: usize = 256 << 20;
/// Values that one rendering may look through: some seconds.
const MAX_LOOKS: usize = 50_000_000;

/// Looked at where something is written or kept; real templates need milliseconds.
const MAX_TIME: Duration = Duration::from_secs(5);

thread_local! {
    static LOOKS: Cell<usize> = const { Cell::new(0) };
    static BEGIN: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// To be called when a rendering begins.
pub fn reset() {
    LOOKS.set(0);
    BEGIN.set(Some(Instant::now()));
}

pub fn check_time() -> Result<(), Error> {
    if BEGIN.get().is_some_and(|begin| begin.elapsed() > MAX_TIME) {
        return refused("it takes too long");
    }
    Ok(())
}

/// The text that a rendering writes, which may not grow beyond all bounds.
pub struct Output(pub Vec<u8>);

impl std::io::Write for Output {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        if self.0.len() + text.len() > MAX_OUTPUT || check_time().is_err() {
            return Err(std::io::Error::other("the output is too long, or takes too long"));
        }
        self.0.extend_from_slice(text);
        Ok(text.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn refused<T>(what: &'static str) -> Result<T, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, what))
}

/// Where a value is about to be kept.
#[derive(Clone, Copy)]
pub enum Holder<'a> {
    /// A variable, or a new list.
    Nothing,
    /// An attribute of a namespace: it must not reach a namespace again.
    Namespace,
    /// A list, which it must not contain.
    List(&'a List),
}

struct Walk<'a> {
    holder: Holder<'a>,
    items: usize,
}

impl Walk<'_> {
    fn visit(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        self.items += 1;
        LOOKS.set(LOOKS.get() + 1);
        if self.items > MAX_ITEMS || LOOKS.get() > MAX_LOOKS {
            return refused("a value has too many parts");
        }
        if let Some(text) = value.as_str() {
            return if text.len() > MAX_TEXT { refused("a text is too long") } else { Ok(()) };
        }
        let kind = value.kind();
        if !matches!(kind, ValueKind::Seq | ValueKind::Iterable | ValueKind::Map) {
            return Ok(());
        }
        if depth >= MAX_DEPTH {
            return refused("a value is nested too deeply");
        }
        if let Some(list) = value.downcast_object_ref::<List>() {
            if matches!(self.holder, Holder::List(holder) if std::ptr::eq(list, holder)) {
                return refused("a list cannot contain itself");
            }
            list.depth.fetch_max(depth, Ordering::Relaxed);
        }
        let is_namespace = value.as_object().is_some_and(|object| object.type_name().ends_with("::Namespace"));
        if is_namespace && !matches!(self.holder, Holder::Nothing) {
            return refused("a namespace can be kept in a variable only");
        }
        for item in value.try_iter()? {
            if kind == ValueKind::Map {
                self.visit(&value.get_item(&item)?, depth + 1)?;
            }
            self.visit(&item, depth + 1)?;
        }
        Ok(())
    }
}

/// Refuses what must not be kept there. Lists learn how deep they lie, so that what is put into them later is refused in time.
pub fn check(value: &Value, holder: Holder) -> Result<(), Error> {
    check_time()?;
    let depth = match holder {
        Holder::Nothing => 0,
        Holder::Namespace => 1,
        Holder::List(list) => list.depth.load(Ordering::Relaxed) + 1,
    };
    Walk { holder, items: 0 }.visit(value, depth)
}

/// The elements of a value, unless it claims more than anybody needs (`[0] * 1000000000000`).
pub fn elements(value: &Value) -> Result<Vec<Value>, Error> {
    if value.len().is_some_and(|length| length > MAX_ITEMS) {
        return refused("a list is too long");
    }
    let items: Vec<Value> = value.try_iter()?.take(MAX_ITEMS + 1).collect();
    if items.len() > MAX_ITEMS {
        return refused("a list is too long");
    }
    Ok(items)
}

/// A count that a filter would allocate for at once.
pub fn count(wanted: usize) -> Result<usize, Error> {
    if wanted > 10_000 {
        return refused("a count is too large");
    }
    Ok(wanted)
}

/// `text.replace(from, to)`.
pub fn replace(text: &str, from: &str, to: &str) -> Result<String, Error> {
    let grown = text.matches(from).count().saturating_mul(to.len()).saturating_add(text.len());
    if grown > MAX_TEXT {
        return refused("a text is too long");
    }
    Ok(text.replace(from, to))
}
