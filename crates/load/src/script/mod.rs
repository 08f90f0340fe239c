//! The script language: pgbench's, as PostgreSQL 18 documents it, and a few words more.
//!
//! A script is SQL statements and meta-commands (`\set`, `\if`, `\gset` …). [`parse`] turns its text
//! into a [`Script`]: a flat list of [`Command`]s in which variables are slots and `\if` blocks are
//! jumps, so that running one costs no look-up by name and, for numbers, no allocation.
//!
//! Additions to pgbench's language:
//!
//! - `\expect SQLSTATE` before a statement: that error is expected of the statement that follows;
//!   with `or success` it may also succeed;
//! - `\array NAME COUNT EXPRESSION` makes up an array, `:name[INDEX]` is an element (see [`Array`]'s
//!   module);
//! - `\for NAME COUNT` … `\endfor` executes commands several times (see [`Rounds`]'s module);
//! - `\rows COUNT EXPRESSION, …` after a statement makes up rows for it (see [`Rows`]'s module):
//!   COPY … FROM STDIN, or VALUES of many rows;
//! - `:txn`, the number of the transaction among the client's, from 0; a retry keeps it;
//! - `random_uuid()` in expressions: a version 4 UUID, drawn from the client's own generator;
//!   `random_text(min, max)`, `text_of(key, length)`, `uuid_of(key)`, `timestamp(seconds)`,
//!   `document_of(key, length)`, `array_of(key, count, distinct, length)` and
//!   `range_of(low, length)`.
//! - `\csv FILE NAME …`: the values of a line of a file, another one for each transaction (see
//!   [`Table`]'s module);
//! - `\forget`: the client forgets its cookies;
//! - `\get`, `\post` … and the lines that belong to them: HTTP requests (see [`Request`]'s module).
//!
//! Intended differences from pgbench:
//!
//! - A transaction that is tried again starts with the variables, not only the random numbers, of its
//!   first try.
//! - A statement with a variable inside quotes (`':name'`), or of several queries joined by `\;`,
//!   means the same in every protocol ([`Statement::simple_only`]); pgbench breaks it in the
//!   extended ones.
//! - A `:name` that nothing can set is left as written in every protocol, so that `a[1:n]` and
//!   `'{"a":true}'` work; pgbench makes parameters of them in the extended protocols.
//! - A variable that is NULL is a NULL parameter; pgbench would send the word `NULL`.
//! - Each client chooses its scripts with a generator of its own, and so does an open loop: the choice
//!   does not depend on who is faster. In pgbench the clients of a thread share one.
//! - `\shell` and `\setshell` are refused.
//! - Quotes, comments and parentheses that are never closed, invalid variable names (also `:1` in an
//!   expression), calls with too many arguments or with an empty one (`least(,1)`) are found before
//!   the run; so are misplaced pipeline commands, where that
//!   can be known, and pipelines in the simple protocol. Statements of a pipeline are prepared
//!   where they stand in it, not before it begins. A comment after the last statement is not sent as an empty query.

mod array;
mod binary;
mod builtin;
mod draft;
mod error;
mod eval;
mod expr;
mod fill;
mod functions;
mod lexer;
mod made;
mod meta;
mod names;
mod parse;
mod psql;
mod random;
mod request;
mod rounds;
mod rows;
mod shapes;
mod sql;
mod table;
mod template;
mod texts;
mod value;

pub use array::{Array, ELEMENTS_MAX};
pub use binary::BinaryType;
pub use builtin::{BUILTIN_NAMES, builtin};
pub use draft::Source;
pub use error::{EvalError, ScriptError};
pub use eval::{eval, eval_truth};
pub use expr::Expr;
pub use made::MadeRows;
pub use names::{Names, Slot, Variables, is_valid_name};
pub use parse::{Group, parse};
pub use random::Rng;
pub use request::{Extract, From, Request};
pub use rounds::{ROUNDS_MAX, Rounds};
pub use rows::{ROW_VALUES_MAX, Rows};
pub use table::Table;
pub use value::{Datum, Value};

use std::time::Duration;

/// Largest script text accepted, in bytes.
pub const SCRIPT_BYTES_MAX: usize = 16 << 20;
/// Deepest nesting of parentheses, calls and CASEs in an expression.
pub const NESTING_MAX: usize = 1000;
/// Highest tree of an expression: `1 + 1 + … + 1` grows by one level with each term.
pub const HEIGHT_MAX: usize = 4000;
/// Most parameters of one statement: what pgbench takes.
pub const PARAMETERS_MAX: usize = 255;
/// Most distinct variables of one client group.
pub const VARIABLES_MAX: usize = 4096;

