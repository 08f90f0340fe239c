//! Cuts a stream of bytes into messages, however the stream was split on its way.
//!
//! Whole messages are lent out of the caller's read buffer without a copy. Only what is left of an
//! unfinished message is kept, so an idle connection holds no buffer. The body of a row that is not
//! requested is skipped and never kept, however long.

use crate::ProtocolError;

/// Longest message that is kept in memory, in bytes. PostgreSQL itself goes up to 1 GiB; only a row
/// that a script stores in variables, or an error message, would ever be kept.
pub const MESSAGE_BYTES_MAX: u32 = 64 << 20;
/// Longest message of a type that is always short; libpq draws the same line.
const SHORT_MESSAGE_BYTES_MAX: u32 = 30_000;
/// Longest message that a server can send.
const SKIPPED_BYTES_MAX: u32 = 0x3fff_ffff;
/// Type byte and length word.
const HEADER_BYTES: usize = 5;
/// A read buffer above this is given back when the message in it is done.
const KEPT_CAPACITY_BYTES: usize = 16 << 10;

/// A message from the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// Its type.
    pub tag: u8,
    /// Content after the length word; empty for a skipped row.
    pub body: &'a [u8],
}

/// Keeps what is between two reads of one connection.
#[derive(Debug, Default)]
pub struct Scanner {
    partial: Vec<u8>,
    skip_bytes: u32,
    keep_rows: bool,
}

impl Scanner {
    /// A scanner at the start of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// True if the bodies of rows (DataRow, CopyData) from here on are wanted. They are not at first.
    pub fn keep_rows(&mut self, keep: bool) {
        self.keep_rows = keep;
    }

    /// Bytes held back for a message that is not complete yet.
    #[must_use]
    pub fn partial_bytes(&self) -> usize {
        self.partial.len()
    }

    /// Begins to take messages out of what was just read. What the returned [`Scan`] does not hand
    /// out is kept for the next call.
    pub fn scan<'a>(&'a mut self, fresh: &'a [u8]) -> Scan<'a> {
        let joined = !self.partial.is_empty();
        if joined {
            self.partial.extend_from_slice(fresh);
        }
        Scan {
            scanner: self,
            fresh,
            joined,
            at: 0,
        }
    }
}

/// The messages of one read; see [`Scanner::scan`].
#[derive(Debug)]
pub struct Scan<'a> {
    scanner: &'a mut Scanner,
    fresh: &'a [u8],
    joined: bool,
    at: usize,
}

impl Scan<'_> {
    /// The next whole message, or `None` when more bytes are needed.
    ///
    /// # Errors
    /// A length that no message of its type has. The stream cannot be followed after that.
    pub fn message(&mut self) -> Result<Option<Message<'_>>, ProtocolError> {
        self.pass_skipped();
        let rest = &self.buffer()[self.at..];
        let Some(&[tag, a, b, c, d]) = rest.first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes([a, b, c, d]);
        let skipped = !self.scanner.keep_rows && matches!(tag, b'D' | b'd');
        check_length(tag, length, skipped)?;
        if skipped {
            self.at += HEADER_BYTES;
            self.scanner.skip_bytes = length - 4;
            self.pass_skipped();
            return Ok(Some(Message { tag, body: &[] }));
        }
        let end = length as usize + 1;
        if rest.len() < end {
            return Ok(None);
        }
        let start = self.at + HEADER_BYTES;
        self.at += end;
        let stop = self.at;
        Ok(Some(Message {
            tag,
            body: &self.buffer()[start..stop],
        }))
    }

    fn buffer(&self) -> &[u8] {
        if self.joined {
            &self.scanner.partial
        } else {
            self.fresh
        }
    }

    fn pass_skipped(&mut self) {
        let left = self.buffer().len() - self.at;
        let skip = left.min(self.scanner.skip_bytes as usize);
        self.at += skip;
        // `skip` is at most `skip_bytes`, which is a u32.
        self.scanner.skip_bytes -= u32::try_from(skip).unwrap_or(u32::MAX);
    }
}

impl Drop for Scan<'_> {
    fn drop(&mut self) {
        let partial = &mut self.scanner.partial;
        if !self.joined {
            partial.extend_from_slice(&self.fresh[self.at..]);
        } else if self.at > 0 {
            partial.drain(..self.at);
        }
        if partial.is_empty() && partial.capacity() > KEPT_CAPACITY_BYTES {
            *partial = Vec::new();
        }
    }
}

/// Rejects lengths that a message of this type cannot have, before a byte of it is waited for.
fn check_length(tag: u8, length: u32, skipped: bool) -> Result<(), ProtocolError> {
    let (least, most) = match tag {
        b'1' | b'2' | b'3' | b'I' | b'c' | b'n' | b's' => (4, 4),
        b'Z' => (5, 5),
        b'R' => (8, SHORT_MESSAGE_BYTES_MAX),
        b'K' => (12, 4 + 4 + 256),
        b'D' | b'd' if skipped => (4, SKIPPED_BYTES_MAX),
        b'D' => (6, MESSAGE_BYTES_MAX),
        b'd' => (4, MESSAGE_BYTES_MAX),
        b'T' | b'V' => (6, MESSAGE_BYTES_MAX),
        b'E' | b'N' | b'A' => (5, MESSAGE_BYTES_MAX),
        b'C' | b'S' | b't' | b'v' | b'G' | b'H' | b'W' => (5, SHORT_MESSAGE_BYTES_MAX),
        _ => return Err(ProtocolError::UnknownMessage(tag)),
    };
    if (least..=most).contains(&length) {
        Ok(())
    } else {
        Err(ProtocolError::Length { tag, length })
    }
}
