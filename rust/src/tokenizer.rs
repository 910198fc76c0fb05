//! The `tokenizers` crate behind C functions.

use crate::{guarded, text_of, ExoIds, ExoText};
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;
use std::str::FromStr;
use tokenizers::{DecoderWrapper, Tokenizer};

/// How many bytes a byte of a text may become by replacements.
const MAX_GROWTH: usize = 64;
/// Of what a normalizer puts in front of each text.
const MAX_PREFIX: usize = 256;

/// The parts of a document that can make a short text long.
#[derive(Deserialize)]
struct Rewriters {
    normalizer: Option<Value>,
    decoder: Option<Value>,
}

/// The product of what the steps below `step` do to a text's length. Errors: a step that no model needs.
fn growth(step: &Value) -> Result<usize, String> {
    let mut product = 1usize;
    match step {
        Value::Array(items) => {
            for item in items {
                product = product.saturating_mul(growth(item)?);
            }
        }
        Value::Object(map) => {
            if let Some(content) = map.get("content").and_then(Value::as_str) {
                // A regex may match nothing, before every byte.
                let replaced = map.get("pattern").and_then(|p| p.get("String")).and_then(Value::as_str);
                product = match replaced {
                    Some(text) => content.len().div_ceil(text.len().max(1)).max(1),
                    None => content.len() + 1,
                };
            }
            if map.get("prepend").and_then(Value::as_str).is_some_and(|text| text.len() > MAX_PREFIX) {
                return Err("the tokenizer prepends too long a text".into());
            }
            if let Some(charsmap) = map.get("precompiled_charsmap").and_then(Value::as_str) {
                check_charsmap(charsmap)?;
            }
            for item in map.values() {
                product = product.saturating_mul(growth(item)?);
            }
        }
        _ => {}
    }
    Ok(product)
}

/// The library allocates what the first four bytes claim, before it looks how much there is.
fn check_charsmap(base64: &str) -> Result<(), String> {
    let mut claimed = 0u64;
    for (i, byte) in base64.bytes().take(6).enumerate() {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return Err("the tokenizer's precompiled_charsmap is no base64".into()),
        };
        claimed |= u64::from(digit) << (42 - 6 * i);
    }
    // Six digits are 36 bits from the top of 48; the number is little-endian in the first four bytes.
    if u64::from(((claimed >> 16) as u32).swap_bytes()) > base64.len() as u64 {
        return Err("the tokenizer's precompiled_charsmap is shorter than it says".into());
    }
    Ok(())
}

fn check_rewriters(json: &str) -> Result<(), String> {
    let rewriters: Rewriters = serde_json::from_str(json).map_err(|e| e.to_string())?;
    for step in [rewriters.normalizer, rewriters.decoder].into_iter().flatten() {
        if growth(&step)? > MAX_GROWTH {
            return Err("the tokenizer's replacements make a text far too long".into());
        }
    }
    Ok(())
}

pub struct ExoTokenizer {
    inner: Tokenizer,
    /// id → special
    added: HashMap<u32, bool>,
    size: usize,
}

fn open(json: &str) -> Result<ExoTokenizer, String> {
    check_rewriters(json)?;
    let mut inner = Tokenizer::from_str(json).map_err(|e| e.to_string())?;
    // What a document may ask for, and a prompt must not suffer.
    inner.with_truncation(None).map_err(|e| e.to_string())?;
    inner.with_padding(None);
    let added: HashMap<u32, bool> = inner.get_added_tokens_decoder().iter().map(|(id, t)| (*id, t.special)).collect();
    let last = inner.get_vocab(true).values().copied().max().map_or(0, |id| id as usize + 1);
    Ok(ExoTokenizer { inner, added, size: last })
}

/// # Safety
/// `json` points to `size` bytes; `error` is null or writable.
#[no_mangle]
pub unsafe extern "C" fn exo_tokenizer_new(json: *const u8, size: usize, error: *mut ExoText) -> *mut ExoTokenizer {
    guarded(error, || open(text_of(json, size)?)).map_or(std::ptr::null_mut(), |t| Box::into_raw(Box::new(t)))
}

