//! Errors in a script, when it is read ([`ScriptError`]) and when it runs ([`EvalError`]).

use std::fmt;

/// An error in a script, with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptError {
    /// The file, as the caller named it.
    pub file: String,
    /// Line in the file, 1-based.
    pub line: u32,
    /// Character in the line, 1-based.
    pub column: u32,
    /// The problem, without a final period.
    pub message: String,
    /// The hint.
    pub hint: Option<String>,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}:{}: {}",
            self.file, self.line, self.column, self.message
        )
    }
}

impl std::error::Error for ScriptError {}

/// A mistake at a byte offset; becomes a [`ScriptError`] where the file and its text are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub offset: usize,
    pub message: String,
    pub hint: Option<String>,
}

impl Fault {
    pub fn new(offset: usize, message: impl Into<String>) -> Self {
        Self {
            offset,
            message: message.into(),
            hint: None,
        }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// With the line and column of the offset in `text`.
    pub fn locate(self, text: &str, file: &str) -> ScriptError {
        let (line, column) = place(text, self.offset);
        ScriptError {
            file: file.to_owned(),
            line,
            column,
            message: self.message,
            hint: self.hint,
        }
    }
}

/// Line and column, 1-based, of a byte offset. Columns count characters.
pub(super) fn place(text: &str, offset: usize) -> (u32, u32) {
    let before = &text.as_bytes()[..offset.min(text.len())];
    let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
    let start = before
        .iter()
        .rposition(|&byte| byte == b'\n')
        .map_or(0, |at| at + 1);
    let column = before[start..]
        .iter()
        .filter(|&&byte| byte & 0xC0 != 0x80)
        .count()
        + 1;
    (
        u32::try_from(line).unwrap_or(u32::MAX),
        u32::try_from(column).unwrap_or(u32::MAX),
    )
}

/// An expression that has no value: a division by zero, an undefined variable, … As in pgbench it
/// ends the transaction, and the client's script cannot go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvalError(Box<str>);

impl EvalError {
    #[cold]
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self(message.into().into_boxed_str())
    }
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for EvalError {}

/// `did you mean "…"?` if one of `known` is close to `word`.
pub(super) fn closest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let word = word.to_ascii_lowercase();
    known
        .into_iter()
        .map(|candidate| (distance(&word, candidate), candidate))
        .filter(|&(distance, candidate)| distance <= 1 + candidate.len() / 4)
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| format!("did you mean \"{candidate}\"?"))
}

/// Edit distance in which swapping two neighbours is one step (optimal string alignment). A word
/// longer than anything known is far from everything.
fn distance(a: &str, b: &str) -> usize {
    const LENGTH_MAX: usize = 32;
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() > LENGTH_MAX || b.len() > LENGTH_MAX {
        return usize::MAX;
    }
    let mut rows = [[0_usize; LENGTH_MAX + 1]; LENGTH_MAX + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let change = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
                let swapped = if swap {
                    rows[i - 2][j - 2] + 1
                } else {
                    usize::MAX
                };
                change
                    .min(rows[i - 1][j] + 1)
                    .min(rows[i][j - 1] + 1)
                    .min(swapped)
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_characters_and_lines() {
        let text = "äb\ncdé f";
        assert_eq!(place(text, 0), (1, 1));
        assert_eq!(place(text, 2), (1, 2));
        assert_eq!(place(text, text.find('f').expect("there")), (2, 5));
        assert_eq!(place(text, 999), (2, 6));
    }

    #[test]
    fn close_words_are_suggested() {
        let known = ["random", "random_gaussian", "abs"];
        let hint = |word| closest(word, known);
        assert_eq!(hint("randmo").as_deref(), Some("did you mean \"random\"?"));
        assert_eq!(
            hint("RANDOM_GAUSIAN").as_deref(),
            Some("did you mean \"random_gaussian\"?")
        );
        assert_eq!(hint("nothing_like_it"), None);
        assert_eq!(hint(&"x".repeat(1000)), None);
    }
}
