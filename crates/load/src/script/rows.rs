//! `\rows COUNT EXPRESSION [, EXPRESSION] …`: rows made up for the statement before it.
//!
//! ```text
//! copy events from stdin \rows 1000 :row, random(1, 10), 'new', random_uuid()
//! insert into events (id, kind) values \rows :batch :base + :row, random(1, 10)
//! insert into events values :rows on conflict do nothing \rows 50 :row, null
//! ```
//!
//! COUNT is a whole number or a variable. The expressions are evaluated for each row, in order,
//! with the row's number, from 0, in `:row`. A column is an expression, a variable, whose text is
//! taken as it is, or a text in single quotes. For COPY the rows are its data, in text format; in any
//! other statement they stand where `:rows` does, or after a final VALUES, as parameters or, in the
//! simple protocol, as literals.

use super::error::{EvalError, Fault};
use super::expr::Column;
use super::lexer::Lexer;
use super::names::{Names, Scope, Slot, Variables};
use super::random::Rng;
use super::sql::RawStatement;
use super::value::{Datum, Value};
use super::{Piece, Statement, eval};

/// Most parameters of one statement in the protocol. Rows of literals keep to it as well.
pub const ROW_VALUES_MAX: u64 = 65_535;
/// Options that COPY must not have: it would not read the text format, or not all of it.
const UNREADABLE: [&str; 7] = [
    "csv",
    "binary",
    "delimiter",
    "delimiters",
    "null",
    "default",
    "header",
];

/// Rows made up for a statement.
#[derive(Debug, Clone)]
pub struct Rows {
    pub(super) count: Count,
    pub(super) columns: Vec<Column>,
    /// `:row`.
    pub(super) number: Slot,
    /// Their position, in a statement other than COPY.
    pub(super) stand: Stand,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Count {
    Fixed(u64),
    Variable(Slot),
}

impl Count {
    /// A number of `what`, or a variable that has it; `hint` is for a word that is neither.
    pub(super) fn parse(
        word: &str,
        offset: usize,
        scope: &mut Scope,
        what: &str,
        hint: &str,
    ) -> Result<Self, Fault> {
        match word.strip_prefix(':') {
            Some(name) if super::is_valid_name(name) => {
                Ok(Self::Variable(scope.used(name, offset)?))
            }
            _ => word.parse().map(Self::Fixed).map_err(|_| {
                Fault::new(offset, format!("\"{word}\" is not a number of {what}")).hint(hint)
            }),
        }
    }

    /// The number, of `what`.
    pub(super) fn value(self, variables: &Variables, what: &str) -> Result<u64, EvalError> {
        match self {
            Self::Fixed(count) => Ok(count),
            Self::Variable(slot) => {
                let count = variables.value(slot)?.to_int()?;
                u64::try_from(count)
                    .map_err(|_| EvalError::new(format!("{count} is not a number of {what}")))
            }
        }
    }
}

/// Before which piece, and at which byte of the parameterized text.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Stand {
    pub piece: usize,
    pub parameterized: usize,
}

impl Rows {
    /// Reads what follows `\rows`.
    pub(super) fn parse(
        mut lexer: Lexer<'_>,
        backslash: usize,
        scope: &mut Scope,
    ) -> Result<Self, Fault> {
        let Some((word, offset)) = lexer.word() else {
            return Err(Fault::new(
                backslash,
                "\\rows needs a count and expressions",
            ));
        };
        let hint = "write \\rows 100 :row, random(1, 10), or a variable: \\rows :count …";
        let count = Count::parse(word, offset, scope, "rows", hint)?;
        let number = scope.slot(Names::ROW, offset)?;
        Ok(Self {
            count,
            columns: super::expr::parse_columns(lexer, scope)?,
            number,
            stand: Stand::default(),
        })
    }