/// # Safety
/// `tokenizer` came from `exo_tokenizer_new` and was not freed.
#[no_mangle]
pub unsafe extern "C" fn exo_tokenizer_free(tokenizer: *mut ExoTokenizer) {
    if !tokenizer.is_null() {
        drop(Box::from_raw(tokenizer));
    }
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn exo_tokenizer_encode(
    tokenizer: *const ExoTokenizer, text: *const u8, size: usize, out: *mut ExoIds, error: *mut ExoText,
) -> bool {
    let result = guarded(error, || {
        let encoding = (*tokenizer).inner.encode_fast(text_of(text, size)?, false).map_err(|e| e.to_string())?;
        Ok(encoding.get_ids().to_vec())
    });
    let Some(ids) = result else { return false };
    let boxed = ids.into_boxed_slice();
    let size = boxed.len();
    *out = ExoIds { data: Box::into_raw(boxed) as *mut u32, size };
    true
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn exo_tokenizer_decode(
    tokenizer: *const ExoTokenizer, ids: *const u32, count: usize, skip_special: bool, out: *mut ExoText, error: *mut ExoText,
) -> bool {
    let result = guarded(error, || {
        let ids = if count == 0 { &[] } else { std::slice::from_raw_parts(ids, count) };
        (*tokenizer).inner.decode(ids, skip_special).map_err(|e| e.to_string())
    });
    let Some(text) = result else { return false };
    *out = ExoText::from(text.into_bytes());
    true
}

/// # Safety
/// `tokenizer` is valid.
#[no_mangle]
pub unsafe extern "C" fn exo_tokenizer_size(tokenizer: *const ExoTokenizer) -> usize {
    (*tokenizer).size
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn exo_tokenizer_id(tokenizer: *const ExoTokenizer, token: *const u8, size: usize, id: *mut u32) -> bool {
    match text_of(token, size).ok().and_then(|t| (*tokenizer).inner.token_to_id(t)) {
        Some(found) => {
            *id = found;
            true
        }
        None => false,
    }
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn exo_tokenizer_text(tokenizer: *const ExoTokenizer, id: u32, out: *mut ExoText) -> bool {
    match (*tokenizer).inner.id_to_token(id) {
        Some(text) => {
            *out = ExoText::from(text.into_bytes());
            true
        }
        None => false,
    }
}

/// 0: of the model's vocabulary, 1: added, 3: added and special.
///
/// # Safety
/// `tokenizer` is valid.
#[no_mangle]
pub unsafe extern "C" fn exo_tokenizer_flags(tokenizer: *const ExoTokenizer, id: u32) -> u32 {
    match (*tokenizer).added.get(&id) {
        Some(true) => 3,
        Some(false) => 1,
        None => 0,
    }
}

/// 0: byte level, 1: SentencePiece, 2: SentencePiece that drops one leading space, 3: other.
fn decoder_kind(tokenizer: &Tokenizer) -> u32 {
    match tokenizer.get_decoder() {
        Some(DecoderWrapper::ByteLevel(_)) => 0,
        Some(DecoderWrapper::Sequence(sequence)) => {
            let steps = sequence.get_decoders();
            let fallback = steps.iter().any(|d| matches!(d, DecoderWrapper::ByteFallback(_)));
            let strip = steps.iter().any(|d| matches!(d, DecoderWrapper::Strip(_)));
            match (fallback, strip) {
                (true, true) => 2,
                (true, false) => 1,
                _ => 3,
            }
        }
        _ => 3,
    }
}

/// # Safety
/// `tokenizer` is valid.
#[no_mangle]
pub unsafe extern "C" fn exo_tokenizer_decoder(tokenizer: *const ExoTokenizer) -> u32 {
    decoder_kind(&(*tokenizer).inner)
}

#[cfg(test)]
mod tests {
    use super::open;

    fn document(field: &str, value: &str) -> String {
        format!(
            r#"{{"version": "1.0", "added_tokens": [], "model": {{"type": "BPE", "vocab": {{"a": 0}}, "merges": []}}, "{field}": {value}}}"#
        )
    }

    #[test]
    fn refuses_what_would_make_short_texts_long() {
        let replace = |content: &str| format!(r#"{{"type": "Replace", "pattern": {{"String": "a"}}, "content": "{content}"}}"#);
        let sequence = |step: &str| format!(r#"{{"type": "Sequence", "normalizers": [{step}, {step}, {step}]}}"#);
        for (value, works) in [
            (replace("\u{2581}"), true),
            (sequence(&replace("\u{2581}")), true),
            (sequence(&replace(&"a".repeat(50))), false),
            (replace(&"a".repeat(1000)), false),
            (format!(r#"{{"type": "Prepend", "prepend": "{}"}}"#, "x".repeat(1000)), false),
            // A map that claims 4 GiB and holds nothing, one of the right length, and no base64.
            (r#"{"type": "Precompiled", "precompiled_charsmap": "/////w=="}"#.into(), false),
            (r#"{"type": "Precompiled", "precompiled_charsmap": "BAAAAAAAAABhAA=="}"#.into(), true),
            (r#"{"type": "Precompiled", "precompiled_charsmap": "!"}"#.into(), false),
        ] {
            assert_eq!(open(&document("normalizer", &value)).is_ok(), works, "{value}");
        }
    }
}
