//! Chunks of a body (RFC 9112, 7.1), byte by byte where that is needed, so that it does not matter
//! how they were split on their way.

use crate::HttpError;

/// Longest extension of a chunk's size, and all headers after the last chunk.
const EXTRA_BYTES_MAX: u32 = 64 << 10;

/// Position of the stream in the chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// In the digits of a size, of which there were so many.
    Size(u8),
    /// In what follows the digits, which means nothing here.
    Extension,
    /// After the CR that ends the line of a size.
    SizeEnd,
    /// In data.
    Data,
    /// After data.
    DataEnd,
    /// After the CR that follows data.
    DataLineFeed,
    /// At the start of a line after the last chunk.
    Trailer,
    /// In such a line.
    TrailerLine,
    /// After the CR of the empty line at the end.
    End,
}

/// Progress through the chunks of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunks {
    at: At,
    /// Bytes left of the current chunk, or its size so far.
    left: u64,
    /// Bytes of extensions and trailers.
    extra: u32,
}

/// The next that is in a stretch of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// From here on, after so many bytes that mean nothing, so many bytes of data.
    Data(usize, usize),
    /// The end of the body, after so many bytes.
    End(usize),
    /// Nothing; all of it is used up.
    Nothing,
}

impl Chunks {
    /// At the start.
    pub fn new() -> Self {
        Self {
            at: At::Size(0),
            left: 0,
            extra: 0,
        }
    }

    /// Goes on through `bytes`.
    ///
    /// # Errors
    /// They are no chunks.
    pub fn find(&mut self, bytes: &[u8]) -> Result<Found, HttpError> {
        let mut used = 0;
        while let Some(byte) = bytes.get(used) {
            if self.at == At::Data {
                let rest = bytes.len() - used;
                let count = usize::try_from(self.left).map_or(rest, |left| left.min(rest));
                self.left -= count as u64;
                if self.left == 0 {
                    self.at = At::DataEnd;
                }
                return Ok(Found::Data(used, count));
            }
            used += 1;
            if self.step(*byte)? {
                return Ok(Found::End(used));
            }
        }
        Ok(Found::Nothing)
    }

    /// Takes a byte outside of data; true at the end.
    fn step(&mut self, byte: u8) -> Result<bool, HttpError> {
        self.at = match (self.at, byte) {
            (At::Size(1..), b'\r') | (At::Extension, b'\r') => At::SizeEnd,
            (At::Size(1..) | At::Extension | At::SizeEnd, b'\n') => self.begin(),
            (At::Size(1..), b';' | b' ' | b'\t') => At::Extension,
            (At::Size(digits), _) => self.digit(digits, byte)?,
            (At::Extension, _) => self.pass(At::Extension)?,
            (At::DataEnd, b'\r') => At::DataLineFeed,
            (At::DataEnd | At::DataLineFeed, b'\n') => {
                self.left = 0;
                At::Size(0)
            }
            (At::Trailer, b'\r') => At::End,
            (At::Trailer | At::End, b'\n') => return Ok(true),
            (At::TrailerLine, b'\n') => At::Trailer,
            (At::Trailer | At::TrailerLine, _) => self.pass(At::TrailerLine)?,
            _ => return Err(HttpError::Chunk),
        };
        Ok(false)
    }

    /// The line of a size is over.
    fn begin(&self) -> At {
        if self.left == 0 {
            At::Trailer
        } else {
            At::Data
        }
    }

    fn digit(&mut self, digits: u8, byte: u8) -> Result<At, HttpError> {
        let digit = (byte as char).to_digit(16).ok_or(HttpError::Chunk)?;
        if digits >= 15 {
            return Err(HttpError::Chunk);
        }
        self.left = self.left << 4 | u64::from(digit);
        Ok(At::Size(digits + 1))
    }

    fn pass(&mut self, at: At) -> Result<At, HttpError> {
        self.extra += 1;
        if self.extra > EXTRA_BYTES_MAX {
            return Err(HttpError::TrailersTooLong);
        }
        Ok(at)
    }
}
