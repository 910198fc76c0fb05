//! A template written again for minijinja: white space settled, expressions as `expression.rs` writes them, lines where they were.

use super::expression::Parser;
use super::source::{split, syntax_error, Piece, Tag};

/// Shorter texts are paid for by the fuel of the instruction that writes them.
const FREE_TEXT: usize = 64;

/// The source that minijinja is given. Errors: a sentence with the line.
pub fn prepare(source: &str) -> Result<String, String> {
    let mut out = String::with_capacity(source.len() * 2);
    let mut skipped = 0;
    for piece in split(source)? {
        match piece {
            Piece::Text(text) => write_text(&text, &mut out),
            Piece::Skipped(lines) => skipped += lines,
            Piece::Print(tag) => {
                let value = whole(&tag, |p| p.tuple(/*conditional=*/ true))?;
                write_tag(&mut out, ["{{", "}}"], &value, &mut skipped, tag.lines);
            }
            Piece::Block(tag) => {
                for (i, statement) in whole(&tag, statements)?.into_iter().enumerate() {
                    write_tag(&mut out, ["{%", "%}"], &statement, &mut skipped, if i == 0 { tag.lines } else { 0 });
                }
            }
        }
    }
    Ok(out)
}

fn write_text(text: &str, out: &mut String) {
    if text.len() > FREE_TEXT {
        out.push_str(&format!("{{{{ __charge({}) }}}}", text.len()));
    }
    let has_tags = ["{{", "{%", "{#"].iter().any(|opener| text.contains(opener)) || text.ends_with('{');
    if has_tags {
        out.push_str(&format!("{{% raw %}}{text}{{% endraw %}}"));
    } else {
        out.push_str(text);
    }
}

fn write_tag(out: &mut String, braces: [&str; 2], body: &str, skipped: &mut usize, lines: usize) {
    out.push_str(braces[0]);
    out.push_str(&"\n".repeat(std::mem::take(skipped)));
    out.push(' ');
    out.push_str(body);
    out.push(' ');
    out.push_str(&"\n".repeat(lines));
    out.push_str(braces[1]);
}

/// What `parse` makes of all of the tag's tokens.
fn whole<T>(tag: &Tag, parse: impl FnOnce(&mut Parser) -> Result<T, String>) -> Result<T, String> {
    let mut parser = Parser::new(&tag.tokens);
    parse(&mut parser)
        .and_then(|text| parser.end().map(|()| text))
        .map_err(|what| syntax_error(tag.line, &what))
}

/// The statements that stand for one tag. Blocks are scopes in Jinja2 where they are none in minijinja, hence `with`.
fn statements(p: &mut Parser) -> Result<Vec<String>, String> {
    let word = p.name()?;
    let with = || "with".to_string();
    Ok(match word {
        "if" | "elif" => vec![format!("{word} {}", p.tuple(/*conditional=*/ false)?)],
        "for" => vec![for_loop(p)?],
        "set" => {
            let (statement, is_block) = assignment(p)?;
            if is_block { vec![statement, with()] } else { vec![statement] }
        }
        "macro" => {
            let name = p.name()?;
            definition(&format!("macro {name}"), p)?
        }
        "call" => {
            let mut statements = if p.is("(") { definition("call", p)? } else { vec!["call".into()] };
            statements[0].push_str(&format!(" {}", p.conditional()?));
            statements
        }
        "filter" => vec![format!("filter {}", p.filter_chain()?), with()],
        "with" => vec![format!("with {}", with_values(p)?)],
        // The block marks what a model said, for training; here it is only a scope.
        "generation" => vec![with()],
        "endgeneration" => vec!["endwith".into()],
        "endset" | "endfilter" => vec!["endwith".into(), word.into()],
        "endwith" | "endfor" | "endif" | "endcall" | "else" | "break" | "continue" => vec![word.into()],
        "endmacro" => {
            let _ = p.name();
            vec![word.into()]
        }
        _ => return Err(format!("unknown tag {word:?}")),
    })
}

/// The head of a macro or call block. Defaults are set in the body, in their order: one may name an earlier parameter.
fn definition(head: &str, p: &mut Parser) -> Result<Vec<String>, String> {
    p.expect("(")?;
    let mut names = Vec::new();
    let mut defaults = Vec::new();
    while !p.skip(")") {
        if !names.is_empty() {
            p.expect(",")?;
        }
        let name = p.name()?;
        names.push(name);
        if p.skip("=") {
            defaults.push(format!("if __test({name}, \"undefined\")"));
            defaults.push(format!("set {name} = {}", p.conditional()?));
            defaults.push("endif".into());
        } else if !defaults.is_empty() {
            return Err("a parameter without a default follows one with a default".into());
        }
    }
    Ok([vec![format!("{head}({})", names.join(", "))], defaults].concat())
}

/// `a`, `a, b`, `(a, b), c`, and `ns.a` where `attributes`.
fn target(p: &mut Parser, attributes: bool, depth: usize) -> Result<String, String> {
    if depth > 8 {
        return Err("the target is nested too deeply".into());
    }
    let mut out = String::new();
    loop {
        if p.skip("(") {
            out.push_str(&format!("({})", target(p, attributes, depth + 1)?));
            p.expect(")")?;
        } else {
            out.push_str(p.name()?);
            if attributes && p.skip(".") {
                out.push('.');
                out.push_str(p.name()?);
            }
        }
        if !p.skip(",") {
            return Ok(out);
        }
        out.push(',');
        if p.is(")") || p.is_word("in") || p.is("=") || p.peek().is_none() {
            return Ok(out);
        }
        out.push(' ');
    }
}

fn for_loop(p: &mut Parser) -> Result<String, String> {
    let names = target(p, /*attributes=*/ false, 0)?;
    if !p.skip_word("in") {
        return Err("expected \"in\"".into());
    }
    let mut out = format!("for {names} in __iterable({})", p.tuple(/*conditional=*/ false)?);
    if p.skip_word("if") {
        out.push_str(&format!(" if {}", p.conditional()?));
    }
    if p.skip_word("recursive") {
        out.push_str(" recursive");
    }
    Ok(out)
}

/// The statement, and whether a block follows.
fn assignment(p: &mut Parser) -> Result<(String, bool), String> {
    let names = target(p, /*attributes=*/ true, 0)?;
    if p.skip("=") {
        let value = p.tuple(/*conditional=*/ true)?;
        let value = if names.contains('.') { format!("__held({value})") } else { value };
        return Ok((format!("set {names} = {value}"), false));
    }
    if p.skip("|") {
        return Ok((format!("set {names} | {}", p.filter_chain()?), true));
    }
    Ok((format!("set {names}"), true))
}

fn with_values(p: &mut Parser) -> Result<String, String> {
    let mut out = Vec::new();
    while p.peek().is_some() {
        if !out.is_empty() {
            p.expect(",")?;
        }
        let name = target(p, /*attributes=*/ false, 0)?;
        p.expect("=")?;
        out.push(format!("{name}={}", p.conditional()?));
    }
    Ok(out.join(", "))
}
