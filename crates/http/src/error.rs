//! Errors of responses.

use std::fmt;

/// An error of a response. The stream cannot be followed after that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpError {
    /// It does not begin as a response of HTTP/1.0 or 1.1 does.
    NotHttp,
    /// A line of the head is malformed.
    Head(&'static str),
    /// The head does not end in time.
    HeadTooLong,
    /// It has more headers than any response should.
    TooManyHeaders,
    /// Content-Length is no number, or several that differ.
    Length,
    /// A chunk's size is no hexadecimal number, or its end is not where it should be.
    Chunk,
    /// Headers after the last chunk do not end in time.
    TrailersTooLong,
    /// Data came that no request asked for.
    Unasked,
    /// The stream ended before the response began.
    NoResponse,
    /// The stream ended within the response.
    Truncated,
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotHttp => "the server's answer is not HTTP/1.1",
            Self::Head(why) => return write!(f, "a malformed head of a response: {why}"),
            Self::HeadTooLong => "the head of a response is too long",
            Self::TooManyHeaders => "a response has too many headers",
            Self::Length => "a response has no valid Content-Length",
            Self::Chunk => "a malformed chunk of a response",
            Self::TrailersTooLong => "the headers after the last chunk are too long",
            Self::Unasked => "the server sent data that no request asked for",
            Self::NoResponse => "the server closed the connection without a response",
            Self::Truncated => "the server closed the connection within a response",
        })
    }
}

impl std::error::Error for HttpError {}
