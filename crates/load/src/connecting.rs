//! Establishing a connection, without I/O: encryption, authentication, and the check that the
//! server is suitable; and the next address to try after a failure, by libpq's rules.
//! The driver opens sockets to the [`Connecting::place`], hands in what they receive, and sends
//! what is put into the output buffer. The same steps serve the connection that is made before a
//! load begins and those of the event loop.

mod error;

use std::io;

use bytes::BytesMut;
use pgdyno_wire::{
    Channel, Event, ProtocolError, Row, Scanner, ServerMessage, Session, TlsAnswer,
    read_tls_answer, write_tls_request,
};

use crate::config::SessionAttrs;
use crate::hosts::{Address, Encryption, Route};
use crate::keys::{Derived, KeyId};
use crate::script::Rng;
use crate::target::{Peer, Target};
use crate::times::ConnectMarks;
use crate::tls::Tls;
pub use error::ConnectError;
use error::Next;

/// The parts of a finished connection.
pub struct Established {
    /// Protocol state; none for HTTP.
    pub session: Option<Session>,
    /// Data that came after authentication.
    pub scanner: Scanner,
    /// Encryption.
    pub tls: Option<Box<Tls>>,
    /// Whom it is to.
    pub peer: Peer,
    /// Times of its phases.
    pub marks: ConnectMarks,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The socket connects.
    Socket,
    /// The server was asked whether it encrypts.
    TlsAsked,
    /// TLS is being set up.
    TlsBegun,
    /// Authenticating.
    LoggingIn,
    /// Authenticated; the server was asked what it is.
    Asking,
    /// Done.
    Established,
}

/// A connection that is being made.
pub struct Connecting {
    /// The group that it is for; `None` for that before the load.
    group: Option<usize>,
    route: Route,
    step: Step,
    session: Option<Session>,
    scanner: Scanner,
    tls: Option<Box<Tls>>,
    marks: ConnectMarks,
    /// Deadline for an answer from this address; 0 until its socket is opened for the first time.
    until_ns: u64,
    /// True if its socket is there.
    has_socket: bool,
    reported: Reported,
    /// Errors at the addresses that were tried before.
    failed: Vec<ConnectError>,
}

/// Parameters that the server reports.
#[derive(Debug, Default)]
struct Reported {
    hot_standby: Option<bool>,
    read_only: Option<bool>,
}

impl Connecting {
    /// At the first place.
    #[must_use]
    pub fn new(target: &Target, group: Option<usize>, rng: &mut Rng, now_ns: u64) -> Self {
        Self {
            group,
            route: target.hosts.route(rng),
            step: Step::Socket,
            session: None,
            scanner: Scanner::new(),
            tls: None,
            marks: ConnectMarks {
                began_ns: now_ns,
                ..ConnectMarks::default()
            },
            until_ns: 0,
            has_socket: false,
            reported: Reported::default(),
            failed: Vec::new(),
        }
    }

    /// Deadline for an answer from this address.
    #[must_use]
    pub fn until_ns(&self) -> u64 {
        self.until_ns
    }

    /// Address for the socket.
    #[must_use]
    pub fn place(&self) -> Option<&Address> {
        self.route.place().map(|(_, address)| address)
    }

    /// The socket to this place was opened.
    pub fn set_socket(&mut self) {
        self.has_socket = true;
    }

    /// True if it was opened.
    #[must_use]
    pub fn has_socket(&self) -> bool {
        self.has_socket
    }

    /// Return the deadline for an answer from this address, whose socket is opened now.
    pub fn allow_until(&mut self, until_ns: u64) -> u64 {
        if self.until_ns == 0 {
            self.until_ns = until_ns;
        }
        self.until_ns
    }

    /// Goes to the next place, after a failure at this one.
    ///
    /// # Errors
    /// There is none left: all errors combined.
    pub fn try_next(&mut self, failure: ConnectError) -> Result<(), ConnectError> {
        let found = match failure.next {
            Next::Address => self.route.next_address(),
            Next::Host => self.route.next_host(),
            Next::Encryption => self.route.next_encryption(),
            Next::Nothing => false,
        };
        self.failed.push(failure);
        if !found {
            return Err(ConnectError::combined(std::mem::take(&mut self.failed)));
        }
        self.step = Step::Socket;
        self.session = None;
        self.scanner = Scanner::new();
        self.tls = None;
        self.marks = ConnectMarks {
            began_ns: self.marks.began_ns,
            ..ConnectMarks::default()
        };
        self.until_ns = 0;
        self.has_socket = false;
        self.reported = Reported::default();
        Ok(())
    }

