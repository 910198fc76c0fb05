//! Libraries without a C++ equal behind a C boundary: Hugging Face `tokenizers` and `minijinja`. The header is include/exo_rust.h.
//! Errors cross as text; a panic inside a library becomes an error too.

mod jinja;
mod template;
mod tokenizer;

use std::panic::{catch_unwind, AssertUnwindSafe};

/// Bytes that the caller frees with `exo_text_free`.
#[repr(C)]
pub struct ExoText {
    data: *mut u8,
    size: usize,
}

impl ExoText {
    fn from(text: Vec<u8>) -> ExoText {
        let boxed = text.into_boxed_slice();
        let size = boxed.len();
        ExoText { data: Box::into_raw(boxed) as *mut u8, size }
    }
}

/// Ids that the caller frees with `exo_ids_free`.
#[repr(C)]
pub struct ExoIds {
    data: *mut u32,
    size: usize,
}

/// # Safety
/// `text` came from this library and was not freed.
#[no_mangle]
pub unsafe extern "C" fn exo_text_free(text: ExoText) {
    if !text.data.is_null() {
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(text.data, text.size)));
    }
}

/// # Safety
/// `ids` came from this library and was not freed.
#[no_mangle]
pub unsafe extern "C" fn exo_ids_free(ids: ExoIds) {
    if !ids.data.is_null() {
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(ids.data, ids.size)));
    }
}

/// The caller's bytes as text; empty for a null pointer.
unsafe fn text_of<'a>(data: *const u8, size: usize) -> Result<&'a str, String> {
    if data.is_null() || size == 0 {
        return Ok("");
    }
    std::str::from_utf8(std::slice::from_raw_parts(data, size)).map_err(|e| format!("not UTF-8: {e}"))
}

/// Runs `body`; its error, or the panic of a library, is written to `error` and nothing is given back.
unsafe fn guarded<T>(error: *mut ExoText, body: impl FnOnce() -> Result<T, String>) -> Option<T> {
    let message = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => return Some(value),
        Ok(Err(message)) => message,
        Err(_) => "the library failed on this input".to_string(),
    };
    if !error.is_null() {
        *error = ExoText::from(message.into_bytes());
    }
    None
}
