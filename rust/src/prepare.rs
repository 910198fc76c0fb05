//! Rewrites of a template's source for what minijinja's grammar lacks: the `generation` block, list literals that can be changed in
//! place, and `%` formatting of a literal. Text outside of tags, comments, raw blocks and strings stay as they are.

/// Bytes of one tag outside of strings: minijinja compiles and frees long chains (`a()()()…`) by recursion.
const MAX_TAG: usize = 4096;
/// Of all conditions of a source together: each nests in the one before.
const MAX_ELIF: usize = 1000;

/// The source that minijinja is given. Errors: a tag that is too long, too many conditions.
pub fn prepare(source: &str) -> Result<String, String> {
    let mut out = String::with_capacity(source.len() + source.len() / 8);
    let mut rest = source;
    let mut conditions = 0;
    while let Some(start) = tag_start(rest) {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let (open, close) = match &rest[..2] {
            "{%" => ("{%", "%}"),
            "{{" => ("{{", "}}"),
            _ => ("{#", "#}"),
        };
        if open == "{#" {
            let end = rest.find(close).map_or(rest.len(), |e| e + 2);
            out.push_str(&rest[..end]);
            rest = &rest[end..];
            continue;
        }
        let end = tag_end(rest, close);
        let tag = &rest[..end];
        rest = &rest[end..];
        if length_outside_strings(tag) > MAX_TAG {
            let line = source[..source.len() - rest.len()].matches('\n').count() + 1;
            return Err(format!("chat template: the tag that ends in line {line} is too long"));
        }
        let word = tag_word(tag);
        conditions += usize::from(word == "elif");
        if conditions > MAX_ELIF {
            return Err("chat template: it has too many conditions".into());
        }
        if open == "{%" && word == "raw" {
            let stop = raw_end(rest);
            out.push_str(tag);
            out.push_str(&rest[..stop]);
            rest = &rest[stop..];
        } else if open == "{%" && word == "generation" {
            out.push_str(&tag.replacen("generation", "if true", 1));
        } else if open == "{%" && word == "endgeneration" {
            out.push_str(&tag.replacen("endgeneration", "endif", 1));
        } else if open == "{%" && word == "set" {
            out.push_str(&own_assignment(&rewrite_expression(tag)));
        } else {
            out.push_str(&rewrite_expression(tag));
        }
    }
    out.push_str(rest);
    Ok(out)
}

/// Where the next tag, expression or comment begins.
fn tag_start(text: &str) -> Option<usize> {
    text.as_bytes().windows(2).position(|pair| pair[0] == b'{' && matches!(pair[1], b'%' | b'{' | b'#'))
}

fn length_outside_strings(tag: &str) -> usize {
    let bytes = tag.as_bytes();
    let (mut i, mut count) = (0, 0);
    while i < bytes.len() {
        i += if matches!(bytes[i], b'\'' | b'"') { string_length(&tag[i..]) } else { 1 };
        count += 1;
    }
    count
}

/// `set name = expression` with the expression wrapped, so that a list that it makes can be changed. Other tags stay.
fn own_assignment(tag: &str) -> String {
    let Some(equals) = tag.find('=') else { return tag.to_string() };
    let target = tag[2..equals].trim_start_matches(['-', '+']).trim_start().trim_start_matches("set").trim();
    let simple = target.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.');
    let Some(body) = tag.strip_suffix("%}") else { return tag.to_string() };
    let end = body.trim_end_matches(['-', '+']).len().max(equals + 1);
    if !simple {
        return tag.to_string();
    }
    let function = if target.contains('.') { "__own_attribute" } else { "__own" };
    format!("{}{function}({}){}", &tag[..equals + 1], tag[equals + 1..end].trim(), &tag[end..])
}

/// Length of the string literal that begins `text`.
fn string_length(text: &str) -> usize {
    let quote = text.as_bytes()[0];
    let mut escaped = false;
    for (i, byte) in text.bytes().enumerate().skip(1) {
        if escaped {
            escaped = false;
        } else if byte == b'\\' {
            escaped = true;
        } else if byte == quote {
            return i + 1;
        }
    }
    text.len()
}

fn tag_end(text: &str, close: &str) -> usize {
    let bytes = text.as_bytes();
    let mut i = 2;
    let mut braces = 0usize;
    while i < bytes.len() {
        match bytes[i] {
            b'\'' | b'"' => {
                i += string_length(&text[i..]);
                continue;
            }
            b'{' if close == "}}" => braces += 1,
            b'}' if close == "}}" && braces > 0 => {
                braces -= 1;
                i += 1;
                continue;
            }
            _ => {}
        }
        if text.as_bytes()[i..].starts_with(close.as_bytes()) {
            return i + 2;
        }
        i += 1;
    }
    text.len()
}

fn tag_word(tag: &str) -> &str {
    let inner = tag[2..].trim_start_matches(['-', '+']).trim_start();
    let end = inner.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(inner.len());
    &inner[..end]
}

