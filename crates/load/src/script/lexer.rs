//! Tokens of expressions and words of meta-commands.
//!
//! A meta-command ends with its line; a backslash at the very end of a line joins the next one to
//! it.

use super::error::Fault;
use super::names::{continues_name, starts_name};

/// A token of an expression.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Token<'a> {
    /// An operator, parenthesis or comma; `!=` is `<>`.
    Symbol(&'static str),
    /// A keyword, in lower case.
    Word(&'static str),
    /// Any other name: a function's.
    Name(&'a str),
    /// `:name`.
    Variable(&'a str),
    /// Digits; up to 2^63, of which only the negative is a bigint.
    Integer(u64),
    /// Digits with a point or an exponent.
    Double(f64),
    /// End of the line or of the script.
    End,
}

const KEYWORDS: [&str; 14] = [
    "and", "or", "not", "is", "isnull", "notnull", "case", "when", "then", "else", "end", "null",
    "true", "false",
];

/// Longest first.
const SYMBOLS: [&str; 23] = [
    "<=", ">=", "<>", "!=", "<<", ">>", "+", "-", "*", "/", "%", "(", ")", ",", "<", ">", "=", "|",
    "#", "&", "~", "[", "]",
];

/// Reads one meta-command.
#[derive(Debug, Clone)]
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    /// Starts at this byte of the script.
    pub fn new(text: &'a str, at: usize) -> Self {
        Self { text, at }
    }

    /// The next word: anything between blanks; `None` at the end of the command.
    pub fn word(&mut self) -> Option<(&'a str, usize)> {
        self.skip_blanks();
        let start = self.at;
        while let Some(byte) = self.byte(0)
            && !is_blank(byte)
            && byte != b'\n'
            && self.continuation() == 0
        {
            self.at += 1;
        }
        (self.at > start).then(|| (&self.text[start..self.at], start))
    }

    /// The rest of the command, without blanks around it, as one line; and where it begins.
    pub fn rest(&mut self) -> (String, usize) {
        self.skip_blanks();
        let start = self.at;
        let mut line = String::new();
        while let Some(byte) = self.byte(0).filter(|byte| *byte != b'\n') {
            let joined = self.continuation();
            if joined > 0 {
                self.at += joined;
                line.push(' ');
                continue;
            }
            let from = self.at;
            if byte == b'\\' {
                self.at += 1;
            } else {
                self.take_while(|byte| byte != b'\n' && byte != b'\\');
            }
            line.push_str(&self.text[from..self.at]);
        }
        line.truncate(line.trim_end().len());
        (line, start)
    }

    /// A text in single quotes, in which two stand for one, if it comes next.
    pub fn quoted(&mut self) -> Result<Option<String>, Fault> {
        self.skip_blanks();
        let start = self.at;
        if self.byte(0) != Some(b'\'') {
            return Ok(None);
        }
        let mut text = String::new();
        loop {
            self.at += 1;
            let part = self.take_while(|byte| byte != b'\'' && byte != b'\n');
            text.push_str(part);
            match (self.byte(0), self.byte(1)) {
                (Some(b'\''), Some(b'\'')) => {
                    text.push('\'');
                    self.at += 1;
                }
                (Some(b'\''), _) => {
                    self.at += 1;
                    return Ok(Some(text));
                }
                _ => return Err(Fault::new(start, "this text is never closed")),
            }
        }
    }

    /// Skips what is left of the command, and its newline.
    pub fn finish(mut self) -> usize {
        while self.word().is_some() {}
        self.at + usize::from(self.byte(0).is_some())
    }

    /// The next token, without taking it.
    pub fn peek(&self) -> Result<(Token<'a>, usize), Fault> {
        self.clone().next()
    }

    /// The next token and its offset.
    pub fn next(&mut self) -> Result<(Token<'a>, usize), Fault> {
        self.skip_blanks();
        let start = self.at;
        let Some(byte) = self.byte(0).filter(|&byte| byte != b'\n') else {
            return Ok((Token::End, start));
        };
        let second = self.byte(1).unwrap_or(b' ');
        let token = if byte.is_ascii_digit() || (byte == b'.' && second.is_ascii_digit()) {
            self.number()?
        } else if starts_name(byte) {
            self.name()
        } else if byte == b':' && starts_name(second) {
            self.at += 1;
            Token::Variable(self.take_while(continues_name))
        } else if let Some(symbol) = SYMBOLS
            .into_iter()
            .find(|symbol| self.text[start..].starts_with(symbol))
        {
            self.at += symbol.len();
            Token::Symbol(if symbol == "!=" { "<>" } else { symbol })
        } else {
            return Err(self.stray(start));
        };
        Ok((token, start))
    }

    fn name(&mut self) -> Token<'a> {
        let name = self.take_while(continues_name);
        let keyword = KEYWORDS
            .into_iter()
            .find(|keyword| keyword.eq_ignore_ascii_case(name));
        keyword.map_or(Token::Name(name), Token::Word)
    }

    fn number(&mut self) -> Result<Token<'a>, Fault> {
        let start = self.at;
        self.take_while(|byte| byte.is_ascii_digit());
        let mut whole = true;
        if self.byte(0) == Some(b'.') {
            whole = false;
            self.at += 1;
            self.take_while(|byte| byte.is_ascii_digit());
        }
        if self.has_exponent() {
            whole = false;
            self.at += 2;
            self.take_while(|byte| byte.is_ascii_digit());
        }
        let text = &self.text[start..self.at];
        if whole {
            let value = text
                .parse()
                .ok()
                .filter(|&value| value <= i64::MIN.unsigned_abs());
            return value.map(Token::Integer).ok_or_else(|| {
                Fault::new(start, "bigint constant overflow")
                    .hint("the largest is 9223372036854775807")
            });
        }
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(Token::Double(value)),
            _ => Err(Fault::new(start, "double constant overflow")),
        }
    }

    /// True if `e5`, `E-5` or the like comes next.
    fn has_exponent(&self) -> bool {
        if !matches!(self.byte(0), Some(b'e' | b'E')) {
            return false;
        }
        let digit = |at| self.byte(at).is_some_and(|byte| byte.is_ascii_digit());
        digit(1) || (matches!(self.byte(1), Some(b'+' | b'-')) && digit(2))
    }

    fn stray(&self, start: usize) -> Fault {
        let character = self.text[start..].chars().next().unwrap_or(' ');
        let fault = Fault::new(start, format!("unexpected character {character:?}"));
        match character {
            '\'' | '"' => fault.hint("expressions have no text values, only numbers and booleans"),
            ';' => fault.hint("a meta-command ends with its line, without a semicolon"),
            ':' => fault.hint("a variable is a colon and a name that does not start with a digit"),
            _ => fault,
        }
    }

    fn take_while(&mut self, wanted: impl Fn(u8) -> bool) -> &'a str {
        let start = self.at;
        while self.byte(0).is_some_and(&wanted) {
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    fn skip_blanks(&mut self) {
        loop {
            let joined = self.continuation();
            if joined > 0 {
                self.at += joined;
            } else if self.byte(0).is_some_and(is_blank) {
                self.at += 1;
            } else {
                return;
            }
        }
    }

    /// Length of a backslash and line end right here, or 0.
    fn continuation(&self) -> usize {
        match (self.byte(0), self.byte(1), self.byte(2)) {
            (Some(b'\\'), Some(b'\n'), _) => 2,
            (Some(b'\\'), Some(b'\r'), Some(b'\n')) => 3,
            _ => 0,
        }
    }

    fn byte(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }
}

/// White space other than a newline.
pub(super) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | 0x0B | 0x0C)
}
