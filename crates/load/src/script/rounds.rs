//! `\for NAME COUNT` … `\endfor`: commands executed several times.
//!
//! ```text
//! \set lines random(5, 15)
//! \for line :lines
//! insert into order_lines (order_id, line) values (:order, :line);
//! \endfor
//! ```
//!
//! COUNT is a whole number or a variable, read once, before the first round. The variable NAME has
//! the number of the round, from 1. A script may change it, which does not change the rounds.

use super::error::{EvalError, Fault};
use super::names::{Scope, Slot, Variables};
use super::rows::Count;
use super::value::Value;

/// Most rounds of one `\for`, which a client goes through without a look at the end of the run.
pub const ROUNDS_MAX: u64 = 65_535;

/// `\for`.
#[derive(Debug, Clone)]
pub struct Rounds {
    /// The variable that gets the number of the round.
    slot: Slot,
    count: Count,
    /// Rounds that began, and all that are to be; no script can name these variables.
    begun: Slot,
    all: Slot,
}

impl Rounds {
    /// The rounds of the variable `name`.
    pub(super) fn new(
        name: &str,
        count: Count,
        offset: usize,
        scope: &mut Scope,
    ) -> Result<Self, Fault> {
        if let Count::Fixed(count) = count
            && count > ROUNDS_MAX
        {
            return Err(Fault::new(offset, too_many(count)));
        }
        Ok(Self {
            slot: scope.slot(name, offset)?,
            count,
            begun: scope.slot(&format!("rounds of {name} that began"), offset)?,
            all: scope.slot(&format!("rounds of {name}"), offset)?,
        })
    }

    /// Reads the number of rounds.
    ///
    /// # Errors
    /// It is none, or too large.
    pub fn start(&self, variables: &mut Variables) -> Result<(), EvalError> {
        let count = self.count.value(variables, "rounds")?;
        if count > ROUNDS_MAX {
            return Err(EvalError::new(too_many(count)));
        }
        variables.set(self.all, Value::Int(count.cast_signed()));
        variables.set(self.begun, Value::Int(0));
        Ok(())
    }

    /// Begins the next round; false if there is none.
    ///
    /// # Errors
    /// The rounds were never started.
    pub fn next(&self, variables: &mut Variables) -> Result<bool, EvalError> {
        let begun = variables.value(self.begun)?.to_int()?;
        if begun >= variables.value(self.all)?.to_int()? {
            return Ok(false);
        }
        variables.set(self.begun, Value::Int(begun + 1));
        variables.set(self.slot, Value::Int(begun + 1));
        Ok(true)
    }
}

fn too_many(count: u64) -> String {
    format!("{count} rounds are too many for \\for, which has at most {ROUNDS_MAX}")
}