    /// Number of rows, for the statement as it stands.
    ///
    /// # Errors
    /// The variable is not a whole number; or there are too many or too few for the statement.
    pub fn count(&self, statement: &Statement, variables: &Variables) -> Result<u64, EvalError> {
        let count = self.count.value(variables, "rows")?;
        match self.unfit(statement.copy_in, statement.parameters.len(), count) {
            Some(why) => Err(EvalError::new(why)),
            None => Ok(count),
        }
    }

    /// Number of values of a row.
    #[must_use]
    pub fn columns_count(&self) -> usize {
        self.columns.len()
    }

    /// The variable that a column of a row is; `None` if it is none.
    #[must_use]
    pub fn variable(&self, column: usize) -> Option<Slot> {
        match self.columns.get(column) {
            Some(Column::Variable(slot)) => Some(*slot),
            _ => None,
        }
    }

    /// True if every execution has the same number of rows, so that it can be prepared.
    #[must_use]
    pub fn is_count_fixed(&self) -> bool {
        matches!(self.count, Count::Fixed(_))
    }

    /// Number of rows, if fixed, and of values in each: what the statement's text depends on.
    #[must_use]
    pub fn shape(&self) -> (Option<u64>, usize) {
        let count = match self.count {
            Count::Fixed(count) => Some(count),
            Count::Variable(_) => None,
        };
        (count, self.columns.len())
    }

    /// Return the reason why a statement cannot have so many rows.
    fn unfit(&self, is_copy: bool, others: usize, count: u64) -> Option<String> {
        if is_copy {
            return None;
        }
        if count == 0 {
            return Some("\\rows needs at least one row for VALUES".into());
        }
        let columns = self.columns.len() as u64;
        let values = count.saturating_mul(columns).saturating_add(others as u64);
        (values > ROW_VALUES_MAX).then(|| {
            format!(
                "{count} rows of {columns} values make {values} parameters of the statement, which \
                 takes at most {ROW_VALUES_MAX}"
            )
        })
    }

    /// Checks what can be checked before the run.
    pub(super) fn check(&self, raw: &RawStatement<'_>, offset: usize) -> Result<(), Fault> {
        if raw.joined {
            let message = "\\rows cannot be used with queries joined by \\;";
            return Err(Fault::new(offset, message));
        }
        if let Count::Fixed(count) = self.count
            && let Some(why) = self.unfit(raw.is_copy_in(), 0, count)
        {
            return Err(Fault::new(offset, why).hint("take fewer rows, or COPY … FROM STDIN"));
        }
        if raw.is_copy_in() {
            let stops = ["where"];
            let words = raw
                .words()
                .skip_while(|word| !word.eq_ignore_ascii_case("stdin"));
            let mut words = words.take_while(|word| !stops.contains(&word.to_lowercase().as_str()));
            let unreadable = words.find(|word| UNREADABLE.contains(&word.to_lowercase().as_str()));
            return unreadable.map_or(Ok(()), |word| {
                let message = format!("\\rows writes the text format of COPY, without \"{word}\"");
                Err(Fault::new(offset, message))
            });
        }
        let is_last = raw
            .words()
            .last()
            .is_some_and(|word| word.eq_ignore_ascii_case("values"));
        if is_last || raw.names("rows") {
            Ok(())
        } else {
            let message = "the statement has no position for the rows of \\rows";
            Err(Fault::new(offset, message).hint(
                "use it after COPY … FROM STDIN, a statement that ends in VALUES, or one with \
                 :rows",
            ))
        }
    }

