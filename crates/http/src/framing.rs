//! The length of a response's body, and whether the connection can be used again (RFC 9112, 6.3,
//! 9.3).

use httparse::Header;

use crate::HttpError;

/// The end of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// After so many bytes.
    Length(u64),
    /// After the last chunk.
    Chunked,
    /// At the end of the stream.
    UntilClose,
}

/// The head's account of what follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Framing {
    /// The end of the body.
    pub body: Body,
    /// True if the connection can be used for another request.
    pub keep_alive: bool,
}

impl Framing {
    /// From a response's head; `to_head`: it answers a HEAD, and so has no body. `minor`: of the
    /// version.
    ///
    /// # Errors
    /// Content-Length is not one number.
    pub fn of(
        status: u16,
        minor: u8,
        headers: &[Header<'_>],
        to_head: bool,
    ) -> Result<Self, HttpError> {
        let (mut length, mut coded, mut chunked) = (None, false, false);
        let (mut close, mut keep) = (false, false);
        for header in headers {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            if is("content-length") {
                for value in header.value.split(|byte| *byte == b',') {
                    let value = number(value.trim_ascii()).ok_or(HttpError::Length)?;
                    if length.replace(value).is_some_and(|other| other != value) {
                        return Err(HttpError::Length);
                    }
                }
            } else if is("transfer-encoding") {
                coded = true;
                let last = header.value.rsplit(|byte| *byte == b',').next();
                chunked = last.is_some_and(|c| c.trim_ascii().eq_ignore_ascii_case(b"chunked"));
            } else if is("connection") {
                for token in header.value.split(|byte| *byte == b',') {
                    close |= token.trim_ascii().eq_ignore_ascii_case(b"close");
                    keep |= token.trim_ascii().eq_ignore_ascii_case(b"keep-alive");
                }
            }
        }
        let body = if to_head || status < 200 || matches!(status, 204 | 304) {
            Body::Length(0)
        } else if chunked {
            Body::Chunked
        } else if coded {
            Body::UntilClose
        } else {
            length.map_or(Body::UntilClose, Body::Length)
        };
        // A server that sends both may be confused about where the response ends.
        let doubtful = coded && (length.is_some() || minor == 0);
        let wanted = if minor == 0 { keep && !close } else { !close };
        Ok(Self {
            body,
            keep_alive: wanted && !doubtful && body != Body::UntilClose && status != 101,
        })
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}
