//! Rows that `\gset` and `\aset` turn into variables.
//!
//! As in pgbench `\gset` stores the one row of the statement's last query, and `\aset` the last row
//! of each query. Which query is the last is known only when the cycle is over, so the row is kept
//! until then. The memory is kept for the next statement.

use pgdyno_wire::{Columns, ProtocolError, Row};

use crate::failure::Failure;
use crate::script::{Capture, CaptureKind, Names, Slot, Variables, is_valid_name};

/// Rows of the statement under way.
#[derive(Debug, Default)]
pub struct Capturing {
    kind: Option<CaptureKind>,
    /// Variable of each column of the current result; `None` for one that nobody reads.
    columns: Vec<Option<Slot>>,
    /// The first of them with a name that no variable can have, with its prefix.
    unnamable: Option<String>,
    /// Rows of the current result.
    rows: u64,
    /// Rows of the result before, while none is current.
    last_rows: u64,
    /// The current row's values, one after the other, and where each ends.
    values: Vec<u8>,
    ends: Vec<usize>,
    /// Buffer for the names.
    name: String,
}

impl Capturing {
    /// For the next statement.
    pub fn restart(&mut self, capture: Option<&Capture>) {
        self.kind = capture.map(|capture| capture.kind);
        self.begin_result();
        self.last_rows = 0;
    }

    /// True if rows are wanted.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.kind.is_some()
    }

    fn begin_result(&mut self) {
        self.columns.clear();
        self.unnamable = None;
        self.rows = 0;
        self.values.clear();
        self.ends.clear();
    }

    /// The columns of a result.
    ///
    /// # Errors
    /// The message is malformed.
    pub fn columns(
        &mut self,
        prefix: &str,
        names: &Names,
        mut columns: Columns<'_>,
    ) -> Result<(), ProtocolError> {
        self.begin_result();
        while let Some(name) = columns.name()? {
            self.name.clear();
            self.name.push_str(prefix);
            self.name.push_str(name);
            if self.unnamable.is_none() && !is_valid_name(&self.name) {
                self.unnamable = Some(self.name.clone());
            }
            self.columns.push(names.find(&self.name));
        }
        Ok(())
    }

    /// A row of the current result. NULL is stored as an empty text, as in pgbench.
    ///
    /// # Errors
    /// The message is malformed.
    pub fn row(&mut self, mut row: Row<'_>) -> Result<(), ProtocolError> {
        self.rows += 1;
        self.values.clear();
        self.ends.clear();
        for _ in &self.columns {
            let Some(value) = row.value()? else { break };
            self.values.extend_from_slice(value.unwrap_or_default());
            self.ends.push(self.values.len());
        }
        Ok(())
    }

    /// The current result, of a query with or without rows, is over.
    ///
    /// # Errors
    /// A row of it cannot be stored.
    pub fn complete(&mut self, variables: &mut Variables) -> Result<(), Box<Failure>> {
        self.last_rows = self.rows;
        self.rows = 0;
        if self.kind == Some(CaptureKind::Last) && self.last_rows > 0 {
            self.store(variables)?;
        }
        Ok(())
    }

    /// The statement is over and went well.
    ///
    /// # Errors
    /// The row that `\gset` wants is not there or cannot be stored.
    pub fn finish(&mut self, variables: &mut Variables) -> Result<(), Box<Failure>> {
        if self.kind != Some(CaptureKind::One) {
            return Ok(());
        }
        if self.last_rows != 1 {
            let rows = self.last_rows;
            let message = format!("\\gset expects one row, and the statement returned {rows}");
            return Err(Failure::own("gset-rows", message));
        }
        self.store(variables)
    }

    fn store(&mut self, variables: &mut Variables) -> Result<(), Box<Failure>> {
        if let Some(name) = &self.unnamable {
            let message = format!("no variable can be called \"{name}\"");
            return Err(Failure::own("gset-name", message));
        }
        let mut from = 0;
        for (column, end) in self.columns.iter().zip(&self.ends) {
            if let Some(variable) = column {
                variables.set_text(*variable, &self.values[from..*end]);
            }
            from = *end;
        }
        Ok(())
    }
}
