//! HTTP requests in a script: `\get` and its kin, with what the lines after it add.
//!
//! - `\get TARGET`, and likewise `\head`, `\post`, `\put`, `\patch`, `\delete` and `\options`: a
//!   request. TARGET is a path with its query, in which `:name` is a variable: its value is
//!   percent-encoded, except at the very beginning, where it is a link.
//!
//! The lines after it belong to it, in any order:
//!
//! - `\header NAME: VALUE`;
//! - `\body TEXT`: with values percent-encoded in a form, and as they are in any other body; each
//!   further one is a further line of the body;
//! - `\status CODE …`: the codes, or classes such as `4xx`, that are wanted instead of 200 to 399;
//! - `\contains TEXT`: the body of the response must contain it; `\lacks TEXT`: it must not;
//! - `\matches REGEX`: the regular expression must match somewhere in it;
//! - `\extract NAME body REGEX`, `\extract NAME json /POINTER`, `\extract NAME header NAME` or
//!   `\extract NAME status`: a variable from the response; of a regular expression the first group;
//! - `\follow`: redirects are followed, each as a request of its own; what the lines above want is
//!   looked for in the last response.

use regex::bytes::{Regex, RegexBuilder};

use super::error::Fault;
use super::lexer::Lexer;
use super::names::{Assigned, Scope, Slot, Variables, is_valid_name, starts_name};
use super::template::{Raw, Values, write};
use super::{Piece, Statement};

/// Most memory of a compiled regular expression.
const REGEX_BYTES_MAX: usize = 4 << 20;
/// The type of a body that looks like a form.
const FORM: &str = "application/x-www-form-urlencoded";

/// The words that are requests.
pub(super) const METHODS: [&str; 7] = ["get", "head", "post", "put", "patch", "delete", "options"];
/// The words that belong to the request before them.
pub(super) const DETAILS: [&str; 8] = [
    "header", "body", "status", "contains", "lacks", "matches", "extract", "follow",
];

/// A request of a script.
#[derive(Debug, Clone)]
pub struct Request {
    /// The method.
    pub method: &'static str,
    target: Vec<Piece>,
    headers: Vec<(String, Vec<Piece>)>,
    body: Option<Vec<Piece>>,
    is_form: bool,
    /// Codes that are wanted, from and to; none for the usual ones.
    statuses: Vec<(u16, u16)>,
    contains: Vec<Vec<Piece>>,
    lacks: Vec<Vec<Piece>>,
    matches: Vec<Regex>,
    /// Values taken out of the response.
    pub extracts: Vec<Extract>,
    /// Redirects are followed.
    pub follows: bool,
}

/// A variable from a response.
#[derive(Debug, Clone)]
pub struct Extract {
    /// The variable.
    pub slot: Slot,
    /// Its place.
    pub from: From,
    /// As it is written, for messages.
    pub written: String,
}

/// Place of a value in a response.
#[derive(Debug, Clone)]
pub enum From {
    /// The first group of this, or all of it, in the body.
    Body(Regex),
    /// The value that this pointer leads to in the body, which is JSON.
    Json(String),
    /// The first header of this name.
    Header(String),
    /// The status code.
    Status,
}

/// Addition of a line to a request.
#[derive(Debug)]
pub(super) enum Detail {
    Header(String, Raw),
    Body(Raw),
    Status(Vec<(u16, u16)>),
    Contains(Raw),
    Lacks(Raw),
    Matches(Regex),
    Extract(String, Extract),
    Follow,
}

/// A request whose variables are not known yet.
#[derive(Debug)]
pub(super) struct RawRequest {
    method: &'static str,
    target: Raw,
    headers: Vec<(String, Raw)>,
    body: Option<Raw>,
    statuses: Vec<(u16, u16)>,
    contains: Vec<Raw>,
    lacks: Vec<Raw>,
    matches: Vec<Regex>,
    extracts: Vec<Extract>,
    follows: bool,
}

