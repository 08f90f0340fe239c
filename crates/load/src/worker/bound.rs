//! Values of parameters, put together before they are bound.

use pgdyno_wire::Format;

use crate::client::Client;
use crate::script::{BinaryType, Datum, EvalError, Rows, Slot};

/// Values of one statement, text or binary. The memory is kept for the next one.
#[derive(Debug, Default)]
pub struct Bound {
    bytes: Vec<u8>,
    /// End of each value; `None` for NULL.
    ends: Vec<Option<usize>>,
    formats: Vec<Format>,
}

impl Bound {
    /// Starts with the values of variables.
    pub fn fill(&mut self, slots: &[Slot], types: &[Option<BinaryType>], client: &Client) {
        self.bytes.clear();
        self.ends.clear();
        self.formats.clear();
        for (index, slot) in slots.iter().enumerate() {
            let kind = types.get(index).copied().flatten();
            self.push(client.variables.parameter(*slot), kind);
        }
    }

    /// Adds made-up rows; `types` are those of a row.
    ///
    /// # Errors
    /// A value cannot be made.
    pub fn add_rows(
        &mut self,
        rows: &Rows,
        count: u64,
        types: &[Option<BinaryType>],
        client: &mut Client,
    ) -> Result<(), EvalError> {
        for number in 0..count {
            client.evaluate_row(rows, number, |index, datum| {
                self.push(datum, types.get(index).copied().flatten());
            })?;
        }
        Ok(())
    }

    fn push(&mut self, datum: Datum<'_>, kind: Option<BinaryType>) {
        if datum.is_null() {
            self.formats.push(Format::Text);
            return self.ends.push(None);
        }
        let binary = kind.is_some_and(|kind| kind.write(datum, &mut self.bytes));
        if !binary {
            datum.write_text(&mut self.bytes);
        }
        self.formats
            .push(if binary { Format::Binary } else { Format::Text });
        self.ends.push(Some(self.bytes.len()));
    }

    /// The values' formats; none if all are text.
    pub fn formats(&self) -> &[Format] {
        if self.formats.contains(&Format::Binary) {
            &self.formats
        } else {
            &[]
        }
    }

    /// The values, in order; `None` for NULL.
    pub fn values(&self) -> impl ExactSizeIterator<Item = Option<&[u8]>> {
        let mut from = 0;
        self.ends.iter().map(move |end| {
            let end = (*end)?;
            let value = &self.bytes[from..end];
            from = end;
            Some(value)
        })
    }
}

/// Appends a value for Bind; false if it is NULL.
pub fn write(value: Option<&[u8]>, out: &mut bytes::BytesMut) -> bool {
    out.extend_from_slice(value.unwrap_or_default());
    value.is_some()
}