    /// Evaluates the columns of a row, in order.
    ///
    /// # Errors
    /// A variable among them has no value.
    pub fn evaluate(
        &self,
        number: u64,
        variables: &mut Variables,
        rng: &mut Rng,
        mut each: impl FnMut(usize, Datum<'_>),
    ) -> Result<(), EvalError> {
        variables.set(self.number, Value::Int(number.cast_signed()));
        for (index, column) in self.columns.iter().enumerate() {
            match column {
                Column::Expr(expr) => each(index, Datum::Value(eval(expr, variables, rng)?)),
                Column::Variable(slot) => each(index, variables.datum(*slot)?),
                Column::Text(text) => each(index, Datum::Text(text.as_bytes())),
            }
        }
        Ok(())
    }

    /// Appends a row of COPY's data.
    ///
    /// # Errors
    /// As [`Rows::evaluate`].
    pub fn write_copy(
        &self,
        number: u64,
        variables: &mut Variables,
        rng: &mut Rng,
        out: &mut Vec<u8>,
    ) -> Result<(), EvalError> {
        self.evaluate(number, variables, rng, |index, datum| {
            if index > 0 {
                out.push(b'\t');
            }
            match datum {
                Datum::Value(Value::Null) => out.extend_from_slice(b"\\N"),
                Datum::Value(value) => value.write_text(out),
                Datum::Text(text) => write_escaped(text, out),
            }
        })?;
        out.push(b'\n');
        Ok(())
    }

    /// Appends rows as literals: `(1, 'a'), (2, 'b')`.
    fn write_literals(
        &self,
        count: u64,
        variables: &mut Variables,
        rng: &mut Rng,
        out: &mut Vec<u8>,
    ) -> Result<(), EvalError> {
        for number in 0..count {
            out.extend_from_slice(if number == 0 { b"(" } else { b"), (" });
            self.evaluate(number, variables, rng, |index, datum| {
                if index > 0 {
                    out.extend_from_slice(b", ");
                }
                write_literal(datum, out);
            })?;
        }
        out.push(b')');
        Ok(())
    }

    /// Appends rows as parameters: `($3, $4), ($5, $6)`, after so many others.
    fn write_places(&self, count: u64, parameters: usize, out: &mut String) {
        let mut parameter = parameters;
        for number in 0..count {
            out.push_str(if number == 0 { "(" } else { "), (" });
            for index in 0..self.columns.len() {
                parameter += 1;
                out.push_str(if index == 0 { "$" } else { ", $" });
                out.push_str(&parameter.to_string());
            }
        }
        out.push(')');
    }
}

impl Statement {
    /// Appends the statement for the simple protocol, with rows.
    ///
    /// # Errors
    /// The rows cannot be made.
    pub fn write_simple_rows(
        &self,
        variables: &mut Variables,
        rng: &mut Rng,
        out: &mut Vec<u8>,
    ) -> Result<(), EvalError> {
        let Some(rows) = self.rows.as_ref().filter(|_| !self.copy_in) else {
            self.write_simple(variables, out);
            return Ok(());
        };
        let count = rows.count(self, variables)?;
        let (before, after) = self.pieces.split_at(rows.stand.piece);
        Piece::write_all(before, variables, out);
        rows.write_literals(count, variables, rng, out)?;
        Piece::write_all(after, variables, out);
        Ok(())
    }

    /// The text for the extended protocol, with places for so many rows.
    #[must_use]
    pub fn parameterized_rows(&self, rows: &Rows, count: u64) -> String {
        let (before, after) = self.parameterized.split_at(rows.stand.parameterized);
        let mut text = before.to_owned();
        rows.write_places(count, self.parameters.len(), &mut text);
        text.push_str(after);
        text
    }
}

/// As COPY's text format wants it.
fn write_escaped(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        let escaped = match byte {
            b'\\' => b'\\',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            _ => {
                out.push(byte);
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', escaped]);
    }
}

/// A literal that means the same whatever `standard_conforming_strings` says.
pub(super) fn write_literal(datum: Datum<'_>, out: &mut Vec<u8>) {
    let text = match datum {
        Datum::Value(Value::Double(value)) if !value.is_finite() => &[],
        Datum::Value(value) if value.is_quoted() => &[][..],
        Datum::Value(value) => return value.write_text(out),
        Datum::Text(text) => text,
    };
    if text.contains(&b'\\') {
        out.extend_from_slice(b" E");
    }
    out.push(b'\'');
    if let Datum::Value(value) = datum {
        value.write_text(out);
    }
    for &byte in text {
        if matches!(byte, b'\'' | b'\\') {
            out.push(byte);
        }
        out.push(byte);
    }
    out.push(b'\'');
}