    /// The socket is connected; true when the connection is established with that.
    ///
    /// # Errors
    /// It cannot go on here.
    pub fn on_socket(
        &mut self,
        target: &Target,
        now_ns: u64,
        out: &mut BytesMut,
    ) -> Result<bool, ConnectError> {
        self.marks.socket_ns = now_ns;
        match self.route.encryption() {
            Encryption::Clear if target.is_http => {
                self.step = Step::Established;
                return Ok(true);
            }
            Encryption::Clear => self.authenticate(target, Channel::Clear, out)?,
            Encryption::Tls if target.direct_tls => self.begin_tls(target, out)?,
            Encryption::Tls => {
                write_tls_request(out);
                self.step = Step::TlsAsked;
            }
        }
        Ok(false)
    }

    /// Takes what the socket received; true when the connection is established.
    ///
    /// # Errors
    /// It cannot go on here.
    pub fn on_bytes(
        &mut self,
        bytes: &[u8],
        target: &Target,
        now_ns: u64,
        out: &mut BytesMut,
    ) -> Result<bool, ConnectError> {
        if self.step == Step::TlsAsked {
            self.on_tls_answer(bytes, target, out)?;
            return Ok(false);
        }
        let Some(mut tls) = self.tls.take() else {
            return self.on_plain(bytes, target, now_ns, out);
        };
        let mut plain = Vec::new();
        let opened = tls.open(bytes, &mut plain);
        tls.flush(out);
        if let Err(error) = opened {
            return Err(self.tls_error(target, &error.message, error.hint));
        }
        let mut said = BytesMut::new();
        let outcome = self.on_opened(&tls, &plain, target, now_ns, &mut said);
        if !said.is_empty() {
            tls.seal(&mut said);
            out.extend_from_slice(&said);
        }
        self.tls = Some(tls);
        outcome
    }

    /// The keys that it waits for: [`Connecting::on_keys`] takes them.
    #[must_use]
    pub fn keys_needed(&self, target: &Target) -> Option<KeyId> {
        let salt = self.session.as_ref()?.salt()?;
        let (host, _) = self.route.place()?;
        Some(KeyId {
            host,
            user: target.identity.user.clone(),
            salt: salt.clone(),
        })
    }

    /// Takes keys, if they are those that it waits for.
    ///
    /// # Errors
    /// It cannot go on here.
    pub fn on_keys(
        &mut self,
        target: &Target,
        derived: &Derived,
        out: &mut BytesMut,
    ) -> Result<(), ConnectError> {
        if self.keys_needed(target).as_ref() != Some(&derived.id) {
            return Ok(());
        }
        let Some(session) = &mut self.session else {
            return Ok(());
        };
        let mut said = BytesMut::new();
        if let Err(error) = session.prove(&derived.keys, &mut said) {
            return Err(self.protocol_error(target, &error));
        }
        if let Some(tls) = &mut self.tls {
            tls.seal(&mut said);
        }
        out.extend_from_slice(&said);
        Ok(())
    }

    /// Ends the connection in good order, as far as it has come.
    pub fn say_goodbye(&mut self, out: &mut BytesMut) {
        if let Some(session) = &mut self.session {
            session.terminate(out);
        }
        if let Some(tls) = &mut self.tls {
            tls.seal(out);
            tls.say_goodbye(out);
        }
    }

    /// The connection, once it is established.
    #[must_use]
    pub fn finish(self) -> Option<Established> {
        let Self {
            session,
            mut scanner,
            tls,
            marks,
            step: Step::Established,
            route,
            ..
        } = self
        else {
            return None;
        };
        scanner.keep_rows(false);
        let (host, address) = route.place()?;
        let peer = Peer {
            host,
            address: address.clone(),
            encrypted: tls.is_some(),
        };
        Some(Established {
            session,
            scanner,
            tls,
            peer,
            marks,
        })
    }

