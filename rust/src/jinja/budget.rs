//! What one rendering may cost besides minijinja's fuel, which counts instructions and not what one of them makes.
//!
//! A rendering stays on one thread, so its account is the thread's.

use super::values::release;
use minijinja::value::Value;
use minijinja::{Error, ErrorKind};
use std::cell::{Cell, RefCell};

/// Bytes of text and items of lists that a rendering may make, in all; bounds its memory too.
const MAX_BYTES: usize = 1 << 30;

thread_local! {
    static BYTES: Cell<usize> = const { Cell::new(MAX_BYTES) };
    static HELD: RefCell<Vec<Value>> = const { RefCell::new(Vec::new()) };
}

fn spend(account: &Cell<usize>, amount: usize, what: &str) -> Result<(), Error> {
    match account.get().checked_sub(amount) {
        Some(left) => {
            account.set(left);
            Ok(())
        }
        None => {
            account.set(0);
            Err(Error::new(ErrorKind::OutOfFuel, what.to_string()))
        }
    }
}

/// Pays for `bytes` that are about to be made.
pub fn charge(bytes: usize) -> Result<(), Error> {
    BYTES.with(|account| spend(account, bytes, "the template makes too much text"))
}

/// Remembers a list or dict that was given another one: it may contain itself, or be the end of a long chain.
pub fn hold(container: Value) {
    HELD.with(|held| held.borrow_mut().push(container));
}

/// One rendering: its account is full at the start; at the end what could be a cycle is taken apart.
pub struct Rendering(());

impl Rendering {
    pub fn start() -> Rendering {
        BYTES.with(|account| account.set(MAX_BYTES));
        Rendering(())
    }
}

impl Drop for Rendering {
    fn drop(&mut self) {
        let held = HELD.with(|held| std::mem::take(&mut *held.borrow_mut()));
        held.iter().for_each(release);
    }
}
