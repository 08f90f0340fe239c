//! Errors that stop a load before it begins, or altogether: a code, a message, a hint.

use std::fmt;

/// An error that prevents or ends a load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadError {
    /// Stable, for programs: `connection-failed`, `config-invalid` …
    pub code: &'static str,
    /// The problem, without a final period.
    pub message: String,
    /// The hint.
    pub hint: Option<String>,
}

impl LoadError {
    /// An error without a hint.
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            hint: None,
        }
    }

    /// The same error with a hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for LoadError {}
