//! Meta-commands: what follows a backslash, up to the end of the line.

use super::error::{Fault, closest};
use super::expr::{self, Expr};
use super::lexer::Lexer;
use super::names::{Names, Scope, Slot, is_valid_name};
use super::psql;
use super::request::{DETAILS, Detail, METHODS, RawRequest};
use super::rounds::Rounds;
use super::rows::{Count, Rows};
use super::table::Table;
use super::{Array, Capture, CaptureKind, Sleep, SleepAmount};

/// A meta-command as written; `\if` and its like become jumps later.
#[derive(Debug)]
pub(super) enum Meta {
    /// A backslash alone.
    Nothing,
    Set {
        slot: Slot,
        name: String,
        expr: Expr,
    },
    Array {
        name: String,
        array: Array,
    },
    Csv(Vec<String>, Table),
    Sleep(Sleep),
    Forget,
    If(Expr),
    Elif(Expr),
    Else,
    Endif,
    For {
        name: String,
        rounds: Rounds,
    },
    Endfor,
    Capture(Capture),
    Expect {
        code: [u8; 5],
        may_succeed: bool,
    },
    Rows(Rows),
    Request(Box<RawRequest>),
    Detail(Detail),
    StartPipeline,
    SyncPipeline,
    EndPipeline,
}

const COMMANDS: [&str; 18] = [
    "set",
    "array",
    "sleep",
    "if",
    "elif",
    "else",
    "endif",
    "for",
    "endfor",
    "gset",
    "aset",
    "startpipeline",
    "syncpipeline",
    "endpipeline",
    "expect",
    "rows",
    "csv",
    "forget",
];

/// Reads the meta-command whose backslash is just before `at`. Returns it and where to go on.
pub(super) fn parse(text: &str, at: usize, scope: &mut Scope) -> Result<(Meta, usize), Fault> {
    let mut lexer = Lexer::new(text, at);
    let after = Lexer::new(text, at).finish();
    let Some((word, offset)) = lexer.word() else {
        return Ok((Meta::Nothing, after));
    };
    let name = word.to_ascii_lowercase();
    let arguments = Arguments {
        lexer,
        name: &name,
        backslash: at - 1,
    };
    let meta = match name.as_str() {
        "set" => arguments.set(scope)?,
        "array" => arguments.array(scope)?,
        "sleep" => Meta::Sleep(arguments.sleep(scope)?),
        "if" => Meta::If(expr::parse(arguments.lexer, scope)?),
        "elif" => Meta::Elif(expr::parse(arguments.lexer, scope)?),
        "else" => arguments.none(Meta::Else)?,
        "endif" => arguments.none(Meta::Endif)?,
        "for" => arguments.rounds(scope)?,
        "endfor" => arguments.none(Meta::Endfor)?,
        "startpipeline" => arguments.none(Meta::StartPipeline)?,
        "syncpipeline" => arguments.none(Meta::SyncPipeline)?,
        "endpipeline" => arguments.none(Meta::EndPipeline)?,
        "gset" => arguments.capture(CaptureKind::One)?,
        "aset" => arguments.capture(CaptureKind::Last)?,
        "expect" => arguments.expect()?,
        "csv" => {
            let (names, table) = Table::parse(arguments.lexer, at - 1, scope)?;
            Meta::Csv(names, table)
        }
        "forget" => arguments.none(Meta::Forget)?,
        "rows" => Meta::Rows(Rows::parse(arguments.lexer, at - 1, scope)?),
        method if METHODS.contains(&method) => {
            let request = RawRequest::parse(method, arguments.lexer, at - 1)?;
            Meta::Request(Box::new(request))
        }
        detail if DETAILS.contains(&detail) => {
            Meta::Detail(Detail::parse(detail, arguments.lexer, at - 1, scope)?)
        }
        "shell" | "setshell" => return Err(shell(&name, at - 1)),
        _ => return Err(unknown(word, offset)),
    };
    Ok((meta, after))
}

fn shell(name: &str, offset: usize) -> Fault {
    Fault::new(
        offset,
        format!("\\{name} is not supported: starting a program would disturb the load"),
    )
    .hint("compute the value with \\set, fetch it with \\gset, or define it with -D")
}

