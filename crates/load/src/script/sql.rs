//! Finds where SQL statements end, and which variables they name, without understanding SQL.
//!
//! A statement ends at a semicolon outside quotes, comments, parentheses and `begin atomic … end`
//! bodies of functions, or at a backslash, which starts a meta-command. `\;` is a semicolon inside
//! a statement: several queries go to the server as one. `\:` is a colon.

use super::error::Fault;
use super::names::{continues_name, starts_name};

/// A stretch of a statement's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Span<'a> {
    /// Text that is sent as it is.
    Text(&'a str),
    /// A possible variable, `:name`, with the name.
    Variable {
        name: &'a str,
        offset: usize,
        quoted: bool,
    },
}

/// A statement as it stands in the script.
#[derive(Debug)]
pub(super) struct RawStatement<'a> {
    pub spans: Vec<Span<'a>>,
    /// Position of its first character that is neither blank nor comment.
    pub offset: usize,
    /// It has several queries, joined by `\;`.
    pub joined: bool,
}

impl RawStatement<'_> {
    /// Its words, those in quotes and comments too; a variable counts as one.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        let texts = self.spans.iter().map(|span| match span {
            Span::Text(text) => text,
            Span::Variable { .. } => "0",
        });
        texts.flat_map(|text| {
            text.split(|c: char| !(c.is_alphanumeric() || c == '_'))
                .filter(|word| !word.is_empty())
        })
    }

    /// True if it is COPY … FROM STDIN.
    pub fn is_copy_in(&self) -> bool {
        let mut words = self.words();
        let is = |word: Option<&str>, keyword: &str| {
            word.is_some_and(|word| word.eq_ignore_ascii_case(keyword))
        };
        is(words.next(), "copy")
            && words.any(|word| word.eq_ignore_ascii_case("from"))
            && is(words.next(), "stdin")
    }

    /// True if it names this variable outside quotes.
    pub fn names(&self, wanted: &str) -> bool {
        self.spans.iter().any(
            |span| matches!(span, Span::Variable { name, quoted: false, .. } if *name == wanted),
        )
    }
}

/// The end of a scan.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stop {
    Semicolon,
    /// A meta-command starts after the backslash, at this offset.
    Meta(usize),
    End,
}

/// Scans one statement, starting at `at`. Returns it, unless there is none; what ended it; and
/// where to go on.
pub(super) fn scan(
    text: &str,
    at: usize,
) -> Result<(Option<RawStatement<'_>>, Stop, usize), Fault> {
    let mut scanner = Scanner::new(text, at);
    let stop = scanner.run()?;
    let end = scanner.at;
    let statement = scanner.statement();
    Ok((statement, stop, end))
}

struct Scanner<'a> {
    text: &'a str,
    start: usize,
    at: usize,
    /// Start of the text not yet in `spans`.
    from: usize,
    spans: Vec<Span<'a>>,
    /// Offset of the first character of SQL.
    first: Option<usize>,
    /// Offset of the first `/* */` comment, which may hold hints and so stays with the statement.
    remark: Option<usize>,
    joined: bool,
    open: Vec<usize>,
    body: Body,
}

/// Recognises `create [or replace] function|procedure … begin atomic … end`, whose semicolons end
/// nothing. As in psql: within such a command `begin` and `case` open, `end` closes.
#[derive(Default)]
struct Body {
    words: usize,
    initials: [u8; 4],
    depth: usize,
}

impl Body {
    fn word(&mut self, word: &str, parentheses: usize) {
        let is = |keyword: &str| word.eq_ignore_ascii_case(keyword);
        if let Some(initial) = self.initials.get_mut(self.words) {
            let leads = ["create", "or", "replace", "function", "procedure"]
                .into_iter()
                .any(is);
            *initial = if leads {
                word.as_bytes()[0].to_ascii_lowercase()
            } else {
                b' '
            };
            self.words += 1;
        }
        if parentheses > 0 || !self.in_routine() {
            return;
        }
        if is("begin") || (self.depth > 0 && is("case")) {
            self.depth += 1;
        } else if self.depth > 0 && is("end") {
            self.depth -= 1;
        }
    }

