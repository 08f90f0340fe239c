//! `\array NAME COUNT EXPRESSION`: an array in a variable, to be used by several statements.
//!
//! ```text
//! \array features 12 random_zipfian(1, 1000000, 1.1)
//! select id, words from features where id = any(:features);
//! insert into uses (feature, number) values \rows 12 :features[:row + 1], :row
//! ```
//!
//! COUNT is a whole number or a variable. The expression is evaluated for each element, with its
//! number, from 0, in `:row`, as in `\rows`. The variable's value is the text of an array of the
//! server, `{5,17,3}`; arrays that `\gset` stores are no different. `:name[INDEX]` is an element, as
//! in SQL: the first is 1, and one that is not there is NULL.

use super::error::{EvalError, Fault};
use super::eval;
use super::expr::Expr;
use super::names::{Slot, Variables};
use super::random::Rng;
use super::rows::Count;
use super::value::Value;

/// Most elements of an array.
pub const ELEMENTS_MAX: u64 = 65_535;

/// `\array`.
#[derive(Debug, Clone)]
pub struct Array {
    /// The variable that gets it.
    pub(super) slot: Slot,
    pub(super) count: Count,
    pub(super) expr: Expr,
    /// `:row`.
    pub(super) number: Slot,
}

impl Array {
    /// Checks what can be checked before the run.
    pub(super) fn check(&self, offset: usize) -> Result<(), Fault> {
        match self.count {
            Count::Fixed(count) if count > ELEMENTS_MAX => Err(Fault::new(offset, too_many(count))),
            _ => Ok(()),
        }
    }

    /// Evaluates the elements, and sets the variable.
    ///
    /// # Errors
    /// The count is not one, or an element has no value.
    pub fn set(&self, variables: &mut Variables, rng: &mut Rng) -> Result<(), EvalError> {
        let count = self.count.value(variables, "elements")?;
        if count > ELEMENTS_MAX {
            return Err(EvalError::new(too_many(count)));
        }
        let mut text = variables.take_buffer();
        text.push(b'{');
        let written = self.write(count, variables, rng, &mut text);
        text.push(b'}');
        if written.is_ok() {
            variables.set_text(self.slot, &text);
        }
        variables.give_buffer(text);
        written
    }

    fn write(
        &self,
        count: u64,
        variables: &mut Variables,
        rng: &mut Rng,
        out: &mut Vec<u8>,
    ) -> Result<(), EvalError> {
        for number in 0..count {
            if number > 0 {
                out.push(b',');
            }
            variables.set(self.number, Value::Int(number.cast_signed()));
            let value = eval(&self.expr, variables, rng)?;
            if value == EMPTY {
                out.extend_from_slice(b"\"\"");
            }
            value.write_text(out);
        }
        Ok(())
    }
}

/// A text that an array cannot have as it is.
const EMPTY: Value = Value::Text { seed: 0, length: 0 };

fn too_many(count: u64) -> String {
    format!("{count} elements are too many for an array, which takes at most {ELEMENTS_MAX}")
}
