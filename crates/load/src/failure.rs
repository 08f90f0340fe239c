//! Why a transaction, or a connection, failed.

use crate::tally::Code;

/// A failure, by code and in words.
#[derive(Debug, Clone)]
pub struct Failure {
    /// SQLSTATE or own code.
    pub code: Code,
    /// In words.
    pub message: String,
    /// Position of the statement that failed.
    pub position: Option<usize>,
}

impl Failure {
    /// With a code of the engine's own.
    pub fn own(code: &'static str, message: impl Into<String>) -> Box<Self> {
        Box::new(Self {
            code: Code::Own(code),
            message: message.into(),
            position: None,
        })
    }

    /// At a statement.
    #[must_use]
    pub fn at(mut self: Box<Self>, position: usize) -> Box<Self> {
        self.position = Some(position);
        self
    }
}
