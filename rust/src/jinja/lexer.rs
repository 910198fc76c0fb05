//! The tokens between a tag's braces.

use super::python_space;
use super::source::syntax_error;

#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    Name(String),
    /// The text itself, its escapes resolved.
    Text(String),
    Integer(String),
    Float(String),
    Operator(&'static str),
}

pub struct Lexed {
    pub tokens: Vec<Token>,
    /// Bytes up to and with the closing braces.
    pub length: usize,
    /// The sign before the closing braces.
    pub sign: Option<char>,
}

/// Longer ones first.
const OPERATORS: [&str; 25] = [
    "**", "//", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".", ":", "|", ",",
];

/// Reads `text` to the tag's end.
pub fn lex(text: &str, line: usize, close: &str) -> Result<Lexed, String> {
    let mut tokens = Vec::new();
    let mut open: Vec<&str> = Vec::new();
    let mut at = 0;
    let line_at = |at: usize| line + text[..at].matches('\n').count();
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        if open.is_empty() {
            if rest.starts_with(close) {
                return Ok(Lexed { tokens, length: at + 2, sign: None });
            }
            let signed = first == '-' || (first == '+' && close == "%}");
            if signed && rest[1..].starts_with(close) {
                return Ok(Lexed { tokens, length: at + 3, sign: Some(first) });
            }
        }
        if python_space(first) {
            at += first.len_utf8();
        } else if first == '"' || first == '\'' {
            let length = text_length(rest).ok_or_else(|| syntax_error(line_at(at), "a text does not end"))?;
            tokens.push(Token::Text(unescape(&rest[1..length - 1])));
            at += length;
        } else if first.is_ascii_digit() {
            let after_dot = tokens.last() == Some(&Token::Operator("."));
            let (token, length) = number(rest, after_dot);
            tokens.push(token);
            at += length;
        } else if first == '_' || first.is_alphabetic() {
            let length = rest.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(rest.len());
            tokens.push(Token::Name(rest[..length].to_string()));
            at += length;
        } else {
            let operator = OPERATORS.iter().find(|operator| rest.starts_with(**operator));
            let operator = operator.ok_or_else(|| syntax_error(line_at(at), &format!("unexpected {first:?}")))?;
            balance(&mut open, operator).map_err(|what| syntax_error(line_at(at), &what))?;
            tokens.push(Token::Operator(operator));
            at += operator.len();
        }
    }
    Err(syntax_error(line, "a tag does not end"))
}

fn balance(open: &mut Vec<&str>, operator: &'static str) -> Result<(), String> {
    match operator {
        "(" => open.push(")"),
        "[" => open.push("]"),
        "{" => open.push("}"),
        ")" | "]" | "}" if open.pop() != Some(operator) => return Err(format!("unexpected {operator:?}")),
        _ => {}
    }
    Ok(())
}

/// Bytes of the literal that begins `rest`, with its quotes.
fn text_length(rest: &str) -> Option<usize> {
    let quote = rest.as_bytes()[0];
    let mut escaped = false;
    for (i, byte) in rest.bytes().enumerate().skip(1) {
        if escaped {
            escaped = false;
        } else if byte == b'\\' {
            escaped = true;
        } else if byte == quote {
            return Some(i + 1);
        }
    }
    None
}

/// Python's escapes; an unknown one stays as it is.
fn unescape(body: &str) -> String {
    let mut out = String::with_capacity(body.len());
    let mut rest = body;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let Some(kind) = rest.chars().next() else { break };
        rest = &rest[kind.len_utf8()..];
        let simple = match kind {
            'n' => "\n",
            't' => "\t",
            'r' => "\r",
            'a' => "\x07",
            'b' => "\x08",
            'f' => "\x0c",
            'v' => "\x0b",
            '\\' => "\\",
            '\'' => "'",
            '"' => "\"",
            '\n' => "",
            _ => {
                rest = numeric_escape(kind, rest, &mut out);
                continue;
            }
        };
        out.push_str(simple);
    }
    out + rest
}

/// `\x41`, `\u00e9`, `\U0001f600` and `\101`; gives what follows.
fn numeric_escape<'a>(kind: char, rest: &'a str, out: &mut String) -> &'a str {
    let digits = match kind {
        'x' => rest.get(..2),
        'u' => rest.get(..4),
        'U' => rest.get(..8),
        '0'..='7' => {
            let more = rest.bytes().take(2).take_while(|b| (b'0'..=b'7').contains(b)).count();
            let code = u32::from_str_radix(&format!("{kind}{}", &rest[..more]), 8).unwrap_or(0);
            out.push(char::from_u32(code).unwrap_or('\u{fffd}'));
            return &rest[more..];
        }
        _ => None,
    };
    match digits.and_then(|d| u32::from_str_radix(d, 16).ok()).and_then(char::from_u32) {
        Some(c) => {
            out.push(c);
            &rest[digits.map_or(0, str::len)..]
        }
        None => {
            out.push('\\');
            out.push(kind);
            rest
        }
    }
}

/// The number that begins `rest`. After a dot (`x.0.1`) it is an integer.
fn number(rest: &str, after_dot: bool) -> (Token, usize) {
    let bytes = rest.as_bytes();
    let run = |from: usize, radix: u32| {
        let is_digit = |b: &u8| char::from(*b).is_digit(radix) || *b == b'_';
        from + bytes[from..].iter().take_while(|b| is_digit(b)).count()
    };
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        if rest.get(..2).is_some_and(|start| start.eq_ignore_ascii_case(prefix)) && run(2, radix) > 2 {
            let end = run(2, radix);
            let value = i128::from_str_radix(&rest[2..end].replace('_', ""), radix).unwrap_or(i128::MAX);
            return (Token::Integer(value.to_string()), end);
        }
    }
    let mut end = run(0, 10);
    let mut float = false;
    let digit_at = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    if !after_dot && bytes.get(end) == Some(&b'.') && digit_at(end + 1) {
        float = true;
        end = run(end + 1, 10);
    }
    if !after_dot && matches!(bytes.get(end), Some(b'e' | b'E')) {
        let digits = end + 1 + usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        if digit_at(digits) {
            float = true;
            end = run(digits, 10);
        }
    }
    let text = rest[..end].replace('_', "");
    (if float { Token::Float(text) } else { Token::Integer(text) }, end)
}

#[cfg(test)]
mod tests {
    use super::unescape;

    #[test]
    fn resolves_escapes_as_python_does() {
        for (body, text) in [
            (r"a\nb\\n", "a\nb\\n"),
            (r"\x41\u00e9\U0001f600\101", "A\u{e9}\u{1f600}A"),
            (r"\d\q\x4", r"\d\q\x4"),
            (r"\ud800\", r"\ud800\"),
            ("\u{e9}\\\u{e9}", "\u{e9}\\\u{e9}"),
        ] {
            assert_eq!(unescape(body).trim_end_matches('\\'), text.trim_end_matches('\\'));
        }
    }
}
