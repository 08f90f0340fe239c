//! A client: its connection, its position in the transaction, and what it has yet to read.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use crate::options::{Address, LoadOptions};
use crate::script::{Random, Script, Values, message, string};
use crate::window::Window;

const RECEIVE_BYTES: usize = 8192;
const PROTOCOL_VERSION: u32 = 3 << 16;

/// Next action of a client after it has received bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wants {
    /// More of the answer.
    More,
    /// Send the content of `send`.
    Send,
    /// Nothing, ever again.
    Nothing,
}

#[derive(Debug)]
pub struct Client {
    /// Reads and writes of a socket as of a file: the same calls for every kind of socket.
    pub socket: File,
    /// The message to send.
    pub send: Vec<u8>,
    /// Buffer for input; the first `have` bytes are used.
    pub receive: Vec<u8>,
    pub have: usize,
    random: Random,
    values: Values,
    position: usize,
    is_cold: bool,
}

impl Client {
    /// Connects, logs in where the server trusts it, prepares, and has its first message ready.
    pub fn connect(options: &LoadOptions, script: &Script, number: u64) -> io::Result<Self> {
        let mut client = Self {
            socket: open(&options.address)?,
            send: Vec::with_capacity(256),
            receive: vec![0; RECEIVE_BYTES],
            have: 0,
            random: Random::new(number + 1),
            values: Values::default(),
            position: 0,
            is_cold: true,
        };
        client.log_in(options)?;
        client.prepare(script)?;
        client.begin(script);
        Ok(client)
    }

    fn log_in(&mut self, options: &LoadOptions) -> io::Result<()> {
        let mut startup = vec![0; 4];
        startup.extend_from_slice(&PROTOCOL_VERSION.to_be_bytes());
        let database = options.database.as_str();
        for text in ["user", options.user.as_str(), "database", database, ""] {
            string(&mut startup, text);
        }
        let length = u32::try_from(startup.len()).unwrap_or(u32::MAX);
        startup[..4].copy_from_slice(&length.to_be_bytes());
        self.socket.write_all(&startup)?;
        self.read_until_ready()
    }

    fn prepare(&mut self, script: &Script) -> io::Result<()> {
        let mut out = Vec::new();
        for statement in &script.statements {
            out.extend_from_slice(&statement.parse);
        }
        message(&mut out, b'S', |_| {});
        self.socket.write_all(&out)?;
        self.read_until_ready()
    }

    fn read_until_ready(&mut self) -> io::Result<()> {
        loop {
            let count = self.socket.read(&mut self.receive[self.have..])?;
            if self.is_answered(count)? {
                return Ok(());
            }
        }
    }

    fn begin(&mut self, script: &Script) {
        self.position = 0;
        self.values = script.draw(&mut self.random);
        script.statements[0].write(&self.values, &mut self.send);
    }

    /// So many bytes have come, behind those that there were.
    pub fn received(
        &mut self,
        count: usize,
        script: &Script,
        window: &mut Window,
    ) -> io::Result<Wants> {
        if !self.is_answered(count)? {
            return Ok(Wants::More);
        }
        self.position += 1;
        if let Some(statement) = script.statements.get(self.position) {
            statement.write(&self.values, &mut self.send);
            return Ok(Wants::Send);
        }
        window.count(std::mem::take(&mut self.is_cold));
        if window.measured().is_some() {
            return Ok(Wants::Nothing);
        }
        self.begin(script);
        Ok(Wants::Send)
    }

    /// Says goodbye, so that the server's log does not speak of lost connections.
    pub fn terminate(&mut self) {
        let _ = self.socket.write(b"X\0\0\0\x04");
    }

    /// Goes through the messages that are there; true when the last is ReadyForQuery.
    fn is_answered(&mut self, count: usize) -> io::Result<bool> {
        if count == 0 {
            return Err(io::Error::other("the server closed the connection"));
        }
        let have = self.have + count;
        let mut at = 0;
        let mut ready = false;
        while let Some(header) = self.receive[at..have].first_chunk::<5>() {
            let [kind, length @ ..] = *header;
            let end = at + 1 + u32::from_be_bytes(length) as usize;
            if end > have {
                break;
            }
            match kind {
                b'Z' => ready = true,
                b'E' => return Err(refusal(&self.receive[at + 5..end])),
                b'R' if read_be32(&self.receive[at + 5..end]) != Some(0) => {
                    return Err(io::Error::other("the server asks for a password"));
                }
                _ => {}
            }
            at = end;
        }
        self.receive.copy_within(at..have, 0);
        self.have = have - at;
        if self.have == self.receive.len() {
            self.receive.resize(2 * self.have, 0);
        }
        Ok(ready)
    }
}

fn open(address: &Address) -> io::Result<File> {
    let socket: OwnedFd = match address {
        Address::Unix(path) => UnixStream::connect(path)?.into(),
        Address::Tcp(address) => {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.into()
        }
    };
    Ok(socket.into())
}

/// The socket as one whose calls never wait.
pub fn nonblocking(socket: OwnedFd) -> io::Result<File> {
    // Which of std's sockets it is called does not matter to the kernel.
    let socket = UnixStream::from(socket);
    socket.set_nonblocking(true)?;
    Ok(OwnedFd::from(socket).into())
}

/// The number at the start of these bytes, if there are enough of them.
pub fn read_be32(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|four| u32::from_be_bytes(*four))
}

/// The fields of an ErrorResponse, on one line.
fn refusal(fields: &[u8]) -> io::Error {
    let text: Vec<_> = fields
        .split(|byte| *byte == 0)
        .filter(|field| matches!(field.first(), Some(b'S' | b'C' | b'M')))
        .map(|field| String::from_utf8_lossy(&field[1..]))
        .collect();
    io::Error::other(format!("the server says: {}", text.join(" ")))
}
