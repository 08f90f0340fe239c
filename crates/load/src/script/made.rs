//! Rows of `\rows` without a client: the data of COPY for a table that is filled before a load.

use super::error::ScriptError;
use super::names::{Names, Variables};
use super::parse::parse;
use super::random::Rng;
use super::rows::Rows;
use super::value::Value;
use super::{Command, Script, Source, Statement, eval};

const HINT: &str = "it may have \\set, and COPY … FROM STDIN with \\rows";

/// The data of a COPY, row after row.
#[derive(Debug)]
pub struct MadeRows {
    script: Script,
    /// Place of COPY among the script's commands.
    copy: usize,
    variables: Variables,
    rng: Rng,
    next: u64,
    count: u64,
}

impl MadeRows {
    /// Of a text that has `\set`s and, at its end, one COPY with `\rows`. `defined` are variables
    /// with their values, in addition to those that are set.
    ///
    /// # Errors
    /// The text has a mistake, or something else; or a variable has no value.
    pub fn new(
        source: &Source<'_>,
        defined: &[(String, String)],
        seed: u64,
    ) -> Result<Self, ScriptError> {
        let names: Vec<&str> = defined.iter().map(|(name, _)| name.as_str()).collect();
        let mut group = parse(&[*source], &names)?;
        let mut variables = Variables::new(&group.names);
        variables.set(Names::DEFAULT_SEED, Value::Int(seed.cast_signed()));
        for (name, text) in defined {
            if let Some(slot) = group.names.find(name) {
                variables.set_text(slot, text.as_bytes());
            }
        }
        let mut made = Self {
            script: group.scripts.remove(0),
            copy: 0,
            variables,
            rng: Rng::new(seed),
            next: 0,
            count: 0,
        };
        made.begin()?;
        Ok(made)
    }

    /// Sets the variables, and finds COPY.
    fn begin(&mut self) -> Result<(), ScriptError> {
        for (place, command) in self.script.commands.iter().enumerate() {
            let at = |message: &str| self.script.error_at(place, message, HINT);
            match command {
                Command::Set { slot, expr } => {
                    let value = eval(expr, &self.variables, &mut self.rng);
                    let value = value.map_err(|error| at(&error.to_string()))?;
                    self.variables.set(*slot, value);
                }
                Command::Sql(statement) if statement.copy_in => {
                    self.copy = place;
                    let rows = statement.rows.as_ref();
                    let count = rows.map_or(Ok(0), |rows| rows.count(statement, &self.variables));
                    self.count = count.map_err(|error| at(&error.to_string()))?;
                }
                _ => return Err(at("this cannot be used where rows are made before a load")),
            }
        }
        Ok(())
    }

    /// The next rows in COPY's text format, `bytes` of them or somewhat more; `None` after the last.
    ///
    /// # Errors
    /// A column has no value.
    pub fn piece(&mut self, bytes: usize) -> Result<Option<Vec<u8>>, ScriptError> {
        let Some(Command::Sql(Statement {
            rows: Some(rows), ..
        })) = self.script.commands.get(self.copy)
        else {
            return Ok(None);
        };
        let mut out = Vec::with_capacity(bytes + bytes / 8);
        while self.next < self.count && out.len() < bytes {
            let (variables, rng) = (&mut self.variables, &mut self.rng);
            Rows::write_copy(rows, self.next, variables, rng, &mut out)
                .map_err(|error| self.script.error_at(self.copy, &error.to_string(), HINT))?;
            self.next += 1;
        }
        Ok(Some(out).filter(|out| !out.is_empty()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(text: &str, scale: &str) -> Result<String, ScriptError> {
        let source = Source {
            name: "setup",
            text,
            file: "setup.sql",
        };
        let mut rows = MadeRows::new(&source, &[("scale".into(), scale.into())], 7)?;
        let mut all = Vec::new();
        while let Some(piece) = rows.piece(16)? {
            all.extend(piece);
        }
        Ok(String::from_utf8(all).expect("text"))
    }

    #[test]
    fn rows_follow_the_variables_and_come_in_pieces() {
        let text =
            "\\set n 3 * :scale\ncopy t from stdin \\rows :n :row + 1, 'a', text_of(:row, 4)";
        let rows = made(text, "4").expect("rows");
        assert_eq!(rows.lines().count(), 12);
        assert!(rows.starts_with("1\ta\t") && rows.lines().all(|row| row.len() > 7));
        assert_eq!(rows, made(text, "4").expect("the same rows"));
        assert_eq!(made(text, "0").expect("none"), "");
    }

    #[test]
    fn anything_else_is_refused_where_it_stands() {
        let other = made("\\sleep 1\ncopy t from stdin \\rows 1 :row", "1").expect_err("a pause");
        assert_eq!((other.line, other.file.as_str()), (1, "setup.sql"));
        let unset = made("\n\ncopy t from stdin \\rows :n :row", "1").expect_err("no value");
        assert_eq!(unset.line, 3);
        let fails = made("copy t from stdin \\rows 5 1 / (3 - :row)", "1").expect_err("a zero");
        assert!(fails.to_string().contains("division by zero"), "{fails}");
    }
}