/// A parsed script, ready to run.
#[derive(Debug, Clone)]
pub struct Script {
    /// Its name in results.
    pub name: String,
    /// Its source, for error messages.
    pub file: String,
    /// The steps in order. Jump targets are indexes into this list; a target equal to its length
    /// is the end of the script.
    pub commands: Vec<Command>,
    /// Position of each command in the file; same length as `commands`.
    pub origins: Vec<Origin>,
    /// Variables that the script uses and never sets itself, in order of first use, without the
    /// built-in ones. Whoever runs it has to define them.
    pub variables_unset: Vec<String>,
}

impl Script {
    /// An error at one of its commands.
    #[must_use]
    pub fn error_at(&self, command: usize, message: &str, hint: &str) -> ScriptError {
        let origin = self.origins.get(command);
        ScriptError {
            file: self.file.clone(),
            line: origin.map_or(1, |origin| origin.line),
            column: origin.map_or(1, |origin| origin.column),
            message: message.to_owned(),
            hint: Some(hint.to_owned()),
        }
    }

    /// Its statements, in order of the text.
    pub fn statements(&self) -> impl Iterator<Item = &Statement> {
        self.commands.iter().filter_map(|command| match command {
            Command::Sql(statement) | Command::Hops(statement) => Some(statement),
            _ => None,
        })
    }
}

/// Position of a command in its file.
#[derive(Debug, Clone)]
pub struct Origin {
    /// Line, 1-based.
    pub line: u32,
    /// Character in the line, 1-based.
    pub column: u32,
    /// A meta-command as written; with a statement's `\gset` or `\rows`, the statement and it. Empty
    /// for a statement alone, which has its own text, and for what no file has.
    pub written: Box<str>,
}

/// A step of a script.
#[derive(Debug, Clone)]
pub enum Command {
    /// Send a statement or a request, and wait for its answer unless in a pipeline.
    Sql(Statement),
    /// Nothing: where the redirects that the request before leads to are counted.
    Hops(Statement),
    /// `\set`: evaluate, and keep the value.
    Set {
        /// The variable that gets the value.
        slot: Slot,
        /// The expression.
        expr: Expr,
    },
    /// `\array`.
    Array(Array),
    /// `\csv`.
    Csv(Table),
    /// `\forget`: the client has no cookies from here on.
    Forget,
    /// `\sleep`.
    Sleep(Sleep),
    /// `\if` and `\elif`: go on if the condition is true, else go to `target`.
    JumpUnless {
        /// The condition; see [`eval_truth`].
        condition: Expr,
        /// Index into [`Script::commands`].
        target: usize,
    },
    /// `\for`.
    Start(Rounds),
    /// The next round begins here, or there is none: go to `target`.
    Round {
        /// The rounds.
        rounds: Rounds,
        /// Index into [`Script::commands`].
        target: usize,
    },
    /// End of a taken `\if` branch or of a round: go to `target`.
    Jump {
        /// Index into [`Script::commands`].
        target: usize,
    },
    /// `\startpipeline`.
    StartPipeline,
    /// `\syncpipeline`.
    SyncPipeline,
    /// `\endpipeline`.
    EndPipeline,
}

impl Command {
    /// The place that it may go to, if it is not the next.
    #[must_use]
    pub fn target(&self) -> Option<usize> {
        match self {
            Self::Jump { target }
            | Self::JumpUnless { target, .. }
            | Self::Round { target, .. } => Some(*target),
            _ => None,
        }
    }

    /// Lets it go to `place`, if it goes anywhere.
    pub(crate) fn aim(&mut self, place: usize) {
        if let Self::Jump { target }
        | Self::JumpUnless { target, .. }
        | Self::Round { target, .. } = self
        {
            *target = place;
        }
    }
}

/// A statement of a script: of SQL, or an HTTP request.
#[derive(Debug, Clone, Default)]
pub struct Statement {
    /// As written, without the final semicolon, and without blanks and `--` comments before it (a
    /// `/* */` comment may be a hint). An empty statement, which pgbench sends too, is `;`.
    pub text: String,
    /// With `$1`, `$2` … in place of variables, for the extended protocol.
    pub parameterized: String,
    /// Variable of each parameter. One that occurs twice is two parameters, as in pgbench.
    pub parameters: Vec<Slot>,
    /// Position among the script's statements, from 0.
    pub position: usize,
    /// The statement works only in the simple protocol: a variable is inside quotes, or it consists
    /// of several queries joined by `\;`. pgbench sends it by the requested protocol, and fails or
    /// inserts `$1`; pgdyno sends it by the simple protocol.
    pub simple_only: bool,
    /// It is several queries, joined by `\;`.
    pub joined: bool,
    /// It is COPY … FROM STDIN.
    pub copy_in: bool,
    /// Rows that `\rows` makes up for it.
    pub rows: Option<Rows>,
    /// SQLSTATE that `\expect` announced.
    pub expect: Option<[u8; 5]>,
    /// The announced error may be absent: `\expect … or success`.
    pub may_succeed: bool,
    /// Use of the rows that it returns.
    pub capture: Option<Capture>,
    /// It is no SQL, but this request.
    pub request: Option<Box<Request>>,
    pub(crate) pieces: Vec<Piece>,
}

