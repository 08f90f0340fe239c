//! A socket to the server, over TCP or in the file system.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, RawFd};

use mio::event::Source;

/// A connected or connecting socket. It never blocks.
#[derive(Debug)]
pub enum Stream {
    /// Unix socket.
    Unix(mio::net::UnixStream),
    /// TCP.
    Tcp(mio::net::TcpStream),
}

impl Stream {
    /// The result of connecting, once the socket is writable.
    ///
    /// # Errors
    /// The reason why the connection was refused.
    pub fn take_error(&self) -> io::Result<()> {
        let error = match self {
            Self::Unix(stream) => stream.take_error()?,
            Self::Tcp(stream) => stream.take_error()?,
        };
        error.map_or(Ok(()), Err)
    }

    /// Ends it in both directions. A socket that is gone already is no error.
    pub fn shut_down(&self) {
        let _ = match self {
            Self::Unix(stream) => stream.shutdown(Shutdown::Both),
            Self::Tcp(stream) => stream.shutdown(Shutdown::Both),
        };
    }

    /// For registering it with mio.
    pub fn source(&mut self) -> &mut dyn Source {
        match self {
            Self::Unix(stream) => stream,
            Self::Tcp(stream) => stream,
        }
    }

    /// Writes until all is written or the socket takes no more; how much it took.
    ///
    /// # Errors
    /// The socket is broken.
    pub fn write_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut sent = 0;
        while sent < bytes.len() {
            match self.write(&bytes[sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(sent)
    }

    /// Reads what is there; `Ok(None)` if nothing is.
    ///
    /// # Errors
    /// The socket is broken.
    pub fn read_some(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match self.read(buffer) {
                Ok(count) => return Ok(Some(count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Self::Unix(stream) => stream.as_raw_fd(),
            Self::Tcp(stream) => stream.as_raw_fd(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(buffer),
            Self::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(buffer),
            Self::Tcp(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
