//! A template's source cut into text and tags as Jinja2's lexer cuts it, with `trim_blocks` and `lstrip_blocks` on. White space is
//! settled here, so that nothing after this file knows about it.

use super::lexer::{lex, Token};
use super::python_space;

/// What stands between the tag's braces.
pub struct Tag {
    pub tokens: Vec<Token>,
    pub line: usize,
    /// Line ends inside of the tag.
    pub lines: usize,
}

pub enum Piece {
    Text(String),
    /// Line ends that print nothing; the lines of errors count them.
    Skipped(usize),
    Print(Tag),
    Block(Tag),
}

pub fn syntax_error(line: usize, what: &str) -> String {
    format!("chat template: syntax error in line {line}: {what}")
}

fn line_ends(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

struct Splitter<'a> {
    rest: &'a str,
    line: usize,
    /// Whether what was read last ended a line; true at the start.
    at_line_start: bool,
    pieces: Vec<Piece>,
}

/// The sign that follows a tag's opening braces.
fn sign_of(rest: &str) -> Option<char> {
    rest.chars().nth(2).filter(|c| matches!(c, '-' | '+'))
}

impl<'a> Splitter<'a> {
    fn take(&mut self, length: usize) -> &'a str {
        let (head, tail) = self.rest.split_at(length);
        self.rest = tail;
        self.line += line_ends(head);
        head
    }

    /// Takes `length` bytes of text that stand before a tag, less the white space that the tag takes away.
    fn text(&mut self, length: usize, sign: Option<char>, strips_line: bool) {
        let text = self.take(length);
        let mut kept = text;
        if sign == Some('-') {
            kept = text.trim_end_matches(python_space);
        } else if sign != Some('+') && strips_line {
            let start = text.rfind('\n').map_or(0, |at| at + 1);
            if (start > 0 || self.at_line_start) && text[start..].chars().all(python_space) {
                kept = &text[..start];
            }
        }
        if !kept.is_empty() {
            self.pieces.push(Piece::Text(kept.to_string()));
        }
        self.skip(&text[kept.len()..]);
    }

    fn skip(&mut self, dropped: &str) {
        if dropped.contains('\n') {
            self.pieces.push(Piece::Skipped(line_ends(dropped)));
        }
    }

    /// Takes what a tag's end takes with it: all white space after `-`, else one line end if `trims`.
    fn tag_tail(&mut self, minus: bool, trims: bool) {
        let length = if minus {
            self.rest.len() - self.rest.trim_start_matches(python_space).len()
        } else {
            usize::from(trims && self.rest.starts_with('\n'))
        };
        let tail = self.take(length);
        self.at_line_start = tail.ends_with('\n');
        self.skip(tail);
    }

    fn comment(&mut self) -> Result<(), String> {
        let Some(end) = self.rest[2..].find("#}").map(|at| at + 2) else {
            return Err(syntax_error(self.line, "a comment does not end"));
        };
        let sign = self.rest[2..end].chars().next_back();
        let comment = self.take(end + 2);
        self.skip(comment);
        self.tag_tail(sign == Some('-'), sign != Some('+'));
        Ok(())
    }

    fn tag(&mut self, close: &str) -> Result<(), String> {
        let line = self.line;
        let start = if sign_of(self.rest).is_some() { 3 } else { 2 };
        let lexed = lex(&self.rest[start..], line, close)?;
        let whole = self.take(start + lexed.length);
        let tag = Tag { tokens: lexed.tokens, line, lines: line_ends(whole) };
        let block = close == "%}";
        self.pieces.push(if block { Piece::Block(tag) } else { Piece::Print(tag) });
        self.tag_tail(lexed.sign == Some('-'), block && lexed.sign != Some('+'));
        Ok(())
    }

    fn raw(&mut self, length: usize, minus: bool) -> Result<(), String> {
        let line = self.line;
        let head = self.take(length);
        self.skip(head);
        self.tag_tail(minus, /*trims=*/ false);
        let mut from = 0;
        while let Some(at) = self.rest[from..].find("{%").map(|at| at + from) {
            if let Some((length, sign)) = word_tag(&self.rest[at..], "endraw") {
                let opening = sign_of(&self.rest[at..]);
                self.text(at, opening, /*strips_line=*/ true);
                let tail = self.take(length);
                self.skip(tail);
                self.tag_tail(sign == Some('-'), sign != Some('+'));
                return Ok(());
            }
            from = at + 2;
        }
        Err(syntax_error(line, "a raw block does not end"))
    }

    fn step(&mut self) -> Result<bool, String> {
        let bytes = self.rest.as_bytes();
        let Some(at) = bytes.windows(2).position(|pair| matches!(pair, b"{%" | b"{{" | b"{#")) else {
            self.text(self.rest.len(), Some('+'), false);
            return Ok(false);
        };
        let opening: String = self.rest[at..].chars().take(3).collect();
        let variable = opening.starts_with("{{");
        self.text(at, sign_of(&opening), !variable);
        if variable {
            self.tag("}}")?;
        } else if opening.starts_with("{#") {
            self.comment()?;
        } else if let Some((length, sign)) = word_tag(self.rest, "raw") {
            self.raw(length, sign == Some('-'))?;
        } else {
            self.tag("%}")?;
        }
        Ok(true)
    }
}

/// The length and the closing sign of the block tag at the start of `text` if it holds `word` alone.
fn word_tag(text: &str, word: &str) -> Option<(usize, Option<char>)> {
    let inner = text.strip_prefix("{%")?;
    let inner = inner.strip_prefix(['-', '+']).unwrap_or(inner).trim_start_matches(python_space);
    let after = inner.strip_prefix(word)?.trim_start_matches(python_space);
    let sign = after.chars().next().filter(|c| matches!(c, '-' | '+'));
    let tail = after.strip_prefix(['-', '+']).unwrap_or(after).strip_prefix("%}")?;
    Some((text.len() - tail.len(), sign))
}

/// The pieces of a template. Line ends become `\n`, and the last one goes.
pub fn split(source: &str) -> Result<Vec<Piece>, String> {
    let unified = source.replace("\r\n", "\n").replace('\r', "\n");
    let text = unified.strip_suffix('\n').unwrap_or(&unified);
    let mut splitter = Splitter { rest: text, line: 1, at_line_start: true, pieces: Vec::new() };
    while splitter.step()? {}
    Ok(splitter.pieces)
}
