//! Cuts a stream of bytes into heads and bodies of responses, however the stream was split on its
//! way.
//!
//! Only an unfinished head is kept between two reads; an idle connection holds no buffer.

use std::mem::MaybeUninit;

use httparse::{ParserConfig, Response, Status};

use crate::chunks::{Chunks, Found};
use crate::framing::{Body, Framing};
use crate::{Head, HttpError};

/// Longest head of a response.
pub const HEAD_BYTES_MAX: usize = 64 << 10;
/// Most headers of a response.
pub const HEADERS_MAX: usize = 128;
/// A buffer above this is given back when the head in it is done.
const KEPT_CAPACITY_BYTES: usize = 16 << 10;
/// The beginning of every response.
const BEGINNING: &[u8] = b"HTTP/1.";

/// A part of a response.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The head of the response; that of an interim one (100 to 199) is not told.
    Head(Head<'a>),
    /// Some of its body.
    Body(&'a [u8]),
    /// It is complete.
    End {
        /// True if the connection can be used again.
        keep_alive: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// No request is under way.
    Idle,
    /// A head is awaited.
    Head,
    /// So much of the body is.
    Length(u64),
    /// Chunks of it are.
    Chunks(Chunks),
    /// All that comes is the body.
    UntilClose,
    /// All of it came.
    Done,
}

/// Follows the responses of one connection.
#[derive(Debug)]
pub struct Reader {
    partial: Vec<u8>,
    /// Length of `partial` that was searched for the end of the head.
    searched: usize,
    state: State,
    to_head: bool,
    keep_alive: bool,
    begun: bool,
}

impl Default for Reader {
    fn default() -> Self {
        Self::new()
    }
}

impl Reader {
    /// At the start of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self {
            partial: Vec::new(),
            searched: 0,
            state: State::Idle,
            to_head: false,
            keep_alive: true,
            begun: false,
        }
    }

    /// A request is sent, whose response is awaited; `to_head`: it is a HEAD. The response before it
    /// is complete.
    pub fn expect(&mut self, to_head: bool) {
        self.state = State::Head;
        self.to_head = to_head;
        self.begun = false;
    }

    /// True if a response is awaited, or some of it.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.state != State::Idle
    }

    /// True if some of the response has come.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// True if a response is awaited and none of its bytes has come; interim responses may have.
    #[must_use]
    pub fn awaits_head(&self) -> bool {
        self.state == State::Head && self.partial.is_empty()
    }

    /// Bytes held back for a head that is not complete yet.
    #[must_use]
    pub fn partial_bytes(&self) -> usize {
        self.partial.len()
    }

    /// Begins to take responses out of what was just read.
    pub fn read<'a>(&'a mut self, fresh: &'a [u8]) -> Reading<'a> {
        self.begun |= !fresh.is_empty() && self.is_waiting();
        let joined = !self.partial.is_empty();
        if joined {
            self.partial.extend_from_slice(fresh);
        }
        Reading {
            reader: self,
            fresh,
            joined,
            at: 0,
        }
    }

    /// The stream is over; true if that completes a response.
    ///
    /// # Errors
    /// It is over too early.
    pub fn end(&mut self) -> Result<bool, HttpError> {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Idle => Ok(false),
            State::UntilClose | State::Done => Ok(true),
            State::Head if !self.begun => Err(HttpError::NoResponse),
            _ => Err(HttpError::Truncated),
        }
    }
}

/// The parts of responses in one read; see [`Reader::read`].
#[derive(Debug)]
pub struct Reading<'a> {
    reader: &'a mut Reader,
    fresh: &'a [u8],
    joined: bool,
    at: usize,
}