    fn on_tls_answer(
        &mut self,
        bytes: &[u8],
        target: &Target,
        out: &mut BytesMut,
    ) -> Result<(), ConnectError> {
        match read_tls_answer(bytes) {
            Ok(TlsAnswer::Yes) => self.begin_tls(target, out),
            Ok(TlsAnswer::No) if self.route.go_on_in_clear() => {
                self.authenticate(target, Channel::Clear, out)
            }
            Ok(TlsAnswer::No) => {
                let hint = "set ssl = on on the server, or use sslmode=prefer if the network is \
                            trusted";
                Err(self.tls_error(target, "encryption is disabled on the server", Some(hint)))
            }
            Err(error) => Err(self.tls_error(target, &error.to_string(), None)),
        }
    }

    fn begin_tls(&mut self, target: &Target, out: &mut BytesMut) -> Result<(), ConnectError> {
        let host = self.route.place().map_or(0, |(host, _)| host);
        let mut tls = target
            .tls
            .connect(host)
            .map_err(|error| self.tls_files_error(error))?;
        tls.flush(out);
        self.tls = Some(tls);
        self.step = Step::TlsBegun;
        Ok(())
    }

    /// Handle data received over TLS, which may have just been set up.
    fn on_opened(
        &mut self,
        tls: &Tls,
        plain: &[u8],
        target: &Target,
        now_ns: u64,
        out: &mut BytesMut,
    ) -> Result<bool, ConnectError> {
        if self.step == Step::TlsBegun {
            if tls.is_handshaking() {
                return Ok(false);
            }
            if target.is_http {
                self.marks.tls_ns = now_ns;
                self.step = Step::Established;
                return Ok(true);
            }
            if target.direct_tls && !tls.agreed_on_postgresql() {
                let why = "it accepts direct TLS, but does not announce the PostgreSQL protocol";
                return Err(self.tls_error(
                    target,
                    why,
                    Some("sslnegotiation=direct requires PostgreSQL 17 or later"),
                ));
            }
            self.marks.tls_ns = now_ns;
            self.authenticate(target, Channel::Tls(tls.end_point()), out)?;
        }
        self.on_plain(plain, target, now_ns, out)
    }

    fn authenticate(
        &mut self,
        target: &Target,
        channel: Channel,
        out: &mut BytesMut,
    ) -> Result<(), ConnectError> {
        let session = Session::start(target.identity_of(self.group), channel, out)
            .map_err(|error| self.protocol_error(target, &error))?;
        self.session = Some(session);
        self.step = Step::LoggingIn;
        Ok(())
    }

    fn on_plain(
        &mut self,
        bytes: &[u8],
        target: &Target,
        now_ns: u64,
        out: &mut BytesMut,
    ) -> Result<bool, ConnectError> {
        let mut scanner = std::mem::take(&mut self.scanner);
        let mut scan = scanner.scan(bytes);
        loop {
            let message = match scan.message() {
                Ok(Some(message)) => message,
                Ok(None) => break,
                Err(error) => return Err(self.protocol_error(target, &error)),
            };
            let Some(session) = &mut self.session else {
                break;
            };
            let event = match session.receive(message, &target.identity, out) {
                Ok(event) => event,
                Err(error) => return Err(self.protocol_error(target, &error)),
            };
            self.on_event(event, target, now_ns, out)?;
        }
        drop(scan);
        scanner.keep_rows(self.step == Step::Asking);
        self.scanner = scanner;
        Ok(self.step == Step::Established)
    }

    fn on_event(
        &mut self,
        event: Event<'_>,
        target: &Target,
        now_ns: u64,
        out: &mut BytesMut,
    ) -> Result<(), ConnectError> {
        let accepted = self.session.as_ref().is_some_and(Session::is_accepted);
        if accepted {
            self.marks.authenticated(now_ns);
        }
        match event {
            Event::Error(error) => return Err(self.refused(target, &error, accepted)),
            Event::Parameter { name, value } => self.reported.note(name, value),
            Event::Row(Some(row)) if self.step == Step::Asking => {
                self.on_answer(row)
                    .map_err(|error| self.protocol_error(target, &error))?;
            }
            Event::Connected | Event::Ready(_) => return self.choose(target, out),
            _ => {}
        }
        Ok(())
    }

