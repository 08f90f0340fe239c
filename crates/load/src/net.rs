//! Connections outside of the event loop: the one that is made before a load begins, and cancel
//! requests.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use pgdyno_wire::{BackendKey, TlsAnswer, read_tls_answer, write_cancel, write_tls_request};

use crate::blocking::Blocking;
use crate::config::TargetConfig;
use crate::connecting::{ConnectError, Connecting};
use crate::error::LoadError;
use crate::keys::Derived;
use crate::script::Rng;
use crate::socket::CLOSED;
use crate::sys::monotonic_ns;
use crate::target::{Peer, Target};
use crate::tls::Tls;

impl Target {
    /// Makes one connection, to the first server that will do, and closes it again. Each place may
    /// take as long as `timeout`.
    ///
    /// # Errors
    /// As [`Target::new`]; no host has an address, nothing listens there, or authentication fails:
    /// with the server's message.
    pub fn reach<'a>(
        config: &TargetConfig,
        names: impl Iterator<Item = Option<&'a str>>,
        timeout: Duration,
    ) -> Result<Self, LoadError> {
        Self::new(config, names)?.reached(timeout)
    }

    /// As [`Target::reach`], of a target that is there.
    ///
    /// # Errors
    /// As there.
    pub fn reached(self, timeout: Duration) -> Result<Self, LoadError> {
        let target = self;
        let mut connecting =
            Connecting::new(&target, None, &mut Rng::new(monotonic_ns()), monotonic_ns());
        if connecting.place().is_none() {
            return Err(LoadError::new(
                "connection-failed",
                target.hosts.unknown().join("; "),
            ));
        }
        loop {
            match target.attempt(&mut connecting, timeout) {
                Ok(()) => return Ok(target),
                Err(failure) => connecting
                    .try_next(failure)
                    .map_err(ConnectError::into_error)?,
            }
        }
    }

    /// A connection to the current address.
    fn attempt(&self, connecting: &mut Connecting, timeout: Duration) -> Result<(), ConnectError> {
        let until = Instant::now() + timeout;
        let failure = |connecting: &Connecting, error: &io::Error| match error.kind() {
            io::ErrorKind::TimedOut => connecting.on_timeout(self),
            io::ErrorKind::UnexpectedEof => connecting.on_closed(self, CLOSED),
            _ => connecting.on_unreachable(self, error),
        };
        let Some(address) = connecting.place() else {
            return Err(connecting.on_closed(self, "no address"));
        };
        let mut socket =
            Blocking::connect(address, until).map_err(|error| failure(connecting, &error))?;
        let mut out = BytesMut::new();
        let mut buffer = vec![0; 16 << 10];
        if connecting.on_socket(self, monotonic_ns(), &mut out)? {
            return Ok(());
        }
        loop {
            // Why the server takes nothing more may be among what it said.
            let sent = socket.write_all(&out);
            out.clear();
            let count = match (socket.read(&mut buffer), sent) {
                (Ok(0), _) => return Err(connecting.on_closed(self, CLOSED)),
                (Ok(count), _) => count,
                (Err(_), Err(error)) | (Err(error), Ok(())) => {
                    return Err(failure(connecting, &error));
                }
            };
            let outcome = connecting
                .on_bytes(&buffer[..count], self, monotonic_ns(), &mut out)
                .and_then(|done| self.give_keys(connecting, &mut out).map(|()| done));
            if outcome.is_err() || matches!(outcome, Ok(true)) {
                connecting.say_goodbye(&mut out);
                let _ = socket.write_all(&out);
                return outcome.map(drop);
            }
        }
    }

    /// Derives the keys that a connection waits for, here and now; those of the load find them.
    fn give_keys(
        &self,
        connecting: &mut Connecting,
        out: &mut BytesMut,
    ) -> Result<(), ConnectError> {
        let Some(id) = connecting.keys_needed(self) else {
            return Ok(());
        };
        let derived = self.keys.find(&id).unwrap_or_else(|| {
            let keys = self.identity.derive_keys(&id.salt);
            let derived = Arc::new(Derived { id, keys });
            self.keys.keep(Arc::clone(&derived));
            derived
        });
        connecting.on_keys(self, &derived, out)
    }

    /// Asks the server to cancel what the connection with this key executes, on a connection that is
    /// encrypted if that one is. Nobody answers.
    ///
    /// # Errors
    /// The request could not be delivered in time.
    pub fn cancel(&self, peer: &Peer, key: &BackendKey, timeout: Duration) -> io::Result<()> {
        let until = Instant::now() + timeout;
        let mut socket = Blocking::connect(&peer.address, until)?;
        let mut out = BytesMut::new();
        if peer.encrypted {
            let mut tls = self.encrypt(peer, &mut socket)?;
            write_cancel(key, &mut out);
            tls.seal(&mut out);
        } else {
            write_cancel(key, &mut out);
        }
        socket.write_all(&out)?;
        // The server closes the connection when it has passed the request on.
        let _ = socket.read(&mut [0; 64]);
        Ok(())
    }

    fn encrypt(&self, peer: &Peer, socket: &mut Blocking) -> io::Result<Box<Tls>> {
        let mut out = BytesMut::new();
        let mut buffer = vec![0; 16 << 10];
        if !self.direct_tls {
            write_tls_request(&mut out);
            socket.write_all(&out)?;
            let count = socket.read(&mut buffer)?;
            match read_tls_answer(&buffer[..count]) {
                Ok(TlsAnswer::Yes) => out.clear(),
                _ => return Err(io::Error::other("no encryption")),
            }
        }
        let mut tls = self.tls.connect(peer.host).map_err(io::Error::other)?;
        loop {
            tls.flush(&mut out);
            socket.write_all(&out)?;
            out.clear();
            if !tls.is_handshaking() {
                return Ok(tls);
            }
            let count = socket.read(&mut buffer)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            tls.open(&buffer[..count], &mut Vec::new())
                .map_err(|error| io::Error::other(error.message))?;
        }
    }
}
