//! Errors, with a stable code, a message and a hint.

use std::fmt;
use std::io;

/// An error of a disk, its log or a power cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlackoutError {
    /// Stable, for programs.
    pub code: &'static str,
    /// The problem and its position, without a final period.
    pub message: String,
    /// The hint.
    pub hint: Option<String>,
}

impl BlackoutError {
    /// An error without a hint.
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            hint: None,
        }
    }

    /// The same with a hint.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for BlackoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for BlackoutError {}

/// Names the operation that failed: `.map_err(failed("disk-image", || …))`.
pub(crate) fn failed(
    code: &'static str,
    what: impl FnOnce() -> String,
) -> impl FnOnce(io::Error) -> BlackoutError {
    move |error| BlackoutError::new(code, format!("{}: {error}", what()))
}
