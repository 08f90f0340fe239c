//! Errors of statements: the server's message, the position in the statement, and a hint where the
//! cause is how statements are sent.

use std::borrow::Cow;

use pgdyno_wire::ServerMessage;

use super::Worker;
use crate::config::Protocol;
use crate::failure::Failure;

/// Hints for errors that do not occur in the simple protocol.
const UNTYPED: &str = "in this protocol a variable is a parameter without a type: cast it, as in \
    :x::int, or use -M simple, which puts its value into the text";
const MISPLACED: &str = "in this protocol a variable is a parameter, which can stand only where a \
    value can: use -M simple, which puts its value into the text";
const UNPREPARABLE: &str = "a statement that was prepared cannot return other columns later: use \
    -M simple or -M extended";

impl Worker {
    /// The server's error for the active statement.
    pub(super) fn failure_of(&self, slot: usize, error: &ServerMessage<'_>) -> Box<Failure> {
        let mut failure = Failure::of_server(error);
        if let Some((position, text)) = error.position.zip(self.text_under_way(slot)) {
            failure.point_at(&text, position);
        }
        failure.details.advice = self.advice(slot, error).unwrap_or_default();
        failure
    }

    fn advice(&self, slot: usize, error: &ServerMessage<'_>) -> Option<&'static str> {
        let protocol = self.shared.plan.protocol;
        let (_, statement) = self.statement(slot)?;
        if protocol == Protocol::Simple || statement.simple_only {
            return None;
        }
        let has_parameters = !statement.parameters.is_empty();
        match error.sqlstate {
            "42725" | "42P18" | "42883" | "42804" if has_parameters => Some(UNTYPED),
            "42601" | "42P02" if has_parameters => Some(MISPLACED),
            "0A000" if error.message.starts_with("cached plan") => Some(UNPREPARABLE),
            _ => None,
        }
    }

    /// The statement under way as it was sent, if it has no made-up rows.
    fn text_under_way(&self, slot: usize) -> Option<Cow<'_, str>> {
        let (_, statement) = self.statement(slot)?;
        let client = self.links[slot].client.as_ref()?;
        if statement.rows.is_some() {
            return None;
        }
        if self.shared.plan.protocol != Protocol::Simple && !statement.simple_only {
            return Some(Cow::Borrowed(&statement.parameterized));
        }
        let mut text = Vec::new();
        statement.write_simple(&client.variables, &mut text);
        String::from_utf8(text).ok().map(Cow::Owned)
    }
}