fn raw_end(rest: &str) -> usize {
    let mut from = 0;
    while let Some(at) = rest[from..].find("{%") {
        let start = from + at;
        // Looking for the end of every tag would take quadratic time where there is none.
        if tag_word(&rest[start..]) == "endraw" {
            return start + tag_end(&rest[start..], "%}");
        }
        from = start + 2;
    }
    rest.len()
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Words after which a bracket begins a list and not an index.
const OPERATOR_WORDS: [&str; 8] = ["in", "not", "and", "or", "if", "else", "is", "recursive"];

fn rewrite_expression(tag: &str) -> String {
    let bytes = tag.as_bytes();
    let mut out = String::with_capacity(tag.len() + 16);
    let mut brackets: Vec<bool> = Vec::new(); // whether each open bracket is a wrapped list
    let mut after_operand = false;
    let mut literal_end = usize::MAX; // just behind a string literal
    let mut formats: Vec<usize> = Vec::new(); // where the operand of a `%` ends
    let mut i = 0;
    while i < bytes.len() {
        while formats.last() == Some(&i) {
            formats.pop();
            out.push(')');
        }
        match bytes[i] {
            b'\'' | b'"' => {
                let length = string_length(&tag[i..]);
                out.push_str(&tag[i..i + length]);
                i += length;
                literal_end = i;
                after_operand = true;
                continue;
            }
            b'[' => {
                brackets.push(!after_operand);
                out.push_str(if after_operand { "[" } else { "__list([" });
                after_operand = false;
            }
            b']' => {
                out.push_str(if brackets.pop() == Some(true) { "])" } else { "]" });
                after_operand = true;
            }
            b'%' if literal_end != usize::MAX && tag[literal_end..i].trim().is_empty() && i > 2 && bytes.get(i + 1) != Some(&b'}') => {
                let start = i + 1 + (tag[i + 1..].len() - tag[i + 1..].trim_start().len());
                let end = operand_end(tag, start);
                out.push_str("|__format(");
                formats.push(end);
                i = start;
                after_operand = false;
                literal_end = usize::MAX;
                continue;
            }
            byte if is_word(byte) => {
                let start = i;
                while i < bytes.len() && is_word(bytes[i]) {
                    i += 1;
                }
                out.push_str(&tag[start..i]);
                after_operand = !OPERATOR_WORDS.contains(&&tag[start..i]);
                continue;
            }
            byte if byte.is_ascii_whitespace() => out.push(byte as char),
            byte => {
                out.push(byte as char);
                after_operand = matches!(byte, b')' | b'}');
            }
        }
        i += 1;
    }
    out
}

/// The end of the operand that begins at `start`: a literal, a group, or a name with its attributes, indices and calls.
fn operand_end(tag: &str, start: usize) -> usize {
    let bytes = tag.as_bytes();
    let mut i = start;
    while i < bytes.len() {
        match bytes[i] {
            b'\'' | b'"' => i += string_length(&tag[i..]),
            b'(' | b'[' => i = group_end(tag, i),
            b'.' => i += 1,
            byte if is_word(byte) => i += 1,
            _ => break,
        }
    }
    i
}

fn group_end(tag: &str, start: usize) -> usize {
    let bytes = tag.as_bytes();
    let mut depth = 0usize;
    let mut i = start;
    while i < bytes.len() {
        match bytes[i] {
            b'\'' | b'"' => {
                i += string_length(&tag[i..]);
                continue;
            }
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth -= 1;
                if depth == 0 {
                    return i + 1;
                }
            }
            _ => {}
        }
        i += 1;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::{prepare, MAX_TAG};

    fn prepared(source: &str) -> String {
        prepare(source).expect(source)
    }

    #[test]
    fn rewrites_only_what_it_must() {
        assert_eq!(prepared("{%- set ns.x = a == b -%}"), "{%- set ns.x =__own_attribute(a == b)-%}");
        assert_eq!(prepared("{% set a, b = c %}"), "{% set a, b = c %}");
        for same in ["plain [text] 'x'", "{# [1] #}", "{{ a[0] }}", "{{ f(x)[1:] }}", "{% raw %}{{ [1] }}{% endraw %}", "{{ '[1]' }}", "{{ a % 2 }}", "{% set x %}", "{{ {'a': {'b': 1}} }}"] {
            assert_eq!(prepared(same), same);
        }
        assert_eq!(prepared("{% set x = [1, [2]] %}"), "{% set x =__own(__list([1, __list([2])]))%}");
        assert_eq!(prepared("{% if a in ['x'] %}"), "{% if a in __list(['x']) %}");
        assert_eq!(prepared("{%- generation -%}x{% endgeneration %}"), "{%- if true -%}x{% endif %}");
        assert_eq!(prepared("{{ '%s-%s' % (a, b) }}"), "{{ '%s-%s' |__format((a, b)) }}");
        assert_eq!(prepared("{{ 'n=%d' % m.n ~ '!' }}"), "{{ 'n=%d' |__format(m.n) ~ '!' }}");
    }

    #[test]
    fn survives_what_does_not_end() {
        for text in ["{{", "{%", "{#", "{{ 'a", "{% raw %}", "{{ [", "{{ ]", "{{ 'a' %", "{{ 'a' % (", "{{ \\"] {
            prepared(text);
        }
    }

    #[test]
    fn refuses_what_would_be_compiled_by_deep_recursion() {
        assert!(prepare(&format!("{{% if a %}}{}{{% endif %}}", "{% elif b %}".repeat(100_000))).is_err());
        assert!(prepare(&format!("\n{{{{ a{} }}}}", "()".repeat(MAX_TAG))).unwrap_err().contains("line 2"));
        assert!(prepare(&format!("{{% set x = '{}' %}}", "()".repeat(MAX_TAG))).is_ok());
    }

    #[test]
    fn takes_linear_time() {
        for text in ["{% if 1 %}", "{% raw %}", "{% ", "{{ ", "{# ", "{{ '", "{% raw %}{% ", "{", "'"] {
            let _ = prepare(&text.repeat(300_000));
            let _ = prepare(&format!("{{% raw %}}{}", text.repeat(300_000)));
        }
    }
}