impl Reading<'_> {
    /// The next part, or `None` when more bytes are needed.
    ///
    /// # Errors
    /// What came is no response to the request. The stream cannot be followed after that.
    pub fn event(&mut self) -> Result<Option<Event<'_>>, HttpError> {
        loop {
            let rest = self.buffer().len() - self.at;
            match self.reader.state {
                State::Done => {
                    self.reader.state = State::Idle;
                    return Ok(Some(Event::End {
                        keep_alive: self.reader.keep_alive,
                    }));
                }
                _ if rest == 0 => return Ok(None),
                State::Idle => return Err(HttpError::Unasked),
                State::Head => match self.head()? {
                    None => return Ok(None),
                    // Of an interim response; the one that counts follows.
                    Some((status, _)) if (100..200).contains(&status) && status != 101 => {}
                    Some((status, start)) => {
                        let head = &self.buffer()[start..self.at];
                        return Ok(Some(Event::Head(Head::new(status, head))));
                    }
                },
                State::Length(left) => {
                    let count = usize::try_from(left).map_or(rest, |left| left.min(rest));
                    self.reader.state = in_body(left - count as u64);
                    return Ok(Some(self.body(0, count)));
                }
                State::Chunks(mut chunks) => {
                    let found = chunks.find(&self.buffer()[self.at..])?;
                    self.reader.state = State::Chunks(chunks);
                    match found {
                        Found::Data(skip, count) => return Ok(Some(self.body(skip, count))),
                        Found::End(used) => {
                            self.at += used;
                            self.reader.state = State::Done;
                        }
                        Found::Nothing => self.at = self.buffer().len(),
                    }
                }
                State::UntilClose => return Ok(Some(self.body(0, rest))),
            }
        }
    }

    /// The head that is awaited, if all of it is here: its status and where it starts.
    fn head(&mut self) -> Result<Option<(u16, usize)>, HttpError> {
        let start = self.at;
        let rest = &self.buffer()[start..];
        let known = rest.len().min(BEGINNING.len());
        if rest[..known] != BEGINNING[..known] {
            return Err(HttpError::NotHttp);
        }
        let Some(end) = end_of_head(rest, self.reader.searched) else {
            if rest.len() > HEAD_BYTES_MAX {
                return Err(HttpError::HeadTooLong);
            }
            self.reader.searched = rest.len();
            return Ok(None);
        };
        let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        let mut response = Response::new(&mut []);
        let parsed = ParserConfig::default().parse_response_with_uninit_headers(
            &mut response,
            &rest[..end],
            &mut headers,
        );
        let length = match parsed {
            Ok(Status::Complete(length)) if length <= HEAD_BYTES_MAX => length,
            Ok(Status::Complete(_)) => return Err(HttpError::HeadTooLong),
            Ok(Status::Partial) => return Err(HttpError::Head("it ends too early")),
            Err(httparse::Error::TooManyHeaders) => return Err(HttpError::TooManyHeaders),
            Err(error) => return Err(HttpError::Head(reason(error))),
        };
        let (status, minor) = (response.code.unwrap_or(0), response.version.unwrap_or(0));
        let framing = Framing::of(status, minor, response.headers, self.reader.to_head)?;
        self.at = start + length;
        self.reader.searched = 0;
        if status >= 200 || status == 101 {
            self.reader.keep_alive = framing.keep_alive;
            self.reader.state = match framing.body {
                Body::Length(length) => in_body(length),
                Body::Chunked => State::Chunks(Chunks::new()),
                Body::UntilClose => State::UntilClose,
            };
        }
        Ok(Some((status, start)))
    }

    /// So many bytes of the body, after some that are skipped.
    fn body(&mut self, skip: usize, count: usize) -> Event<'_> {
        let start = self.at + skip;
        self.at = start + count;
        Event::Body(&self.buffer()[start..start + count])
    }

    fn buffer(&self) -> &[u8] {
        if self.joined {
            &self.reader.partial
        } else {
            self.fresh
        }
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        let partial = &mut self.reader.partial;
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

fn in_body(left: u64) -> State {
    if left == 0 {
        State::Done
    } else {
        State::Length(left)
    }
}

/// The end of the empty line that ends a head, if it is there; up to `searched` there is none.
fn end_of_head(bytes: &[u8], searched: usize) -> Option<usize> {
    // The empty line may have begun before.
    let from = searched.saturating_sub(3);
    memchr::memchr_iter(b'\n', &bytes[from..])
        .map(|at| from + at + 1)
        .find_map(|next| match bytes[next..] {
            [b'\n', ..] => Some(next + 1),
            [b'\r', b'\n', ..] => Some(next + 2),
            _ => None,
        })
}

fn reason(error: httparse::Error) -> &'static str {
    use httparse::Error as E;
    match error {
        E::HeaderName => "the name of a header",
        E::HeaderValue => "the value of a header",
        E::NewLine => "the end of a line",
        E::Status => "the status",
        E::Version => "the version",
        _ => "a character that must not be there",
    }
}