impl RawRequest {
    /// Reads what follows the method.
    pub(super) fn parse(name: &str, lexer: Lexer<'_>, backslash: usize) -> Result<Self, Fault> {
        let method = METHODS.into_iter().find(|method| *method == name);
        let target = Raw::required(lexer, backslash, name, "a path such as /orders?id=:id")?;
        let first = target.text.bytes().next().unwrap_or(b' ');
        let after = target.text.as_bytes().get(1).copied().unwrap_or(b' ');
        if first != b'/' && !(first == b':' && (starts_name(after) || after == b'{')) {
            let fault = Fault::new(
                target.offset,
                format!("\"{}\" is not a path on the server", target.text),
            );
            return Err(fault.hint(
                "a request names a path, such as /orders; the server is named by --url, or by \
                 http.url of the spec",
            ));
        }
        if target.text.contains(char::is_whitespace) {
            let fault = Fault::new(target.offset, "a path cannot contain blanks");
            return Err(fault.hint("write %20, or + in a query"));
        }
        Ok(Self {
            method: method.unwrap_or("get"),
            target,
            headers: Vec::new(),
            body: None,
            statuses: Vec::new(),
            contains: Vec::new(),
            lacks: Vec::new(),
            matches: Vec::new(),
            extracts: Vec::new(),
            follows: false,
        })
    }

    /// Adds what the next line says.
    pub(super) fn add(&mut self, detail: Detail, offset: usize) -> Result<(), Fault> {
        match detail {
            Detail::Header(name, value) => self.headers.push((name, value)),
            Detail::Body(_) if matches!(self.method, "get" | "head") => {
                let method = self.method;
                return Err(Fault::new(offset, format!("\\{method} has no body"))
                    .hint("use \\post, \\put, \\patch or \\delete"));
            }
            Detail::Body(text) => match &mut self.body {
                Some(body) => {
                    body.text.push('\n');
                    body.text.push_str(&text.text);
                }
                None => self.body = Some(text),
            },
            Detail::Status(codes) => self.statuses.extend(codes),
            Detail::Contains(text) => self.contains.push(text),
            Detail::Lacks(text) => self.lacks.push(text),
            Detail::Matches(regex) => self.matches.push(regex),
            Detail::Extract(_, extract) => self.extracts.push(extract),
            Detail::Follow if self.follows => {
                return Err(Fault::new(offset, "a second \\follow of a request"));
            }
            Detail::Follow => self.follows = true,
        }
        Ok(())
    }

    /// The request as a statement, now that it is known which names can be variables.
    pub(super) fn finish(
        self,
        position: usize,
        definable: &Assigned,
        scope: &mut Scope,
    ) -> Result<Statement, Fault> {
        let text = format!("{} {}", self.method.to_uppercase(), self.target.text);
        let named = |name: &str| {
            self.headers
                .iter()
                .find(|(other, _)| other.eq_ignore_ascii_case(name))
        };
        let body_text = self.body.as_ref().map(|body| body.text.trim_start());
        let is_form = match named("content-type") {
            Some((_, value)) => value.text.to_ascii_lowercase().starts_with(FORM),
            None => body_text.is_some_and(|text| kind_of(text) == FORM),
        };
        let mut headers = Vec::with_capacity(self.headers.len() + 1);
        if let (Some(text), None) = (body_text, named("content-type")) {
            let kind = vec![Piece::Text(kind_of(text).to_owned())];
            headers.push(("Content-Type".to_owned(), kind));
        }
        for (name, value) in &self.headers {
            headers.push((name.clone(), value.pieces(definable, scope, true)?));
        }
        let mut all = |texts: &[Raw]| -> Result<Vec<_>, Fault> {
            let texts = texts.iter();
            texts
                .map(|text| text.pieces(definable, scope, false))
                .collect()
        };
        let (contains, lacks) = (all(&self.contains)?, all(&self.lacks)?);
        let request = Request {
            method: self.method,
            target: self.target.pieces(definable, scope, true)?,
            headers,
            body: match &self.body {
                Some(body) => Some(body.pieces(definable, scope, is_form)?),
                None => None,
            },
            is_form,
            statuses: self.statuses,
            contains,
            lacks,
            matches: self.matches,
            extracts: self.extracts,
            follows: self.follows,
        };
        Ok(Statement {
            text,
            position,
            request: Some(Box::new(request)),
            ..Statement::default()
        })
    }

    /// The row in which the redirects that it leads to are counted.
    pub(super) fn hops(before: &Statement, position: usize) -> Statement {
        Statement {
            text: format!("redirects of {}", before.text),
            position,
            ..Statement::default()
        }
    }
}

/// The type of a body whose type is not given.
fn kind_of(body: &str) -> &'static str {
    match body.bytes().next() {
        Some(b'{' | b'[') => "application/json",
        Some(b'<') => "application/xml",
        _ => FORM,
    }
}