    /// Authenticated, or informed of the kind of server: checks that it is suitable.
    fn choose(&mut self, target: &Target, out: &mut BytesMut) -> Result<(), ConnectError> {
        let attrs = self.route.attrs();
        match self.reported.suits(attrs) {
            Some(true) => {
                self.step = Step::Established;
                Ok(())
            }
            None if self.step == Step::LoggingIn => {
                self.step = Step::Asking;
                let sql = question(attrs);
                match self.session.as_mut().map(|session| session.query(sql, out)) {
                    Some(Err(error)) => Err(self.protocol_error(target, &error)),
                    _ => Ok(()),
                }
            }
            Some(false) | None => Err(self.unsuitable(target, attrs)),
        }
    }

    /// The value of [`question`]: `on` or `t` if it is so.
    fn on_answer(&mut self, mut row: Row<'_>) -> Result<(), ProtocolError> {
        let value = row.value()?.flatten().unwrap_or_default();
        let yes = Some(matches!(value, b"on" | b"t"));
        match self.route.attrs() {
            SessionAttrs::ReadWrite | SessionAttrs::ReadOnly => {
                self.reported.read_only = yes;
                self.reported.hot_standby.get_or_insert(false);
            }
            _ => self.reported.hot_standby = yes,
        }
        Ok(())
    }

    fn place_in_words(&self, target: &Target) -> String {
        self.route
            .place()
            .map_or_else(String::new, |(host, address)| {
                target.hosts.describe(host, address)
            })
    }

    fn refused(&self, target: &Target, error: &ServerMessage<'_>, accepted: bool) -> ConnectError {
        ConnectError::refused(self.place_in_words(target), error, accepted)
    }

    fn unsuitable(&self, target: &Target, attrs: SessionAttrs) -> ConnectError {
        ConnectError::unsuitable(self.place_in_words(target), attrs)
    }

    fn protocol_error(&self, target: &Target, error: &ProtocolError) -> ConnectError {
        ConnectError::protocol(self.place_in_words(target), error)
    }

    fn tls_error(&self, target: &Target, why: &str, hint: Option<&'static str>) -> ConnectError {
        ConnectError::tls(self.place_in_words(target), why, hint)
    }

    fn tls_files_error(&self, error: crate::LoadError) -> ConnectError {
        ConnectError::tls_files(error)
    }

    /// The server's side has ended, or its socket broke.
    #[must_use]
    pub fn on_closed(&self, target: &Target, why: &str) -> ConnectError {
        let place = self.place_in_words(target);
        match self.step {
            Step::TlsAsked | Step::TlsBegun => ConnectError::tls(place, why, None),
            _ => ConnectError::unreachable(place, why),
        }
    }

    /// There was no answer in time.
    #[must_use]
    pub fn on_timeout(&self, target: &Target) -> ConnectError {
        ConnectError::timeout(self.place_in_words(target))
    }

    /// The socket cannot be made or does not connect.
    #[must_use]
    pub fn on_unreachable(&self, target: &Target, error: &io::Error) -> ConnectError {
        ConnectError::no_socket(self.place_in_words(target), error, target.is_http)
    }
}

impl Reported {
    fn note(&mut self, name: &str, value: &str) {
        match name {
            "in_hot_standby" => self.hot_standby = Some(value == "on"),
            "default_transaction_read_only" => self.read_only = Some(value == "on"),
            _ => {}
        }
    }

    /// True if such a server is suitable; `None` if that is not known.
    fn suits(&self, attrs: SessionAttrs) -> Option<bool> {
        match attrs {
            SessionAttrs::Any => Some(true),
            SessionAttrs::ReadWrite => Some(!(self.hot_standby? || self.read_only?)),
            SessionAttrs::ReadOnly => Some(self.hot_standby? || self.read_only?),
            SessionAttrs::Primary => Some(!self.hot_standby?),
            SessionAttrs::Standby | SessionAttrs::PreferStandby => self.hot_standby,
        }
    }
}

/// The query for a server, or a pooler before it, that does not report what it is.
fn question(attrs: SessionAttrs) -> &'static [u8] {
    match attrs {
        SessionAttrs::ReadWrite | SessionAttrs::ReadOnly => b"show transaction_read_only",
        _ => b"select pg_catalog.pg_is_in_recovery()",
    }
}
