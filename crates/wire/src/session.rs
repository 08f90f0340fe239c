//! The state of a connection: authentication, then statement cycles, each ended by ReadyForQuery.
//!
//! The session writes what a driver asks for into the driver's buffer and checks that what the
//! server sends is allowed at this point. It keeps no text and, once authenticated, allocates
//! nothing.

use bytes::{BufMut, BytesMut};
use postgres_protocol::IsNull;
use postgres_protocol::message::frontend;

use crate::authentication::{self, Authentication, Identity};
use crate::error::unsendable;
use crate::fields::{Columns, ParameterTypes, Row, ServerMessage, split_text};
use crate::{BackendKey, Channel, Message, ProtocolError, ProtocolVersion, Salt, ScramKeys};

/// The transaction status in ReadyForQuery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionStatus {
    /// Not in a transaction block.
    Idle,
    /// In one.
    Open,
    /// In one that failed: only ROLLBACK helps.
    Failed,
}

/// The format of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Text.
    Text,
    /// Binary, as the type's send function writes it.
    Binary,
}

/// The meaning of a message for the driver.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// Nothing to act on.
    Quiet,
    /// Authenticated; the first statement can be sent.
    Connected,
    /// A named or unnamed statement was parsed.
    Parsed,
    /// A result's columns.
    Columns(Columns<'a>),
    /// A row of it; its values are there only if the scanner keeps rows.
    Row(Option<Row<'a>>),
    /// A statement is done.
    Complete {
        /// It was to change or delete rows, and there were none: `UPDATE 0`.
        untouched: bool,
        /// It rolled back, wholly or to a savepoint: `ROLLBACK`, the answer to a COMMIT of a
        /// transaction that has failed, too.
        rolled_back: bool,
    },
    /// A statement, or the connection, failed.
    Error(ServerMessage<'a>),
    /// A warning or remark.
    Notice(ServerMessage<'a>),
    /// A setting that the server reports.
    Parameter {
        /// Its name.
        name: &'a str,
        /// Its value.
        value: &'a str,
    },
    /// NOTIFY on a channel that the connection listens to.
    Notification,
    /// The types of a statement's parameters, which [`Session::describe_statement`] asked for.
    ParameterTypes(ParameterTypes<'a>),
    /// The statement is a COPY FROM STDIN, and the server waits for [`Session::copy_data`] up to
    /// [`Session::copy_done`] or [`Session::copy_fail`].
    CopyIn(Format),
    /// The cycle is over.
    Ready(TransactionStatus),
}

enum State {
    Authenticating(Authentication),
    /// Authenticated; this many cycles are under way.
    Cycles(u32),
    Broken,
}

/// Protocol state of a connection.
pub struct Session {
    state: State,
    key: BackendKey,
    version: ProtocolVersion,
    accepted: bool,
    simple: bool,
    /// The server waits for the data of COPY FROM STDIN.
    copying: bool,
    /// Statements executed since the last Sync, and in the cycle before it.
    executes: [u32; 2],
}

impl Session {
    /// Begins a connection on this channel: writes the start-up message into `out`.
    ///
    /// # Errors
    /// A zero byte in one of the identity's texts.
    pub fn start(
        identity: &Identity,
        channel: Channel,
        out: &mut BytesMut,
    ) -> Result<Self, ProtocolError> {
        authentication::write_startup(identity, out)?;
        Ok(Self {
            state: State::Authenticating(Authentication::Asked(channel)),
            key: BackendKey::default(),
            version: identity.version,
            accepted: false,
            simple: false,
            copying: false,
            executes: [0; 2],
        })
    }

    /// The key for a cancel request.
    #[must_use]
    pub fn key(&self) -> &BackendKey {
        &self.key
    }

    /// Return whether the server has accepted the client. A failure after that cannot be avoided
    /// with another encryption.
    #[must_use]
    pub fn is_accepted(&self) -> bool {
        self.accepted
    }

    /// The salt of the keys that authentication waits for: [`Session::prove`] takes them.
    #[must_use]
    pub fn salt(&self) -> Option<&Salt> {
        match &self.state {
            State::Authenticating(authentication) => authentication.salt(),
            _ => None,
        }
    }

    /// Answers the server's challenge with the keys of [`Session::salt`]; nothing without one.
    ///
    /// # Errors
    /// None in practice.
    pub fn prove(&mut self, keys: &ScramKeys, out: &mut BytesMut) -> Result<(), ProtocolError> {
        self.state = match std::mem::replace(&mut self.state, State::Broken) {
            State::Authenticating(authentication) => {
                State::Authenticating(authentication.prove(keys, out)?)
            }
            other => other,
        };
        Ok(())
    }

    /// Writes a simple query; it is a whole cycle.
    ///
    /// # Errors
    /// A zero byte in the text, or a text of 1 GiB or more.
    pub fn query(&mut self, sql: &[u8], out: &mut BytesMut) -> Result<(), ProtocolError> {
        let length = sql.len() + 5;
        let length = i32::try_from(length)
            .map_err(|_| ProtocolError::Unsendable("a statement of over 1 GB".into()))?;
        if memchr::memchr(0, sql).is_some() {
            return Err(ProtocolError::Unsendable(
                "a zero byte in a statement".into(),
            ));
        }
        out.put_u8(b'Q');
        out.put_i32(length);
        out.put_slice(sql);
        out.put_u8(0);
        self.simple = true;
        self.executes[0] += 1;
        self.begin_cycle();
        Ok(())
    }

    /// Writes Parse. `types` are the first parameters' types by OID; 0, or none given, leaves a
    /// type to the server.
    ///
    /// # Errors
    /// A zero byte in the text, or a text of 1 GiB or more.
    pub fn parse(
        &mut self,
        name: &str,
        sql: &str,
        types: &[u32],
        out: &mut BytesMut,
    ) -> Result<(), ProtocolError> {
        frontend::parse(name, sql, types.iter().copied(), out).map_err(unsendable)
    }

    /// Writes Bind to the unnamed portal, results as text. `write` appends one value, or returns
    /// false for NULL. `formats` has one for each value, or is empty: all of them text.
    ///
    /// # Errors
    /// A value of 1 GiB or more, or too many of them.
    pub fn bind<T>(
        &mut self,
        statement: &str,
        formats: &[Format],
        values: impl IntoIterator<Item = T>,
        mut write: impl FnMut(T, &mut BytesMut) -> bool,
        out: &mut BytesMut,
    ) -> Result<(), ProtocolError> {
        let serialize = |value: T, out: &mut BytesMut| {
            Ok(if write(value, out) {
                IsNull::No
            } else {
                IsNull::Yes
            })
        };
        let formats = formats
            .iter()
            .map(|format| i16::from(*format == Format::Binary));
        frontend::bind("", statement, formats, values, serialize, [], out).map_err(|error| {
            match error {
                frontend::BindError::Conversion(error) => {
                    ProtocolError::Unsendable(error.to_string())
                }
                frontend::BindError::Serialization(error) => unsendable(error),
            }
        })
    }

    /// Writes Describe for the unnamed portal: column names come before the rows.
    ///
    /// # Errors
    /// None in practice.
    pub fn describe(&mut self, out: &mut BytesMut) -> Result<(), ProtocolError> {
        frontend::describe(b'P', "", out).map_err(unsendable)
    }

    /// Writes Describe for a prepared statement: [`Event::ParameterTypes`] comes, and
    /// [`Event::Columns`] if it returns rows.
    ///
    /// # Errors
    /// A zero byte in the name.
    pub fn describe_statement(
        &mut self,
        name: &str,
        out: &mut BytesMut,
    ) -> Result<(), ProtocolError> {
        frontend::describe(b'S', name, out).map_err(unsendable)
    }

    /// Writes Execute of the unnamed portal, all rows at once.
    ///
    /// # Errors
    /// None in practice.
    pub fn execute(&mut self, out: &mut BytesMut) -> Result<(), ProtocolError> {
        self.executes[0] += 1;
        frontend::execute("", 0, out).map_err(unsendable)
    }

    /// Writes Close of a prepared statement. The server does not mind if there is none.
    ///
    /// # Errors
    /// A zero byte in the name.
    pub fn close_statement(&mut self, name: &str, out: &mut BytesMut) -> Result<(), ProtocolError> {
        frontend::close(b'S', name, out).map_err(unsendable)
    }

    /// Writes Sync: ends a cycle of Parse, Bind, Execute …
    pub fn sync(&mut self, out: &mut BytesMut) {
        frontend::sync(out);
        self.simple = false;
        self.begin_cycle();
    }

    /// True if the server waits for the data of COPY FROM STDIN. It stops to when the data is at
    /// its end, or when the server finds something wrong with it.
    #[must_use]
    pub fn is_copying(&self) -> bool {
        self.copying
    }

    /// Writes a piece of COPY FROM STDIN's data, which need not end where a row does; or nothing if
    /// no COPY waits for it.
    ///
    /// # Errors
    /// A piece of 1 GiB or more.
    pub fn copy_data(&mut self, data: &[u8], out: &mut BytesMut) -> Result<(), ProtocolError> {
        if self.copying {
            let length = i32::try_from(data.len() + 4)
                .map_err(|_| ProtocolError::Unsendable("COPY data of over 1 GB at once".into()))?;
            out.put_u8(b'd');
            out.put_i32(length);
            out.put_slice(data);
        }
        Ok(())
    }

    /// Writes the end of COPY FROM STDIN's data, if one waits for it.
    pub fn copy_done(&mut self, out: &mut BytesMut) {
        if self.copying {
            frontend::copy_done(out);
            self.end_copy(out);
        }
    }

    /// Makes a COPY FROM STDIN fail, if one waits for data.
    ///
    /// # Errors
    /// A zero byte in the reason.
    pub fn copy_fail(&mut self, reason: &str, out: &mut BytesMut) -> Result<(), ProtocolError> {
        if self.copying {
            frontend::copy_fail(reason, out).map_err(unsendable)?;
            self.end_copy(out);
        }
        Ok(())
    }

    /// In the extended protocol the server threw away the Sync that was sent with the COPY, so
    /// another one must follow.
    fn end_copy(&mut self, out: &mut BytesMut) {
        self.copying = false;
        if !self.simple {
            frontend::sync(out);
        }
    }

    /// Writes Terminate.
    pub fn terminate(&mut self, out: &mut BytesMut) {
        frontend::terminate(out);
    }

    fn begin_cycle(&mut self) {
        if let State::Cycles(pending) = &mut self.state {
            *pending += 1;
        }
        self.executes = [0, self.executes[0]];
    }

    /// Takes one message from the server. Answers that authentication or a failed COPY need are
    /// written into
    /// `out`.
    ///
    /// # Errors
    /// The message cannot come now or is malformed, or authentication cannot go on. The connection
    /// cannot be used after that.
    pub fn receive<'a>(
        &mut self,
        message: Message<'a>,
        identity: &Identity,
        out: &mut BytesMut,
    ) -> Result<Event<'a>, ProtocolError> {
        match std::mem::replace(&mut self.state, State::Broken) {
            State::Authenticating(authentication) => {
                self.receive_authentication(authentication, message, identity, out)
            }
            State::Cycles(pending) => {
                self.state = State::Cycles(pending);
                self.receive_cycle(pending, message, out)
                    .inspect_err(|_| self.state = State::Broken)
            }
            State::Broken => Err(ProtocolError::Unexpected {
                tag: message.tag,
                during: "a broken connection",
            }),
        }
    }

    fn receive_authentication<'a>(
        &mut self,
        authentication: Authentication,
        message: Message<'a>,
        identity: &Identity,
        out: &mut BytesMut,
    ) -> Result<Event<'a>, ProtocolError> {
        let Message { tag, body } = message;
        let mut next = State::Authenticating(authentication);
        let event = match (tag, next) {
            (b'R', State::Authenticating(authentication)) => {
                let authentication = authentication::answer(authentication, body, identity, out)?;
                self.accepted = matches!(authentication, Authentication::Accepted);
                next = State::Authenticating(authentication);
                Event::Quiet
            }
            (b'Z', State::Authenticating(Authentication::Accepted)) => {
                read_status(body)?;
                next = State::Cycles(0);
                Event::Connected
            }
            (b'K', State::Authenticating(Authentication::Accepted)) => {
                self.key = BackendKey::read(body, self.version)?;
                next = State::Authenticating(Authentication::Accepted);
                Event::Quiet
            }
            (b'E', _) => {
                next = State::Broken;
                Event::Error(ServerMessage::read(tag, body)?)
            }
            (b'v', State::Authenticating(authentication @ Authentication::Asked(_))) => {
                self.version = authentication::negotiate(identity, body)?;
                next = State::Authenticating(authentication);
                Event::Quiet
            }
            (b'S' | b'N' | b'A', kept) => {
                next = kept;
                read_unasked(message)?
            }
            _ => {
                return Err(ProtocolError::Unexpected {
                    tag,
                    during: "authentication",
                });
            }
        };
        self.state = next;
        Ok(event)
    }

    fn receive_cycle<'a>(
        &mut self,
        pending: u32,
        message: Message<'a>,
        out: &mut BytesMut,
    ) -> Result<Event<'a>, ProtocolError> {
        let Message { tag, body } = message;
        if tag == b'E' && self.copying {
            self.end_copy(out);
        }
        if matches!(tag, b'S' | b'N' | b'A' | b'E') {
            return read_unasked(message);
        }
        if pending == 0 {
            return Err(ProtocolError::Unexpected {
                tag,
                during: "idle time",
            });
        }
        if self.copying {
            return Err(ProtocolError::Unexpected {
                tag,
                during: "COPY FROM STDIN",
            });
        }
        match tag {
            b'Z' => {
                self.state = State::Cycles(pending - 1);
                Ok(Event::Ready(read_status(body)?))
            }
            b'C' | b'I' => Ok(Event::Complete {
                untouched: matches!(body, b"UPDATE 0\0" | b"DELETE 0\0" | b"MERGE 0\0"),
                rolled_back: body == b"ROLLBACK\0",
            }),
            b'1' => Ok(Event::Parsed),
            b'T' => Ok(Event::Columns(Columns::read(body)?)),
            b'D' if body.is_empty() => Ok(Event::Row(None)),
            b'D' => Ok(Event::Row(Some(Row::read(body)?))),
            b'2' | b'3' | b'n' | b's' | b'H' | b'd' | b'c' => Ok(Event::Quiet),
            b't' => Ok(Event::ParameterTypes(ParameterTypes::read(body)?)),
            // Statements that were already sent would be taken for the data.
            b'G' if pending > 1 || self.executes != [0, 1] => Err(ProtocolError::CopyInPipeline),
            b'G' => {
                self.copying = true;
                Ok(Event::CopyIn(read_copy_format(body)?))
            }
            _ => Err(ProtocolError::Unexpected {
                tag,
                during: "a statement",
            }),
        }
    }
}

/// Messages that may come at any time, asked or not.
fn read_unasked(message: Message<'_>) -> Result<Event<'_>, ProtocolError> {
    let Message { tag, body } = message;
    match tag {
        b'S' => {
            let (name, rest) = split_text(tag, body)?;
            let (value, _) = split_text(tag, rest)?;
            Ok(Event::Parameter { name, value })
        }
        b'N' => Ok(Event::Notice(ServerMessage::read(tag, body)?)),
        b'E' => Ok(Event::Error(ServerMessage::read(tag, body)?)),
        _ => Ok(Event::Notification),
    }
}

fn read_status(body: &[u8]) -> Result<TransactionStatus, ProtocolError> {
    match body {
        b"I" => Ok(TransactionStatus::Idle),
        b"T" => Ok(TransactionStatus::Open),
        b"E" => Ok(TransactionStatus::Failed),
        _ => Err(ProtocolError::Malformed { tag: b'Z' }),
    }
}

fn read_copy_format(body: &[u8]) -> Result<Format, ProtocolError> {
    match body.first() {
        Some(0) => Ok(Format::Text),
        Some(1) => Ok(Format::Binary),
        _ => Err(ProtocolError::Malformed { tag: b'G' }),
    }
}