impl Detail {
    /// Reads what follows one of [`DETAILS`].
    pub(super) fn parse(
        name: &str,
        mut lexer: Lexer<'_>,
        backslash: usize,
        scope: &mut Scope,
    ) -> Result<Self, Fault> {
        Ok(match name {
            "header" => header(Raw::required(lexer, backslash, name, "NAME: VALUE")?)?,
            "body" => Self::Body(Raw::required(lexer, backslash, name, "a text")?),
            "contains" => Self::Contains(Raw::required(lexer, backslash, name, "a text")?),
            "lacks" => Self::Lacks(Raw::required(lexer, backslash, name, "a text")?),
            "matches" => {
                let pattern = Raw::required(lexer, backslash, name, "a regular expression")?;
                Self::Matches(regex(&pattern.text, pattern.offset)?)
            }
            "status" => {
                let codes = Raw::required(lexer, backslash, name, "a code such as 404 or 4xx")?;
                Self::Status(statuses(&codes)?)
            }
            "extract" => extract(lexer, backslash, scope)?,
            _ => match lexer.word() {
                None => Self::Follow,
                Some((word, offset)) => {
                    let message = format!("\\follow does not take \"{word}\"");
                    return Err(Fault::new(offset, message));
                }
            },
        })
    }
}

fn header(line: Raw) -> Result<Detail, Fault> {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    match line.text.split_once(':') {
        Some((name, _)) if name.is_empty() || !name.chars().all(is_token) => {
            let message = format!("\"{name}\" is not the name of a header");
            Err(Fault::new(line.offset, message))
        }
        Some((name, _)) if OWN.iter().any(|own| own.eq_ignore_ascii_case(name)) => {
            let message = format!("the header {name} is set by pgdyno");
            Err(Fault::new(line.offset, message).hint("remove the line"))
        }
        Some((name, value)) => {
            let offset = line.offset + name.len() + 1;
            let text = value.trim_start().to_owned();
            Ok(Detail::Header(name.to_owned(), Raw { text, offset }))
        }
        None => Err(
            Fault::new(line.offset, format!("\"{}\" is not a header", line.text))
                .hint("write \\header NAME: VALUE"),
        ),
    }
}

/// Headers that say where a request ends, or that its connection does.
const OWN: [&str; 3] = ["content-length", "transfer-encoding", "connection"];

fn statuses(codes: &Raw) -> Result<Vec<(u16, u16)>, Fault> {
    codes
        .text
        .split_whitespace()
        .map(|word| {
            let class = word.strip_suffix("xx").and_then(|digit| digit.parse().ok());
            match (class, word.parse::<u16>()) {
                (Some(class @ 1..=5), _) => Ok((class * 100, class * 100 + 99)),
                (None, Ok(code @ 100..=599)) => Ok((code, code)),
                _ => Err(
                    Fault::new(codes.offset, format!("\"{word}\" is not a status code"))
                        .hint("a code from 100 to 599, or a class such as 2xx"),
                ),
            }
        })
        .collect()
}

fn extract(mut lexer: Lexer<'_>, backslash: usize, scope: &mut Scope) -> Result<Detail, Fault> {
    let usage = || {
        Fault::new(backslash, "\\extract needs a variable and where it is from")
            .hint("\\extract NAME body REGEX, json /POINTER, header NAME, or status")
    };
    let (name, offset) = lexer.word().ok_or_else(usage)?;
    if !is_valid_name(name) {
        return Err(
            Fault::new(offset, format!("invalid variable name \"{name}\""))
                .hint("letters, digits and underscores, not starting with a digit"),
        );
    }
    let slot = scope.slot(name, offset)?;
    let (place, offset) = lexer.word().ok_or_else(usage)?;
    let rest = lexer.rest();
    let from = match (place, rest.0.as_str()) {
        ("status", "") => From::Status,
        ("body" | "json" | "header", "") => return Err(usage()),
        ("body", pattern) => From::Body(regex(pattern, rest.1)?),
        ("json", pointer) if pointer.starts_with('/') => From::Json(pointer.to_owned()),
        ("json", _) => {
            return Err(Fault::new(rest.1, "a JSON pointer begins with /")
                .hint("such as /order/items/0/id"));
        }
        ("header", header) => From::Header(header.to_owned()),
        _ => {
            let message = format!("\"{place}\" is none of body, json, header and status");
            return Err(Fault::new(offset, message));
        }
    };
    let written = format!("{name} {place} {}", rest.0).trim_end().to_owned();
    let extract = Extract {
        slot,
        from,
        written,
    };
    Ok(Detail::Extract(name.to_owned(), extract))
}