fn unknown(word: &str, offset: usize) -> Fault {
    if let Some(instead) = psql::instead_of(word) {
        return Fault::new(
            offset - 1,
            format!("\\{word} is a psql command that scripts do not support"),
        )
        .hint(instead);
    }
    let fault = Fault::new(offset - 1, format!("unknown meta-command \"\\{word}\""));
    let all = || COMMANDS.into_iter().chain(METHODS).chain(DETAILS);
    match closest(word, all()) {
        Some(hint) => fault.hint(hint),
        None => {
            let known: Vec<&str> = all().collect();
            fault.hint(format!("these are known: \\{}", known.join(", \\")))
        }
    }
}

/// Text after the command's name.
struct Arguments<'a> {
    lexer: Lexer<'a>,
    name: &'a str,
    /// Offset of the backslash.
    backslash: usize,
}

impl<'a> Arguments<'a> {
    fn none(mut self, meta: Meta) -> Result<Meta, Fault> {
        self.no_more()?;
        Ok(meta)
    }

    fn set(mut self, scope: &mut Scope) -> Result<Meta, Fault> {
        let (name, offset) = self.required("a variable and an expression")?;
        let name = valid(name, offset)?.to_owned();
        let slot = scope.slot(&name, offset)?;
        let expr = expr::parse(self.lexer, scope)?;
        Ok(Meta::Set { slot, name, expr })
    }

    /// `\array name count expression`.
    fn array(mut self, scope: &mut Scope) -> Result<Meta, Fault> {
        const WHAT: &str = "a variable, a count and an expression";
        let (name, offset) = self.required(WHAT)?;
        let name = valid(name, offset)?.to_owned();
        let slot = scope.slot(&name, offset)?;
        let (word, offset) = self.required(WHAT)?;
        let hint = "write \\array ids 10 random(1, 1000), or a variable: \\array ids :count …";
        let count = Count::parse(word, offset, scope, "elements", hint)?;
        let array = Array {
            slot,
            count,
            number: scope.slot(Names::ROW, offset)?,
            expr: expr::parse(self.lexer, scope)?,
        };
        array.check(offset)?;
        Ok(Meta::Array { name, array })
    }

    /// `\for name count`.
    fn rounds(mut self, scope: &mut Scope) -> Result<Meta, Fault> {
        const WHAT: &str = "a variable and a count";
        let (name, offset) = self.required(WHAT)?;
        let name = valid(name, offset)?.to_owned();
        let (word, offset) = self.required(WHAT)?;
        let hint = "write \\for line 10, or a variable: \\for line :lines";
        let count = Count::parse(word, offset, scope, "rounds", hint)?;
        let rounds = Rounds::new(&name, count, offset, scope)?;
        self.no_more()?;
        Ok(Meta::For { name, rounds })
    }

    /// `\sleep 5`, `\sleep 5 ms`, `\sleep 5ms`, `\sleep :pause us`. Seconds if no unit is given; a
    /// negative time is none.
    fn sleep(mut self, scope: &mut Scope) -> Result<Sleep, Fault> {
        let (word, offset) = self.required("a time")?;
        let (amount, unit) = if let Some(name) = word.strip_prefix(':') {
            let slot = scope.used(valid(name, offset)?, offset)?;
            (SleepAmount::Variable(slot), None)
        } else {
            let (amount, rest) = leading_number(word).ok_or_else(|| {
                Fault::new(offset, format!("\"{word}\" is not a whole number"))
                    .hint("write \\sleep 10 ms, or a variable: \\sleep :pause ms")
            })?;
            let unit = (!rest.is_empty()).then(|| (rest, offset + word.len() - rest.len()));
            (SleepAmount::Fixed(amount), unit)
        };
        let unit = if unit.is_some() {
            unit
        } else {
            self.lexer.word()
        };
        if let Some((fraction, _)) = unit.filter(|(unit, _)| unit.starts_with('.')) {
            let unit = self.lexer.word().map_or("s", |(unit, _)| unit);
            return Err(no_fraction(word, fraction, unit, offset));
        }
        let unit_us = unit.map_or(Ok(1_000_000), |(word, offset)| unit_us(word, offset))?;
        self.no_more()?;
        Ok(Sleep { amount, unit_us })
    }