    fn in_routine(&self) -> bool {
        matches!(
            self.initials,
            [b'c', b'f' | b'p', ..] | [b'c', b'o', b'r', b'f' | b'p']
        )
    }
}

impl<'a> Scanner<'a> {
    fn new(text: &'a str, at: usize) -> Self {
        Self {
            text,
            start: at,
            at,
            from: at,
            spans: Vec::new(),
            first: None,
            remark: None,
            joined: false,
            open: Vec::new(),
            body: Body::default(),
        }
    }

    fn run(&mut self) -> Result<Stop, Fault> {
        while let Some(byte) = self.byte(0) {
            if byte.is_ascii_whitespace() || byte == 0x0B {
                self.at += 1;
                continue;
            }
            if self.comment()? {
                continue;
            }
            if byte == b'\\' {
                if let Some(stop) = self.backslash()? {
                    return Ok(stop);
                }
                continue;
            }
            self.first.get_or_insert(self.at);
            if byte == b';' && self.open.is_empty() && self.body.depth == 0 {
                self.end_text(self.at);
                self.at += 1;
                return Ok(Stop::Semicolon);
            }
            self.token(byte)?;
        }
        self.check_closed()?;
        self.end_text(self.at);
        Ok(Stop::End)
    }

    /// `\;` and `\:` stay in the statement without the backslash; anything else is a meta-command.
    fn backslash(&mut self) -> Result<Option<Stop>, Fault> {
        let escaped = self.byte(1);
        if !matches!(escaped, Some(b';' | b':')) {
            self.check_closed()?;
            self.end_text(self.at);
            self.at += 1;
            return Ok(Some(Stop::Meta(self.at)));
        }
        self.first.get_or_insert(self.at);
        self.end_text(self.at);
        self.from = self.at + 1;
        self.at += 1;
        if escaped == Some(b';') {
            self.joined = true;
            self.at += 1;
            self.body = Body::default();
        } else {
            self.colon(false);
        }
        Ok(None)
    }

    fn check_closed(&self) -> Result<(), Fault> {
        match self.open.last() {
            Some(&offset) => Err(Fault::new(offset, "this parenthesis is never closed")),
            None => Ok(()),
        }
    }

    /// Skips a comment, if one starts here.
    fn comment(&mut self) -> Result<bool, Fault> {
        match (self.byte(0), self.byte(1)) {
            (Some(b'-'), Some(b'-')) => {
                let rest = &self.text.as_bytes()[self.at..];
                self.at += rest
                    .iter()
                    .position(|&byte| byte == b'\n')
                    .unwrap_or(rest.len());
                Ok(true)
            }
            (Some(b'/'), Some(b'*')) => {
                self.remark.get_or_insert(self.at);
                self.block_comment().map(|()| true)
            }
            _ => Ok(false),
        }
    }

