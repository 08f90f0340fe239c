//! The text of a statement: cut at its variables, once for each way of sending it.

use super::error::Fault;
use super::names::{Assigned, Scope, Slot};
use super::rows::Stand;
use super::sql::{RawStatement, Span};
use super::{PARAMETERS_MAX, Piece, Statement};

impl Statement {
    /// Takes the text over from the script.
    pub(super) fn fill(
        mut self,
        raw: &RawStatement<'_>,
        definable: &Assigned,
        scope: &mut Scope,
    ) -> Result<Self, Fault> {
        self.joined = raw.joined;
        self.copy_in = raw.is_copy_in();
        self.simple_only = raw.joined || (self.copy_in && self.rows.is_some());
        let mut rows_stand = self.rows.is_some() && !self.copy_in;
        for span in &raw.spans {
            match *span {
                Span::Text(text) => self.push_text(text),
                Span::Variable {
                    name: "rows",
                    quoted: false,
                    ..
                } if rows_stand => {
                    self.stand_rows();
                    self.text.push_str(":rows");
                    rows_stand = false;
                }
                Span::Variable {
                    name,
                    offset,
                    quoted,
                } => {
                    if !quoted {
                        scope.uses.note(name);
                    }
                    if definable.contains(name) {
                        let slot = scope.slot(name, offset)?;
                        self.push_variable(slot, name, quoted);
                    } else {
                        self.push_text(&format!(":{name}"));
                    }
                }
            }
        }
        if self.text.is_empty() {
            self.push_text(";");
        }
        if rows_stand {
            self.push_text(" ");
            self.stand_rows();
        }
        if self.parameters.len() > PARAMETERS_MAX && !self.simple_only {
            let count = self.parameters.len();
            let message = format!(
                "the statement has too many parameters: {count}, and {PARAMETERS_MAX} are allowed"
            );
            return Err(Fault::new(raw.offset, message));
        }
        Ok(self)
    }

    /// The rows stand here.
    fn stand_rows(&mut self) {
        let stand = Stand {
            piece: self.pieces.len(),
            parameterized: self.parameterized.len(),
        };
        // What follows is a piece of its own.
        self.pieces.push(Piece::Text(String::new()));
        if let Some(rows) = &mut self.rows {
            rows.stand = stand;
        }
    }

    fn push_text(&mut self, text: &str) {
        self.text.push_str(text);
        self.parameterized.push_str(text);
        match self.pieces.last_mut() {
            Some(Piece::Text(last)) => last.push_str(text),
            _ => self.pieces.push(Piece::Text(text.to_owned())),
        }
    }

    fn push_variable(&mut self, slot: Slot, name: &str, quoted: bool) {
        let written = format!(":{name}");
        self.text.push_str(&written);
        self.simple_only |= quoted;
        if quoted {
            self.parameterized.push_str(&written);
        } else {
            self.parameters.push(slot);
            self.parameterized
                .push_str(&format!("${}", self.parameters.len()));
        }
        let name = name.to_owned();
        self.pieces.push(Piece::Variable { slot, name, quoted });
    }
}