    fn capture(mut self, kind: CaptureKind) -> Result<Meta, Fault> {
        let prefix = match self.lexer.word() {
            Some((word, offset)) => valid(word, offset)?.to_owned(),
            None => String::new(),
        };
        self.no_more()?;
        Ok(Meta::Capture(Capture { kind, prefix }))
    }

    fn expect(mut self) -> Result<Meta, Fault> {
        let (word, offset) = self.required("an SQLSTATE")?;
        let may_succeed = self.or_success()?;
        let known = |byte: &u8| byte.is_ascii_digit() || byte.is_ascii_uppercase();
        match <[u8; 5]>::try_from(word.as_bytes()) {
            // Classes 00, 01 and 02 are success, warnings and "no data".
            Ok(code) if code.iter().all(known) && !matches!(&code[..2], b"00" | b"01" | b"02") => {
                Ok(Meta::Expect { code, may_succeed })
            }
            _ => Err(Fault::new(
                offset,
                format!("\"{word}\" is not the SQLSTATE of an error"),
            )
            .hint(
                "a SQLSTATE has 5 digits or capital letters, such as 42P01 for a table that does \
                   not exist",
            )),
        }
    }

    /// True if `or success` comes next, false at the end of the command.
    fn or_success(&mut self) -> Result<bool, Fault> {
        let Some((word, offset)) = self.lexer.word() else {
            return Ok(false);
        };
        let second = self.lexer.word().map(|(word, _)| word);
        if word != "or" || second != Some("success") {
            return Err(
                Fault::new(offset, format!("\\expect does not take \"{word}\""))
                    .hint("write \\expect 40P01, or \\expect 40P01 or success"),
            );
        }
        self.no_more()?;
        Ok(true)
    }

    fn required(&mut self, what: &str) -> Result<(&'a str, usize), Fault> {
        let missing = || Fault::new(self.backslash, format!("\\{} needs {what}", self.name));
        self.lexer.word().ok_or_else(missing)
    }

    fn no_more(&mut self) -> Result<(), Fault> {
        match self.lexer.word() {
            None => Ok(()),
            Some((word, offset)) => Err(Fault::new(
                offset,
                format!("\\{} does not take \"{word}\"", self.name),
            )),
        }
    }
}

fn valid(name: &str, offset: usize) -> Result<&str, Fault> {
    if is_valid_name(name) {
        return Ok(name);
    }
    Err(
        Fault::new(offset, format!("invalid variable name \"{name}\""))
            .hint("letters, digits and underscores, not starting with a digit"),
    )
}

/// The number that a word starts with, and the rest of the word. What is too large stays large.
fn leading_number(word: &str) -> Option<(u64, &str)> {
    let unsigned = word.strip_prefix(['+', '-']).unwrap_or(word);
    let rest = unsigned.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = &unsigned[..unsigned.len() - rest.len()];
    if digits.is_empty() {
        return None;
    }
    let amount = digits.parse().unwrap_or(u64::MAX);
    Some((if word.starts_with('-') { 0 } else { amount }, rest))
}

/// `\sleep 1.5 s`: the time is a whole number, of a smaller unit if need be.
fn no_fraction(word: &str, fraction: &str, unit: &str, offset: usize) -> Fault {
    // What follows the digits may have its unit attached.
    let digits = |c: char| c.is_ascii_digit();
    let attached = fraction[1..].trim_start_matches(digits);
    let number = &word[..word.len() - attached.len()];
    let unit = if attached.is_empty() { unit } else { attached };
    let smaller = match unit.to_ascii_lowercase().as_str() {
        "s" => Some("ms"),
        "ms" => Some("us"),
        _ => None,
    };
    let fault = Fault::new(offset, format!("\"{number}\" is not a whole number"));
    match (smaller, number.parse::<f64>()) {
        (Some(smaller), Ok(amount)) => {
            fault.hint(format!("write \\sleep {:.0} {smaller}", amount * 1000.0))
        }
        _ => fault.hint("write \\sleep 1500 us; units are us, ms and s"),
    }
}

fn unit_us(word: &str, offset: usize) -> Result<u64, Fault> {
    match word.to_ascii_lowercase().as_str() {
        "us" => Ok(1),
        "ms" => Ok(1_000),
        "s" => Ok(1_000_000),
        _ => Err(Fault::new(offset, format!("unknown time unit \"{word}\"")).hint("us, ms or s")),
    }
}