    fn block_comment(&mut self) -> Result<(), Fault> {
        let start = self.at;
        let mut depth = 0_usize;
        loop {
            match (self.byte(0), self.byte(1)) {
                (Some(b'/'), Some(b'*')) => (depth, self.at) = (depth + 1, self.at + 2),
                (Some(b'*'), Some(b'/')) => (depth, self.at) = (depth - 1, self.at + 2),
                (Some(_), _) => self.at += 1,
                (None, _) => return Err(Fault::new(start, "this comment is never closed")),
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }

    fn token(&mut self, byte: u8) -> Result<(), Fault> {
        match byte {
            b'\'' => self.quoted(b'\'', false)?,
            b'"' => self.quoted(b'"', false)?,
            b'$' => self.dollar()?,
            b':' => self.colon(false),
            b'(' => {
                self.open.push(self.at);
                self.at += 1;
            }
            b')' => {
                self.open.pop();
                self.at += 1;
            }
            _ if starts_name(byte) => self.word()?,
            _ => self.at += 1,
        }
        Ok(())
    }

    /// An identifier or keyword; `e'…'` is a string in which a backslash escapes.
    fn word(&mut self) -> Result<(), Fault> {
        let start = self.at;
        while self
            .byte(0)
            .is_some_and(|byte| continues_name(byte) || byte == b'$')
        {
            self.at += 1;
        }
        let word = &self.text[start..self.at];
        if self.byte(0) == Some(b'\'') && word.eq_ignore_ascii_case("e") {
            return self.quoted(b'\'', true);
        }
        self.body.word(word, self.open.len());
        Ok(())
    }

    /// A quoted string or identifier. A doubled quote needs no care: it looks like two strings.
    fn quoted(&mut self, quote: u8, escapes: bool) -> Result<(), Fault> {
        let start = self.at;
        self.at += 1;
        while let Some(byte) = self.byte(0) {
            if byte == quote {
                self.at += 1;
                if !escapes || !self.continues_string() {
                    return Ok(());
                }
            } else if byte == b'\\' && escapes {
                self.at = (self.at + 2).min(self.text.len());
            } else if byte == b':' {
                self.colon(true);
            } else {
                self.at += 1;
            }
        }
        Err(Fault::new(start, "this quote is never closed"))
    }

    /// After the end of an `e'…'` string: whether the next piece of it follows (at once, or after
    /// blanks with a newline among them); then goes past its opening quote.
    fn continues_string(&mut self) -> bool {
        let rest = &self.text.as_bytes()[self.at..];
        let blanks = rest
            .iter()
            .take_while(|byte| byte.is_ascii_whitespace())
            .count();
        let goes_on =
            rest.get(blanks) == Some(&b'\'') && (blanks == 0 || rest[..blanks].contains(&b'\n'));
        if goes_on {
            self.at += blanks + 1;
        }
        goes_on
    }

    /// `$tag$ … $tag$`, or just a dollar sign (a parameter).
    fn dollar(&mut self) -> Result<(), Fault> {
        let start = self.at;
        self.at += 1;
        if self.byte(0).is_some_and(starts_name) {
            while self.byte(0).is_some_and(continues_name) {
                self.at += 1;
            }
        }
        if self.byte(0) != Some(b'$') {
            return Ok(());
        }
        self.at += 1;
        let tag = &self.text[start..self.at];
        let Some(length) = self.text[self.at..].find(tag) else {
            return Err(Fault::new(
                start,
                format!("this {tag} quote is never closed"),
            ));
        };
        let end = self.at + length;
        while self.at < end {
            if self.byte(0) == Some(b':') {
                self.colon(true)
            } else {
                self.at += 1
            }
        }
        self.at = end + tag.len();
        Ok(())
    }

    /// A colon or several: `::` is a cast, and what follows several is no variable.
    fn colon(&mut self, quoted: bool) {
        let offset = self.at;
        self.at += 1;
        if self.byte(0) == Some(b':') {
            while self.byte(0) == Some(b':') {
                self.at += 1;
            }
            return;
        }
        if !self.byte(0).is_some_and(starts_name) {
            return;
        }
        let start = self.at;
        while self.byte(0).is_some_and(continues_name) {
            self.at += 1;
        }
        self.end_text(offset);
        self.spans.push(Span::Variable {
            name: &self.text[start..self.at],
            offset,
            quoted,
        });
        self.from = self.at;
    }

    fn byte(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    fn end_text(&mut self, end: usize) {
        if end > self.from {
            self.spans.push(Span::Text(&self.text[self.from..end]));
        }
        self.from = end;
    }

    /// The statement, without blanks and `--` comments before it and blanks after it.
    fn statement(mut self) -> Option<RawStatement<'a>> {
        let offset = self.first?;
        // No variable is looked for before the first character, so what precedes it is one text.
        if let Some(Span::Text(text)) = self.spans.first_mut() {
            let start = self.remark.map_or(offset, |remark| remark.min(offset));
            *text = &text[(start - self.start).min(text.len())..];
        }
        if let Some(Span::Text(text)) = self.spans.last_mut() {
            *text = text.trim_end();
        }
        self.spans.retain(|span| *span != Span::Text(""));
        Some(RawStatement {
            spans: self.spans,
            offset,
            joined: self.joined,
        })
    }
}
