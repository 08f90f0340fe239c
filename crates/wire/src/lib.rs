//! PostgreSQL's client protocol (versions 3.0 and 3.2) without I/O: bytes in, events out.
//! It uses no sockets and no clocks. The driver of a connection reads from its socket into a
//! [`Scanner`], hands each [`Message`] to the connection's [`Session`], acts on the [`Event`] that
//! comes back, and sends whatever the session wrote into the output buffer.
//!
//! ```text
//! socket -> Scanner::scan -> Message -> Session::receive -> Event
//! socket <- output buffer <- Session::start, query, parse, bind, execute, sync …
//! ```
//!
//! Keys for SCRAM are not derived here while a message is taken, since that takes milliseconds:
//! [`Session::salt`] says that they are needed, and [`Session::prove`] takes them.
//!
//! Whatever a server sends, a scanner holds a bounded amount of memory, and a session answers with
//! an event or a [`ProtocolError`]; neither panics.

mod authentication;
mod encryption;
mod error;
mod fields;
mod key;
mod require_auth;
mod scan;
mod scram;
mod session;

pub use authentication::{Binding, Identity, ProtocolVersion};
pub use encryption::{Channel, TlsAnswer, read_tls_answer, write_tls_request};
pub use error::ProtocolError;
pub use fields::{Columns, ParameterTypes, Row, ServerMessage};
pub use key::{BackendKey, write_cancel};
pub use require_auth::RequireAuth;
pub use scan::{MESSAGE_BYTES_MAX, Message, Scan, Scanner};
pub use scram::{Salt, ScramKeys};
pub use session::{Event, Format, Session, TransactionStatus};
