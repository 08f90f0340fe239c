//! Sockets to servers: opening one, and the system's error messages.

use std::io;

use crate::hosts::Address;
use crate::reactor::Stream;

/// The message for a server that ends a connection without an error.
pub const CLOSED: &str = "the connection was closed by the other side";

/// Begins a connection without waiting for it.
///
/// # Errors
/// It fails at once; as [`io::ErrorKind::WouldBlock`] where the server's queue is full, so that it
/// can be tried again shortly.
pub fn connect(address: &Address) -> io::Result<Stream> {
    match address {
        Address::Unix(path) => mio::net::UnixStream::connect(path).map(Stream::Unix),
        Address::Tcp(address) => {
            let stream = mio::net::TcpStream::connect(*address)?;
            stream.set_nodelay(true)?;
            Ok(Stream::Tcp(stream))
        }
    }
}

/// The system's words without its number for them.
#[must_use]
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}
