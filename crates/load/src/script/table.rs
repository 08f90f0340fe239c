//! `\csv FILE NAME …`: variables from a line of a file, another line for each transaction.
//!
//! ```text
//! \csv users.csv login password
//! \post /login
//! \body login=:login&password=:password
//! ```
//!
//! Whoever hands a script to the parser puts the lines of the file after it, as JSON:
//! `\csv users.csv login password = [["ann","x"],["ben","y"]]`. The language reads no files.
//!
//! The clients of a group take turns: the line of a transaction is decided by its client and its
//! number, not by who is faster, and a retry has the line of the first try. Where all clients are as
//! fast as each other, each line is used once before any is used again.

use std::sync::Arc;

use super::error::Fault;
use super::lexer::Lexer;
use super::names::{Scope, Slot, Variables, is_valid_name};

/// Lines of a file, and the variables that their values go to.
#[derive(Debug, Clone)]
pub struct Table {
    slots: Arc<[Slot]>,
    lines: Arc<[Vec<String>]>,
}

impl Table {
    /// Reads what follows `\csv`; with the names of its variables.
    pub(super) fn parse(
        mut lexer: Lexer<'_>,
        backslash: usize,
        scope: &mut Scope,
    ) -> Result<(Vec<String>, Self), Fault> {
        let usage = || {
            Fault::new(backslash, "\\csv needs a file and variables")
                .hint("\\csv users.csv login password")
        };
        let quoted = lexer.quoted()?;
        let file = match quoted {
            Some(file) => file,
            None => lexer.word().ok_or_else(usage)?.0.to_owned(),
        };
        let mut names = Vec::new();
        let mut slots = Vec::new();
        let mut is_filled = false;
        while let Some((word, offset)) = lexer.word() {
            if word == "=" {
                is_filled = true;
                break;
            }
            if !is_valid_name(word) {
                let message = format!("invalid variable name \"{word}\"");
                return Err(Fault::new(offset, message)
                    .hint("letters, digits and underscores, not starting with a digit"));
            }
            slots.push(scope.slot(word, offset)?);
            names.push(word.to_owned());
        }
        if names.is_empty() {
            return Err(usage());
        }
        if !is_filled {
            let message = format!("\\csv: the lines of {file} are not there");
            return Err(Fault::new(backslash, message));
        }
        let (json, offset) = lexer.rest();
        let lines: Vec<Vec<String>> = serde_json::from_str(&json).map_err(|error| {
            Fault::new(offset, format!("\\csv: the lines are not valid: {error}"))
        })?;
        check(&file, &lines, names.len()).map_err(|why| Fault::new(backslash, why))?;
        let (slots, lines) = (slots.into(), lines.into());
        Ok((names, Self { slots, lines }))
    }

    /// Sets the variables for transaction `txn` of the client `id` among `clients`.
    pub fn set(&self, id: u32, clients: u32, txn: u64, variables: &mut Variables) {
        let turn = txn.wrapping_mul(u64::from(clients)).wrapping_add(id.into());
        let count = self.lines.len().max(1) as u64;
        let line = usize::try_from(turn % count).unwrap_or(0);
        if let Some(values) = self.lines.get(line) {
            for (slot, value) in self.slots.iter().zip(values) {
                variables.set_text(*slot, value.as_bytes());
            }
        }
    }
}

/// All lines have as many values as there are variables.
fn check(file: &str, lines: &[Vec<String>], wanted: usize) -> Result<(), String> {
    if lines.is_empty() {
        return Err(format!("\\csv: {file} is empty"));
    }
    match lines.iter().position(|values| values.len() != wanted) {
        None => Ok(()),
        Some(at) => Err(format!(
            "\\csv: line {} of {file} has {} values, and {wanted} are wanted",
            at + 1,
            lines[at].len()
        )),
    }
}