fn regex(pattern: &str, offset: usize) -> Result<Regex, Fault> {
    RegexBuilder::new(pattern)
        .size_limit(REGEX_BYTES_MAX)
        .build()
        .map_err(|error| {
            let text = error.to_string();
            let why = text.lines().last().unwrap_or_default();
            let why = why.trim_start_matches("error: ");
            Fault::new(
                offset,
                format!("the regular expression is not valid: {why}"),
            )
        })
}

impl Request {
    /// True if it has no effect on the server, or the same when it is sent twice.
    #[must_use]
    pub fn is_idempotent(&self) -> bool {
        !matches!(self.method, "post" | "patch")
    }

    /// True if the response to it has no body.
    #[must_use]
    pub fn is_head(&self) -> bool {
        self.method == "head"
    }

    /// True if the body of the response is looked at.
    #[must_use]
    pub fn keeps_body(&self) -> bool {
        let in_body = |extract: &Extract| matches!(extract.from, From::Body(_) | From::Json(_));
        !self.contains.is_empty()
            || !self.lacks.is_empty()
            || !self.matches.is_empty()
            || self.extracts.iter().any(in_body)
    }

    /// True if this code is wanted.
    #[must_use]
    pub fn wants(&self, status: u16) -> bool {
        if self.statuses.is_empty() {
            return (200..400).contains(&status);
        }
        let mut ranges = self.statuses.iter();
        ranges.any(|(from, to)| (*from..=*to).contains(&status))
    }

    /// Appends the target.
    ///
    /// # Errors
    /// A variable is not defined.
    pub fn write_target(&self, variables: &Variables, out: &mut Vec<u8>) -> Result<(), String> {
        write(&self.target, variables, Values::InUrl, out)
    }

    /// Appends the headers that the script gives, each with the end of its line; `is_own` is told
    /// their names.
    ///
    /// # Errors
    /// A variable is not defined, or its value cannot be in a header.
    pub fn write_headers(
        &self,
        variables: &Variables,
        out: &mut Vec<u8>,
        mut is_own: impl FnMut(&str),
    ) -> Result<(), String> {
        for (name, value) in &self.headers {
            is_own(name);
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b": ");
            let start = out.len();
            write(value, variables, Values::AsTheyAre, out)?;
            if out[start..].iter().any(|byte| byte.is_ascii_control()) {
                return Err(format!(
                    "the value of the header {name} has a control character"
                ));
            }
            out.extend_from_slice(b"\r\n");
        }
        Ok(())
    }

    /// Appends the body; false if there is none.
    ///
    /// # Errors
    /// A variable is not defined.
    pub fn write_body(&self, variables: &Variables, out: &mut Vec<u8>) -> Result<bool, String> {
        let Some(body) = &self.body else {
            return Ok(false);
        };
        let values = if self.is_form {
            Values::Encoded
        } else {
            Values::AsTheyAre
        };
        write(body, variables, values, out)?;
        Ok(true)
    }

    /// The way in which the body is not as the script wants it, if there is one; `text` is a buffer.
    #[must_use]
    pub fn mismatch(
        &self,
        body: &[u8],
        variables: &Variables,
        text: &mut Vec<u8>,
    ) -> Option<String> {
        let texts = [(&self.contains, true), (&self.lacks, false)];
        for (pieces, wanted) in texts
            .into_iter()
            .flat_map(|(all, wanted)| all.iter().map(move |pieces| (pieces, wanted)))
        {
            text.clear();
            if let Err(why) = write(pieces, variables, Values::AsTheyAre, text) {
                return Some(why);
            }
            if memchr::memmem::find(body, text).is_some() != wanted {
                let how = if wanted {
                    "does not contain"
                } else {
                    "contains"
                };
                let text = String::from_utf8_lossy(text);
                return Some(format!("the response {how} \"{text}\""));
            }
        }
        let unmatched = self.matches.iter().find(|regex| !regex.is_match(body))?;
        Some(format!("nothing in the response matches {unmatched}"))
    }
}

impl Extract {
    /// The value in the body, if it is there.
    pub fn in_body<'a>(&self, body: &'a [u8]) -> Option<std::borrow::Cow<'a, [u8]>> {
        match &self.from {
            From::Body(regex) => {
                let found = regex.captures(body)?;
                let group = found.get(1).or_else(|| found.get(0))?;
                Some(group.as_bytes().into())
            }
            From::Json(pointer) => {
                let json: serde_json::Value = serde_json::from_slice(body).ok()?;
                match json.pointer(pointer)? {
                    serde_json::Value::String(text) => Some(text.clone().into_bytes().into()),
                    value => Some(value.to_string().into_bytes().into()),
                }
            }
            From::Header(_) | From::Status => None,
        }
    }
}
