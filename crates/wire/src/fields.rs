//! The contents of messages that a driver reads: errors, column names, rows.

use crate::ProtocolError;

/// An error or a notice of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerMessage<'a> {
    /// ERROR, FATAL, PANIC, or a notice's severity, not translated where the server says it twice.
    pub severity: &'a str,
    /// Five characters.
    pub sqlstate: &'a str,
    /// The primary message.
    pub message: &'a str,
    /// More about it; empty if there is nothing, as the next two.
    pub detail: &'a str,
    /// The server's hint.
    pub hint: &'a str,
    /// Context: functions, triggers, lines of COPY.
    pub context: &'a str,
    /// The character of the query, from 1, at which it happened.
    pub position: Option<u32>,
}

impl<'a> ServerMessage<'a> {
    /// Reads the body of an ErrorResponse or NoticeResponse. Text that is not UTF-8 (a server may
    /// report authentication errors in its own encoding) is cut at the first invalid byte.
    pub(crate) fn read(tag: u8, body: &'a [u8]) -> Result<Self, ProtocolError> {
        let mut found = Self {
            severity: "",
            sqlstate: "",
            message: "",
            detail: "",
            hint: "",
            context: "",
            position: None,
        };
        let mut rest = body;
        loop {
            let (&field, after) = rest.split_first().ok_or(ProtocolError::Malformed { tag })?;
            if field == 0 {
                break;
            }
            let (text, after) = split_text(tag, after)?;
            match field {
                b'V' => found.severity = text,
                b'S' if found.severity.is_empty() => found.severity = text,
                b'C' => found.sqlstate = text,
                b'M' => found.message = text,
                b'D' => found.detail = text,
                b'H' => found.hint = text,
                b'W' => found.context = text,
                b'P' => found.position = text.parse().ok(),
                _ => {}
            }
            rest = after;
        }
        if found.sqlstate.len() == 5 {
            Ok(found)
        } else {
            Err(ProtocolError::Malformed { tag })
        }
    }

    /// True if the server closes the connection after this.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        matches!(self.severity, "FATAL" | "PANIC")
    }
}

/// The names of a result's columns.
#[derive(Debug, Clone, Copy)]
pub struct Columns<'a> {
    count: usize,
    rest: &'a [u8],
}

impl<'a> Columns<'a> {
    pub(crate) fn read(body: &'a [u8]) -> Result<Self, ProtocolError> {
        let (count, rest) = split_count(b'T', body)?;
        Ok(Self { count, rest })
    }

    /// Their number.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The next column's name, or `None` after the last.
    ///
    /// # Errors
    /// The message ends too early.
    pub fn name(&mut self) -> Result<Option<&'a str>, ProtocolError> {
        if self.count == 0 {
            return Ok(None);
        }
        let (name, after) = split_text(b'T', self.rest)?;
        // Table, column number, type, type length, type modifier, format.
        self.rest = after
            .get(18..)
            .ok_or(ProtocolError::Malformed { tag: b'T' })?;
        self.count -= 1;
        Ok(Some(name))
    }
}

/// The types of a prepared statement's parameters.
#[derive(Debug, Clone, Copy)]
pub struct ParameterTypes<'a> {
    oids: &'a [u8],
}

impl<'a> ParameterTypes<'a> {
    pub(crate) fn read(body: &'a [u8]) -> Result<Self, ProtocolError> {
        let (count, oids) = split_count(b't', body)?;
        if oids.len() == count * 4 {
            Ok(Self { oids })
        } else {
            Err(ProtocolError::Malformed { tag: b't' })
        }
    }

    /// Their OIDs, in order.
    pub fn oids(&self) -> impl ExactSizeIterator<Item = u32> + 'a {
        self.oids
            .chunks_exact(4)
            .map(|oid| u32::from_be_bytes([oid[0], oid[1], oid[2], oid[3]]))
    }
}

/// The values of a row, in text format.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    count: usize,
    rest: &'a [u8],
}

impl<'a> Row<'a> {
    pub(crate) fn read(body: &'a [u8]) -> Result<Self, ProtocolError> {
        let (count, rest) = split_count(b'D', body)?;
        Ok(Self { count, rest })
    }

    /// The next value (`None` inside for NULL), or `None` after the last.
    ///
    /// # Errors
    /// The message ends too early.
    pub fn value(&mut self) -> Result<Option<Option<&'a [u8]>>, ProtocolError> {
        const MALFORMED: ProtocolError = ProtocolError::Malformed { tag: b'D' };
        if self.count == 0 {
            return Ok(None);
        }
        let (length, after) = self.rest.split_first_chunk::<4>().ok_or(MALFORMED)?;
        self.count -= 1;
        let length = i32::from_be_bytes(*length);
        if length == -1 {
            self.rest = after;
            return Ok(Some(None));
        }
        let length = usize::try_from(length).map_err(|_| MALFORMED)?;
        let (value, after) = after.split_at_checked(length).ok_or(MALFORMED)?;
        self.rest = after;
        Ok(Some(Some(value)))
    }
}

fn split_count(tag: u8, body: &[u8]) -> Result<(usize, &[u8]), ProtocolError> {
    let (count, rest) = body
        .split_first_chunk::<2>()
        .ok_or(ProtocolError::Malformed { tag })?;
    Ok((usize::from(u16::from_be_bytes(*count)), rest))
}

/// A text that ends with a zero byte, and what follows it.
pub(crate) fn split_text(tag: u8, bytes: &[u8]) -> Result<(&str, &[u8]), ProtocolError> {
    let end = memchr::memchr(0, bytes).ok_or(ProtocolError::Malformed { tag })?;
    Ok((valid_prefix(&bytes[..end]), &bytes[end + 1..]))
}

fn valid_prefix(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
    }
}
