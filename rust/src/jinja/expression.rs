//! Jinja2's expressions parsed, and written again for minijinja: what Python computes differently becomes a call of a function that
//! `operators.rs` defines (`a + b` → `__math(a, "+", b)`), the rest stays as it is.

use super::lexer::Token;

/// Nested deeper, an expression is refused: parsers recurse.
const MAX_DEPTH: usize = 60;

/// Names that are methods of every dict; `d.items` is the method even where `d` has such a key.
const DICT_METHODS: [&str; 10] =
    ["clear", "copy", "get", "items", "keys", "pop", "popitem", "setdefault", "update", "values"];

pub struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    depth: usize,
}

type Parsed = Result<String, String>;

/// A literal that minijinja reads back as `text`, on one line.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

impl<'a> Parser<'a> {
    pub fn new(tokens: &'a [Token]) -> Parser<'a> {
        Parser { tokens, at: 0, depth: 0 }
    }

    pub fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(self.at)
    }

    pub fn is(&self, operator: &str) -> bool {
        matches!(self.peek(), Some(Token::Operator(found)) if *found == operator)
    }

    pub fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Some(Token::Name(found)) if found == word)
    }

    pub fn skip(&mut self, operator: &str) -> bool {
        let found = self.is(operator);
        self.at += usize::from(found);
        found
    }

    pub fn skip_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        self.at += usize::from(found);
        found
    }

    pub fn expect(&mut self, operator: &str) -> Result<(), String> {
        if self.skip(operator) {
            return Ok(());
        }
        Err(format!("expected {operator:?}, got {}", self.found()))
    }

    pub fn name(&mut self) -> Result<&'a str, String> {
        match self.peek() {
            Some(Token::Name(name)) => {
                self.at += 1;
                Ok(name)
            }
            _ => Err(format!("expected a name, got {}", self.found())),
        }
    }

    pub fn end(&self) -> Result<(), String> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(format!("unexpected {}", self.found())),
        }
    }

    fn found(&self) -> String {
        match self.peek() {
            None => "the tag's end".into(),
            Some(Token::Name(text) | Token::Integer(text) | Token::Float(text)) => format!("{text:?}"),
            Some(Token::Text(text)) => format!("the text {text:?}"),
            Some(Token::Operator(operator)) => format!("{operator:?}"),
        }
    }

    fn nested(&mut self, parse: impl FnOnce(&mut Self) -> Parsed) -> Parsed {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("the expression is nested too deeply".into());
        }
        let result = parse(self);
        self.depth -= 1;
        result
    }

    /// One expression, or a tuple without parentheses. `conditional` is false where a following `if` is not the expression's.
    pub fn tuple(&mut self, conditional: bool) -> Parsed {
        let ends = |p: &Self| p.peek().is_none() || p.is(")") || p.is_word("recursive");
        let mut items = Vec::new();
        let mut is_tuple = false;
        while !ends(self) {
            items.push(if conditional { self.conditional()? } else { self.nested(Self::or)? });
            if !self.skip(",") {
                break;
            }
            is_tuple = true;
        }
        match (is_tuple, items.pop()) {
            (false, Some(only)) => Ok(only),
            (true, last) => {
                items.extend(last);
                Ok(format!("__tuple({})", items.join(", ")))
            }
            (false, None) => Err(format!("expected an expression, got {}", self.found())),
        }
    }

    pub fn conditional(&mut self) -> Parsed {
        self.nested(|p| {
            let mut value = p.or()?;
            while p.skip_word("if") {
                let condition = p.or()?;
                value = if p.skip_word("else") {
                    format!("({value} if {condition} else {})", p.conditional()?)
                } else {
                    format!("({value} if {condition})")
                };
            }
            Ok(value)
        })
    }

    fn or(&mut self) -> Parsed {
        self.logical("or", |p| p.logical("and", Self::not))
    }

    fn logical(&mut self, word: &str, parse: impl Fn(&mut Self) -> Parsed) -> Parsed {
        let mut operands = vec![parse(self)?];
        while self.skip_word(word) {
            operands.push(parse(self)?);
        }
        if operands.len() == 1 {
            return Ok(operands.remove(0));
        }
        Ok(format!("({})", operands.join(&format!(" {word} "))))
    }

    fn not(&mut self) -> Parsed {
        if self.skip_word("not") {
            return self.nested(|p| Ok(format!("(not {})", p.not()?)));
        }
        self.compare()
    }

    fn compare(&mut self) -> Parsed {
        let mut parts = vec![self.sum()?];
        loop {
            let operator = if self.skip_word("in") {
                "in"
            } else if self.is_word("not") && self.tokens.get(self.at + 1) == Some(&Token::Name("in".into())) {
                self.at += 2;
                "not in"
            } else if let Some(operator) = self.skip_any(&["==", "!=", "<", "<=", ">", ">="]) {
                operator
            } else {
                break;
            };
            parts.push(quoted(operator));
            parts.push(self.sum()?);
        }
        Ok(called("__compare", parts))
    }

    fn skip_any(&mut self, operators: &[&'static str]) -> Option<&'static str> {
        operators.iter().copied().find(|operator| self.skip(operator))
    }

    fn sum(&mut self) -> Parsed {
        self.math(&["+", "-"], Self::concatenation)
    }

    fn concatenation(&mut self) -> Parsed {
        let mut parts = vec![self.product()?];
        while self.skip("~") {
            parts.push(self.product()?);
        }
        Ok(called("__concat", parts))
    }

    fn product(&mut self) -> Parsed {
        self.math(&["*", "//", "/", "%"], |p| p.math(&["**"], |p| p.unary(true)))
    }

    fn math(&mut self, operators: &[&'static str], parse: impl Fn(&mut Self) -> Parsed) -> Parsed {
        let mut parts = vec![parse(self)?];
        while let Some(operator) = self.skip_any(operators) {
            parts.push(quoted(operator));
            parts.push(parse(self)?);
        }
        Ok(called("__math", parts))
    }

    fn unary(&mut self, with_filters: bool) -> Parsed {
        let mut value = if let Some(sign) = self.skip_any(&["-", "+"]) {
            let operand = self.nested(|p| p.unary(false))?;
            format!("__sign({}, {operand})", quoted(sign))
        } else {
            self.primary()?
        };
        value = self.postfix(value)?;
        if with_filters { self.filters_and_tests(value) } else { Ok(value) }
    }

    fn primary(&mut self) -> Parsed {
        let Some(token) = self.peek() else { return Err("expected an expression, got the tag's end".into()) };
        self.at += 1;
        match token {
            Token::Name(name) => Ok(name.clone()),
            Token::Integer(digits) if digits.parse::<i128>().is_err() => Err(format!("{digits} is too large")),
            Token::Integer(digits) => Ok(digits.clone()),
            Token::Float(text) => Ok(float_literal(text)),
            Token::Text(text) => {
                let mut whole = text.clone();
                while let Some(Token::Text(more)) = self.peek() {
                    whole.push_str(more);
                    self.at += 1;
                }
                Ok(quoted(&whole))
            }
            Token::Operator("(") => self.nested(|p| {
                if p.skip(")") {
                    return Ok("__tuple()".into());
                }
                let value = p.tuple(true)?;
                p.expect(")")?;
                // What follows belongs to the filter's result.
                Ok(if value.contains('|') { format!("({value})") } else { value })
            }),
            Token::Operator("[") => self.nested(|p| Ok(format!("__list({})", p.items("]")?))),
            Token::Operator("{") => self.nested(|p| Ok(format!("__dict({})", p.items("}")?))),
            Token::Operator(operator) => Err(format!("unexpected {operator:?}")),
        }
    }

    /// The items of a list, or keys and values in turn, up to and with `close`.
    fn items(&mut self, close: &str) -> Parsed {
        let mut items = Vec::new();
        while !self.skip(close) {
            if !items.is_empty() {
                self.expect(",")?;
                if self.skip(close) {
                    break;
                }
            }
            items.push(self.conditional()?);
            if close == "}" {
                self.expect(":")?;
                items.push(self.conditional()?);
            }
        }
        Ok(items.join(", "))
    }

    fn postfix(&mut self, mut value: String) -> Parsed {
        loop {
            if self.skip(".") {
                value = self.attribute(value)?;
            } else if self.skip("[") {
                value = self.subscript(&value)?;
            } else if self.is("(") {
                value = self.call(value)?;
            } else {
                return Ok(value);
            }
        }
    }

    fn attribute(&mut self, value: String) -> Parsed {
        if let Some(Token::Integer(index)) = self.peek() {
            self.at += 1;
            return Ok(format!("__item({value}, {index})"));
        }
        let name = self.name()?;
        if DICT_METHODS.contains(&name) && !self.is("(") {
            return Ok(format!("__attribute({value}, {})", quoted(name)));
        }
        Ok(format!("{value}.{name}"))
    }

    fn subscript(&mut self, value: &str) -> Parsed {
        let mut keys = Vec::new();
        while !self.skip("]") {
            if !keys.is_empty() {
                self.expect(",")?;
            }
            let start = if self.is(":") { "none".into() } else { self.conditional()? };
            if !self.skip(":") {
                keys.push(start);
                continue;
            }
            let bound = |p: &mut Self| if p.is(":") || p.is("]") || p.is(",") { Ok("none".into()) } else { p.conditional() };
            let stop = bound(self)?;
            let step = if self.skip(":") { bound(self)? } else { "none".into() };
            if !self.skip("]") {
                return Err(format!("expected \"]\", got {}", self.found()));
            }
            return Ok(format!("__slice({value}, {start}, {stop}, {step})"));
        }
        match keys.as_slice() {
            [key] => Ok(format!("__item({value}, {key})")),
            _ => Ok(format!("__item({value}, __tuple({}))", keys.join(", "))),
        }
    }

    fn call(&mut self, callee: String) -> Parsed {
        let arguments = self.arguments()?;
        // A recursive loop takes what a loop takes.
        Ok(if callee == "loop" { format!("loop(__iterable({arguments}))") } else { format!("{callee}({arguments})") })
    }

    /// `(a, b=c, *d, **e)` without its parentheses.
    fn arguments(&mut self) -> Parsed {
        self.nested(|p| {
            p.expect("(")?;
            let mut arguments = Vec::new();
            while !p.skip(")") {
                if !arguments.is_empty() {
                    p.expect(",")?;
                    if p.skip(")") {
                        break;
                    }
                }
                let named = matches!(p.peek(), Some(Token::Name(_))) && p.tokens.get(p.at + 1) == Some(&Token::Operator("="));
                let prefix = if named {
                    let name = p.name()?;
                    p.at += 1;
                    format!("{name}=")
                } else {
                    p.skip_any(&["**", "*"]).unwrap_or("").to_string()
                };
                arguments.push(prefix + &p.conditional()?);
            }
            Ok(arguments.join(", "))
        })
    }

    fn filters_and_tests(&mut self, mut value: String) -> Parsed {
        loop {
            if self.skip("|") {
                value = format!("{value}|{}", self.filter()?);
            } else if self.skip_word("is") {
                value = self.test(&value)?;
            } else if self.is("(") {
                value = self.call(value)?;
            } else {
                return Ok(value);
            }
        }
    }

    fn filter(&mut self) -> Parsed {
        let name = self.name()?;
        if !self.is("(") {
            return Ok(name.to_string());
        }
        Ok(format!("{name}({})", self.arguments()?))
    }

    /// `a|b(c)|d` of a filter block or a block set, whose operand is the block.
    pub fn filter_chain(&mut self) -> Parsed {
        let mut filters = vec![self.filter()?];
        while self.skip("|") {
            filters.push(self.filter()?);
        }
        Ok(filters.join("|"))
    }

    fn test(&mut self, value: &str) -> Parsed {
        let negated = self.skip_word("not");
        let name = quoted(self.name()?);
        let bare = match self.peek() {
            Some(Token::Name(word)) => !matches!(word.as_str(), "else" | "or" | "and"),
            Some(Token::Text(_) | Token::Integer(_) | Token::Float(_) | Token::Operator("[" | "{")) => true,
            _ => false,
        };
        let arguments = if self.is("(") {
            self.arguments()?
        } else if bare && self.is_word("is") {
            return Err("tests cannot be chained with \"is\"".into());
        } else if bare {
            let argument = self.primary()?;
            self.postfix(argument)?
        } else {
            String::new()
        };
        let separator = if arguments.is_empty() { "" } else { ", " };
        let test = format!("__test({value}, {name}{separator}{arguments})");
        Ok(if negated { format!("(not {test})") } else { test })
    }
}

/// A lone operand as it is, several as a call.
fn called(function: &str, mut parts: Vec<String>) -> String {
    if parts.len() == 1 {
        return parts.remove(0);
    }
    format!("{function}({})", parts.join(", "))
}

/// minijinja reads no `1e400`; Python does, as infinity.
fn float_literal(text: &str) -> String {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => format!("{value:?}"),
        _ => "__infinity".into(),
    }
}
