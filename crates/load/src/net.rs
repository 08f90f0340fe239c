//! Where the server is, and the one connection that is made before a load begins.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use bytes::BytesMut;
use pgdyno_wire::{
    BackendKey, Channel, Event, Identity, ProtocolError, Scanner, Session, write_cancel,
};

use crate::config::TargetConfig;
use crate::error::LoadError;
use crate::reactor::Stream;

/// A server's address, and who logs in there.
#[derive(Clone)]
pub struct Target {
    address: Address,
    /// For the log-in.
    pub identity: Identity,
    described: String,
}

#[derive(Clone)]
enum Address {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

impl Target {
    /// Finds the server's address and makes one connection, which is closed again.
    ///
    /// # Errors
    /// The host has no address, nobody listens there, or the log-in fails: with the server's words.
    pub fn reach(config: &TargetConfig, timeout: Duration) -> Result<Self, LoadError> {
        let mut parameters = vec![(
            "application_name".to_owned(),
            config.application_name.clone(),
        )];
        if let Some(options) = &config.options {
            parameters.push(("options".to_owned(), options.clone()));
        }
        let identity = Identity {
            user: config.user.clone(),
            database: config.database.clone(),
            password: config.password.clone(),
            parameters,
            ..Identity::default()
        };
        let mut last = None;
        for address in addresses(config)? {
            let described = describe(config, &address);
            let target = Self {
                address,
                identity: identity.clone(),
                described,
            };
            match target.log_in(timeout) {
                Ok(()) => return Ok(target),
                Err(error) if error.code == "connection-failed" => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or_else(|| unresolved(config, "it has no address")))
    }

    /// Begins a connection without waiting for it.
    ///
    /// # Errors
    /// It fails at once.
    pub fn connect(&self) -> io::Result<Stream> {
        match &self.address {
            Address::Unix(path) => mio::net::UnixStream::connect(path).map(Stream::Unix),
            Address::Tcp(address) => {
                let stream = mio::net::TcpStream::connect(*address)?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
        }
    }

    /// Asks the server to cancel what the connection with this key executes. Nobody answers.
    ///
    /// # Errors
    /// The request could not be delivered.
    pub fn cancel(&self, key: &BackendKey, timeout: Duration) -> io::Result<()> {
        let mut out = BytesMut::new();
        write_cancel(key, &mut out);
        let mut stream = self.connect_blocking(timeout)?;
        stream.write_all(&out)?;
        // The server closes the connection when it has passed the request on.
        let _ = stream.read(&mut [0; 1]);
        Ok(())
    }

    fn connect_blocking(&self, timeout: Duration) -> io::Result<Box<dyn Blocking>> {
        let stream: Box<dyn Blocking> = match &self.address {
            Address::Unix(path) => {
                let stream = std::os::unix::net::UnixStream::connect(path)?;
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))?;
                Box::new(stream)
            }
            Address::Tcp(address) => {
                let stream = std::net::TcpStream::connect_timeout(address, timeout)?;
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))?;
                Box::new(stream)
            }
        };
        Ok(stream)
    }

    fn log_in(&self, timeout: Duration) -> Result<(), LoadError> {
        let mut stream = self
            .connect_blocking(timeout)
            .map_err(|error| self.unreachable(&error))?;
        let mut out = BytesMut::new();
        let protocol = |error: ProtocolError| self.refused_by_protocol(&error);
        let mut session =
            Session::start(&self.identity, Channel::Clear, &mut out).map_err(protocol)?;
        let mut scanner = Scanner::new();
        let mut buffer = vec![0; 16 << 10];
        loop {
            stream
                .write_all(&out)
                .map_err(|error| self.unreachable(&error))?;
            out.clear();
            let count = loop {
                match stream.read(&mut buffer) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    read => break read.map_err(|error| self.unreachable(&error))?,
                }
            };
            if count == 0 {
                return Err(self.failed(self.cannot("it closed the connection during log-in")));
            }
            let mut scan = scanner.scan(&buffer[..count]);
            while let Some(message) = scan.message().map_err(protocol)? {
                match session
                    .receive(message, &self.identity, &mut out)
                    .map_err(protocol)?
                {
                    Event::Connected => {
                        session.terminate(&mut out);
                        let _ = stream.write_all(&out);
                        return Ok(());
                    }
                    Event::Error(error) => return Err(refused(error.sqlstate, error.message)),
                    _ => {}
                }
            }
        }
    }

    /// Why this server cannot be reached, in words.
    #[must_use]
    pub fn explain(&self, error: &io::Error) -> String {
        let why = match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "no answer in time".to_owned(),
            _ => reason(error),
        };
        self.cannot(&why)
    }

    fn cannot(&self, why: &str) -> String {
        format!("cannot connect to {}: {why}", self.described)
    }

    fn unreachable(&self, error: &io::Error) -> LoadError {
        self.failed(self.explain(error))
    }

    fn failed(&self, message: String) -> LoadError {
        LoadError::new("connection-failed", message)
            .with_hint("is the server running there, and does it accept connections from here?")
    }

    fn refused_by_protocol(&self, error: &ProtocolError) -> LoadError {
        match error {
            ProtocolError::PasswordMissing => LoadError::new(
                "authentication-failed",
                format!("{} asks for a password and none was given", self.described),
            )
            .with_hint("set PGPASSWORD, or add the server to the password file"),
            ProtocolError::AuthenticationUnsupported(_) | ProtocolError::ServerNotAuthentic(_) => {
                LoadError::new(
                    "authentication-failed",
                    format!("{}: {error}", self.described),
                )
            }
            _ => LoadError::new("protocol-error", format!("{}: {error}", self.described))
                .with_hint("is it a PostgreSQL server?"),
        }
    }
}

/// The system's words without its number for them.
#[must_use]
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

trait Blocking: Read + Write {}
impl<T: Read + Write> Blocking for T {}

fn addresses(config: &TargetConfig) -> Result<Vec<Address>, LoadError> {
    if config.host.starts_with('/') {
        let path = PathBuf::from(&config.host).join(format!(".s.PGSQL.{}", config.port));
        return Ok(vec![Address::Unix(path)]);
    }
    let found = (config.host.as_str(), config.port)
        .to_socket_addrs()
        .map_err(|error| unresolved(config, &error.to_string()))?;
    Ok(found.map(Address::Tcp).collect())
}

fn unresolved(config: &TargetConfig, why: &str) -> LoadError {
    LoadError::new(
        "connection-failed",
        format!("cannot find host {:?}: {why}", config.host),
    )
}

fn describe(config: &TargetConfig, address: &Address) -> String {
    match address {
        Address::Unix(path) => format!("the socket {}", path.display()),
        Address::Tcp(address) => format!("{} ({address})", config.host),
    }
}

/// The server's own words, with what helps most often.
fn refused(sqlstate: &str, message: &str) -> LoadError {
    let (code, hint) = match sqlstate {
        "28P01" => (
            "authentication-failed",
            Some("check the password, or the server's pg_hba.conf"),
        ),
        "28000" => (
            "authentication-failed",
            Some("check the role's name and the server's pg_hba.conf"),
        ),
        "3D000" => (
            "database-missing",
            Some("create it, or name another database"),
        ),
        "53300" => (
            "connections-exhausted",
            Some("raise max_connections, or disconnect other clients"),
        ),
        "57P03" => (
            "server-starting",
            Some("try again when the server accepts connections"),
        ),
        _ => ("connection-refused", None),
    };
    let error = LoadError::new(code, message);
    match hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}