/// A stretch of a statement: literal text, or a variable (with how it was written).
#[derive(Debug, Clone)]
pub(crate) enum Piece {
    Text(String),
    Variable {
        slot: Slot,
        name: String,
        quoted: bool,
    },
}

/// Which rows `\gset` and `\aset` store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaptureKind {
    /// `\gset`: the one row of the last query combined by `\;`; else the transaction fails.
    One,
    /// `\aset`: the last row of every query; none is fine.
    Last,
}

/// `\gset` or `\aset`: columns become variables called `prefix` + column name.
#[derive(Debug, Clone)]
pub struct Capture {
    /// Which rows are stored.
    pub kind: CaptureKind,
    /// Prefix of the column's name.
    pub prefix: String,
}

/// `\sleep`.
#[derive(Debug, Clone, Copy)]
pub struct Sleep {
    pub(crate) amount: SleepAmount,
    pub(crate) unit_us: u64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum SleepAmount {
    Fixed(u64),
    Variable(Slot),
}

impl Capture {
    /// The meta-command, without the backslash.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self.kind {
            CaptureKind::One => "gset",
            CaptureKind::Last => "aset",
        }
    }
}

impl Statement {
    /// The reason why it cannot be in a pipeline, if any.
    #[must_use]
    pub fn unpipable(&self) -> Option<String> {
        let what = match &self.capture {
            Some(capture) => format!("\\{}", capture.word()),
            None if self.expect.is_some() => "\\expect".into(),
            None if self.copy_in => "COPY FROM STDIN".into(),
            None if self.joined => "a query joined to another by \\;".into(),
            None => return None,
        };
        Some(format!("{what} cannot be used in a pipeline"))
    }

    /// Reads the variable `to` wherever it says `from`.
    pub fn redirect(&mut self, from: Slot, to: Slot) {
        let in_pieces = self.pieces.iter_mut().filter_map(|piece| match piece {
            Piece::Variable { slot, .. } => Some(slot),
            Piece::Text(_) => None,
        });
        for slot in in_pieces.chain(&mut self.parameters) {
            if *slot == from {
                *slot = to;
            }
        }
    }

    /// Appends the statement for the simple protocol: values in place of variables, literally and
    /// without quoting, as pgbench does; a variable that is not defined stays `:name`.
    pub fn write_simple(&self, variables: &Variables, out: &mut Vec<u8>) {
        Piece::write_all(&self.pieces, variables, out);
    }
}

impl Piece {
    fn write_all(pieces: &[Self], variables: &Variables, out: &mut Vec<u8>) {
        for piece in pieces {
            match piece {
                Self::Text(text) => out.extend_from_slice(text.as_bytes()),
                Self::Variable { slot, name, quoted } => {
                    // A number is a literal as it stands; a UUID or an array is one only within
                    // quotes.
                    let to_quote = variables.to_quote(*slot).filter(|_| !quoted);
                    if let Some(datum) = to_quote {
                        rows::write_literal(datum, out);
                    } else if !variables.write_text(*slot, out) {
                        out.push(b':');
                        out.extend_from_slice(name.as_bytes());
                    }
                }
            }
        }
    }
}

impl Sleep {
    /// For so long.
    #[must_use]
    pub fn milliseconds(amount: u64) -> Self {
        Self {
            amount: SleepAmount::Fixed(amount),
            unit_us: 1000,
        }
    }

    /// The duration.
    ///
    /// # Errors
    /// The variable is not defined or is not a whole number that is not negative.
    pub fn duration(&self, variables: &Variables) -> Result<Duration, EvalError> {
        let amount = match self.amount {
            SleepAmount::Fixed(amount) => amount,
            SleepAmount::Variable(slot) => variables.sleep_amount(slot)?,
        };
        Ok(Duration::from_micros(amount.saturating_mul(self.unit_us)))
    }
}
