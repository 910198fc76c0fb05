//! The `tokenizers` crate behind C functions.

use crate::{guarded, text_of, ExoIds, ExoText};
use std::collections::HashMap;
use std::str::FromStr;
use tokenizers::{DecoderWrapper, Tokenizer};

pub struct ExoTokenizer {
    inner: Tokenizer,
    /// id → special
    added: HashMap<u32, bool>,
    size: usize,
}

fn open(json: &str) -> Result<ExoTokenizer, String> {
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
