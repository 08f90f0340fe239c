//! Failures of transactions and connections.

use pgdyno_wire::ServerMessage;

/// Longest text that is kept of what a server says: its messages can hold a whole row.
const TEXT_BYTES_MAX: usize = 2000;
/// Characters shown before and after the place in a line that an error is at.
const EXCERPT_CHARACTERS: usize = 40;

/// A SQLSTATE or a code of the engine's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// Five characters from the server.
    Sqlstate([u8; 5]),
    /// The engine's own word.
    Own(&'static str),
    /// `http-` and the status code of a response.
    Status([u8; 8]),
}

impl Code {
    /// From the server's text, which is five characters long by the time it comes here.
    #[must_use]
    pub fn sqlstate(text: &str) -> Self {
        text.as_bytes()
            .try_into()
            .map_or(Self::Own("sqlstate-invalid"), Self::Sqlstate)
    }

    /// Of a response with this status code.
    #[must_use]
    pub fn status(status: u16) -> Self {
        let mut code = *b"http-000";
        for (at, unit) in [(5, 100), (6, 10), (7, 1)] {
            code[at] += u8::try_from(status / unit % 10).unwrap_or(0);
        }
        Self::Status(code)
    }

    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Sqlstate(code) => std::str::from_utf8(code).unwrap_or("?????"),
            Self::Status(code) => std::str::from_utf8(code).unwrap_or("http-???"),
            Self::Own(code) => code,
        }
    }
}

/// A failure: its code and message.
#[derive(Debug, Clone)]
pub struct Failure {
    /// SQLSTATE or own code.
    pub code: Code,
    /// In words.
    pub message: String,
    /// Index of the command in the script.
    pub command: Option<usize>,
    /// Further details.
    pub details: Details,
}

/// Details of a failure; a text is empty where there is none.
#[derive(Debug, Clone, Default)]
pub struct Details {
    /// The server's DETAIL.
    pub detail: String,
    /// The server's HINT.
    pub hint: String,
    /// The server's CONTEXT.
    pub context: String,
    /// The line of the statement that it points at, and a mark below.
    pub excerpt: String,
    /// Number of lines of the statement before that one.
    pub lines_before: usize,
    /// Advice, if the protocol is the reason.
    pub advice: &'static str,
}

impl Failure {
    /// With a code of the engine's own.
    pub fn own(code: &'static str, message: impl Into<String>) -> Box<Self> {
        Box::new(Self {
            code: Code::Own(code),
            message: message.into(),
            command: None,
            details: Details::default(),
        })
    }

    /// As the server says.
    pub fn of_server(message: &ServerMessage<'_>) -> Box<Self> {
        Box::new(Self {
            code: Code::sqlstate(message.sqlstate),
            message: truncated(message.message),
            command: None,
            details: Details {
                detail: truncated(message.detail),
                hint: truncated(message.hint),
                context: truncated(message.context),
                ..Details::default()
            },
        })
    }

    /// At a command of the script, by its place.
    #[must_use]
    pub fn at(mut self: Box<Self>, command: usize) -> Box<Self> {
        self.command = Some(command);
        self
    }

    /// At a character, from 1, of a text that was sent.
    pub fn point_at(&mut self, text: &str, position: u32) {
        let offset = text
            .char_indices()
            .nth(position.saturating_sub(1) as usize)
            .map_or(text.len(), |(offset, _)| offset);
        let (before, after) = text.split_at(offset);
        self.details.lines_before = before.matches('\n').count();
        let line_before = before.rsplit('\n').next().unwrap_or_default();
        let line_after = after.split('\n').next().unwrap_or_default();
        let skipped = line_before
            .chars()
            .count()
            .saturating_sub(EXCERPT_CHARACTERS);
        let mut line = if skipped > 0 {
            "…".to_owned()
        } else {
            String::new()
        };
        line.extend(line_before.chars().skip(skipped).map(blank));
        let mark = line.chars().count();
        line.extend(line_after.chars().take(EXCERPT_CHARACTERS).map(blank));
        if line_after.chars().count() > EXCERPT_CHARACTERS {
            line.push('…');
        }
        self.details.excerpt = format!("{}\n{:mark$}^", line.trim_end(), "");
    }
}

/// Replaces control characters by blanks.
fn blank(character: char) -> char {
    if character.is_control() {
        ' '
    } else {
        character
    }
}

/// As much of a text as is kept.
fn truncated(text: &str) -> String {
    if text.len() <= TEXT_BYTES_MAX {
        return text.to_owned();
    }
    let end = (0..=TEXT_BYTES_MAX)
        .rev()
        .find(|end| text.is_char_boundary(*end))
        .unwrap_or(0);
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pointed(text: &str, position: u32) -> (usize, String) {
        let mut failure = Failure::own("x", "");
        failure.point_at(text, position);
        (failure.details.lines_before, failure.details.excerpt)
    }

    #[test]
    fn the_line_and_the_place_in_it_are_shown() {
        assert_eq!(pointed("select x", 8), (0, "select x\n       ^".into()));
        assert_eq!(pointed("selec\n\té x\nfrom", 10), (1, " é x\n   ^".into()));
        assert_eq!(pointed("select", 99), (0, "select\n      ^".into()));
        assert_eq!(pointed("", 0), (0, "\n^".into()));
        let (_, excerpt) = pointed(&"abcdefghij".repeat(30), 101);
        let lines: Vec<&str> = excerpt.lines().collect();
        assert_eq!(lines[0].chars().count(), 2 * EXCERPT_CHARACTERS + 2);
        assert_eq!(lines[1].len(), EXCERPT_CHARACTERS + 2);
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let text = "é".repeat(TEXT_BYTES_MAX);
        assert!(truncated(&text).len() <= TEXT_BYTES_MAX + '…'.len_utf8());
        assert_eq!(truncated("short"), "short");
    }
}
