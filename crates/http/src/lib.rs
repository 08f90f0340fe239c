//! HTTP/1.1's client side (RFC 9110, 9112) without I/O: bytes in, events out.
//! It uses no sockets and no clocks. The driver of a connection says [`Reader::expect`] for each
//! request that it sends, hands what its socket received to [`Reader::read`], acts on the [`Event`]s
//! that come back, and says [`Reader::end`] when the stream is over.
//!
//! ```text
//! socket -> Reader::read -> Event (Head, Body, End)
//! socket <- the driver's request, with what Jar::write and encode give
//! ```
//!
//! Heads are read by `httparse`; how long a body is, is decided here. Bodies and heads are lent out
//! of the caller's read buffer: nothing is allocated for a response that does not come in pieces.
//! Whatever a server sends, a reader holds a bounded amount of memory, and answers with an event or
//! an [`HttpError`]; it does not panic.

mod chunks;
mod encoding;
mod error;
mod framing;
mod head;
mod jar;
mod origin;
mod reader;

pub use encoding::{encode_link, encode_value};
pub use error::HttpError;
pub use head::Head;
pub use jar::Jar;
pub use origin::Origin;
pub use reader::{Event, HEAD_BYTES_MAX, HEADERS_MAX, Reader, Reading};
