//! The least of a PostgreSQL server: lets everyone in, and every statement succeeds without a row.
//! One thread, any number of connections. It serves until it is killed.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpListener;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixListener;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use crate::client::{nonblocking, read_be32};
use crate::options::Address;
use crate::script::{message, string};

const LISTENER: Token = Token(usize::MAX);
const SSL_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;
const READ_BYTES: usize = 65_536;

enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    fn bind(address: &Address) -> io::Result<Self> {
        let listener = match address {
            Address::Unix(path) => Self::Unix(UnixListener::bind(path)?),
            Address::Tcp(address) => Self::Tcp(TcpListener::bind(address)?),
        };
        match &listener {
            Self::Unix(it) => it.set_nonblocking(true)?,
            Self::Tcp(it) => it.set_nonblocking(true)?,
        }
        Ok(listener)
    }

    fn fd(&self) -> i32 {
        match self {
            Self::Unix(it) => it.as_raw_fd(),
            Self::Tcp(it) => it.as_raw_fd(),
        }
    }

    fn accept(&self) -> io::Result<OwnedFd> {
        Ok(match self {
            Self::Unix(it) => it.accept()?.0.into(),
            Self::Tcp(it) => {
                let stream = it.accept()?.0;
                stream.set_nodelay(true)?;
                stream.into()
            }
        })
    }
}

/// Someone who is served.
struct Guest {
    socket: std::fs::File,
    is_let_in: bool,
    /// Bytes of a message that is not yet whole.
    rest: Vec<u8>,
}

/// Serves at the address, from when it has said so on stdout.
pub fn serve(address: &Address) -> io::Result<()> {
    let listener = Listener::bind(address)?;
    let mut poll = Poll::new()?;
    poll.registry()
        .register(&mut SourceFd(&listener.fd()), LISTENER, Interest::READABLE)?;
    writeln!(io::stdout(), "{{\"ready\": true}}")?;
    let mut guests = HashMap::new();
    let mut buffer = vec![0; READ_BYTES];
    let mut events = Events::with_capacity(1024);
    loop {
        match poll.poll(&mut events, None) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            polled => polled?,
        }
        for event in &events {
            if event.token() == LISTENER {
                accept_all(&listener, &poll, &mut guests)?;
                continue;
            }
            let stays = match guests.get_mut(&event.token().0) {
                Some(guest) => guest.hear(&mut buffer).unwrap_or(false),
                None => true,
            };
            if !stays {
                guests.remove(&event.token().0);
            }
        }
    }
}

fn accept_all(
    listener: &Listener,
    poll: &Poll,
    guests: &mut HashMap<usize, Guest>,
) -> io::Result<()> {
    loop {
        let socket = match listener.accept() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
            accepted => nonblocking(accepted?)?,
        };
        let fd = socket.as_raw_fd();
        let token = usize::try_from(fd).map_err(io::Error::other)?;
        poll.registry()
            .register(&mut SourceFd(&fd), Token(token), Interest::READABLE)?;
        let guest = Guest {
            socket,
            is_let_in: false,
            rest: Vec::new(),
        };
        guests.insert(token, guest);
    }
}

impl Guest {
    /// Reads and answers what is there; false when the guest has left.
    fn hear(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        loop {
            let count = match self.socket.read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Ok(0) => return Ok(false),
                read => read?,
            };
            self.rest.extend_from_slice(&buffer[..count]);
            let mut answers = Vec::new();
            let heard = self.answer(&mut answers);
            self.rest.drain(..heard);
            if self.rest.is_empty() {
                self.rest = Vec::new();
            }
            self.socket.write_all(&answers)?;
            if count < buffer.len() {
                return Ok(true);
            }
        }
    }

    /// Answers the messages that are whole; how many bytes they were.
    fn answer(&mut self, out: &mut Vec<u8>) -> usize {
        let mut at = 0;
        loop {
            let rest = &self.rest[at..];
            let type_bytes = usize::from(self.is_let_in);
            let Some(length) = read_be32(rest.get(type_bytes..).unwrap_or_default()) else {
                return at;
            };
            let whole = type_bytes + (length as usize).max(4);
            if rest.len() < whole {
                return at;
            }
            if self.is_let_in {
                reply(rest[0], out);
            } else {
                match read_be32(&rest[4..]) {
                    Some(SSL_REQUEST | GSS_REQUEST) => out.push(b'N'),
                    _ => {
                        self.is_let_in = true;
                        welcome(out);
                    }
                }
            }
            at += whole;
        }
    }
}

fn welcome(out: &mut Vec<u8>) {
    message(out, b'R', |body| body.extend_from_slice(&[0; 4]));
    for (name, value) in [
        ("server_version", "18.0"),
        ("client_encoding", "UTF8"),
        ("standard_conforming_strings", "on"),
    ] {
        message(out, b'S', |body| {
            string(body, name);
            string(body, value);
        });
    }
    message(out, b'K', |body| body.extend_from_slice(&[0; 8]));
    ready(out);
}

fn reply(kind: u8, out: &mut Vec<u8>) {
    match kind {
        b'P' => message(out, b'1', |_| {}),
        b'B' => message(out, b'2', |_| {}),
        b'C' => message(out, b'3', |_| {}),
        b'D' => message(out, b'n', |_| {}),
        b'E' => message(out, b'C', |body| string(body, "SELECT 0")),
        b'S' => ready(out),
        b'Q' => {
            message(out, b'C', |body| string(body, "SELECT 0"));
            ready(out);
        }
        _ => {}
    }
}

fn ready(out: &mut Vec<u8>) {
    message(out, b'Z', |body| body.push(b'I'));
}
