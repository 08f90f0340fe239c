//! Errors of connecting to a server, and the alternative that may succeed.

use std::io;

use pgdyno_wire::{ProtocolError, ServerMessage};

use crate::config::SessionAttrs;
use crate::error::LoadError;
use crate::failure::Code;
use crate::socket::reason;

const NOT_THERE: &str = "is the server running there, and does it accept connections from this \
                         machine?";

/// The alternative that may succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Another address.
    Address,
    /// Another host.
    Host,
    /// The other encryption.
    Encryption,
    /// Nothing.
    Nothing,
}

/// A failure to establish a connection.
#[derive(Debug, Clone)]
pub struct ConnectError {
    pub(super) next: Next,
    /// SQLSTATE or own code.
    pub code: Code,
    details: Box<Details>,
}

#[derive(Debug, Clone)]
struct Details {
    error: LoadError,
    place: String,
    why: String,
}

impl ConnectError {
    fn new(next: Next, code: &'static str, place: String, why: &str) -> Self {
        let load_code = match code {
            "connect-failed" | "connect-refused" | "connect-timeout" => "connection-failed",
            other => other,
        };
        let message = if place.is_empty() {
            why.to_owned()
        } else {
            format!("cannot connect to {place}: {why}")
        };
        Self {
            next,
            code: Code::Own(code),
            details: Box::new(Details {
                error: LoadError::new(load_code, message),
                place,
                why: why.to_owned(),
            }),
        }
    }

    /// As an error of a load that cannot start.
    #[must_use]
    pub fn into_error(self) -> LoadError {
        self.details.error
    }

    fn hinted(mut self, hint: impl Into<String>) -> Self {
        self.details.error.hint = Some(hint.into());
        self
    }

    pub(super) fn unreachable(place: String, why: &str) -> Self {
        Self::new(Next::Address, "connect-failed", place, why).hinted(NOT_THERE)
    }

    pub(super) fn timeout(place: String) -> Self {
        let why = "no answer in time";
        Self::new(Next::Address, "connect-timeout", place, why).hinted(NOT_THERE)
    }

    pub(super) fn no_socket(place: String, error: &io::Error, is_http: bool) -> Self {
        match error.raw_os_error() {
            Some(libc::ECONNREFUSED) if is_http => {
                let why = reason(error);
                Self::new(Next::Address, "connect-refused", place, &why).hinted(NOT_THERE)
            }
            Some(libc::EMFILE | libc::ENFILE) => {
                let why = "too many open files in this process or on this machine";
                Self::new(Next::Nothing, "too-many-files", place, why).hinted(
                    "each connection is an open file: raise the limit (ulimit -n), or use fewer \
                     clients",
                )
            }
            Some(libc::EADDRNOTAVAIL) => {
                let why = "this machine has no free port for another connection to this address";
                Self::new(Next::Address, "connect-failed", place, why).hinted(
                    "a closed connection holds its port for a minute: reconnect less often, \
                     or use the server's Unix socket",
                )
            }
            _ => Self::unreachable(place, &reason(error)),
        }
    }

    pub(super) fn tls(place: String, why: &str, hint: Option<&'static str>) -> Self {
        let why = format!("TLS failed: {why}");
        let failure = Self::new(Next::Encryption, "tls-failed", place, &why);
        match hint {
            Some(hint) => failure.hinted(hint),
            None => failure,
        }
    }

    pub(super) fn tls_files(error: LoadError) -> Self {
        Self {
            next: Next::Encryption,
            code: Code::Own("tls-failed"),
            details: Box::new(Details {
                place: String::new(),
                why: error.message.clone(),
                error,
            }),
        }
    }

    pub(super) fn unsuitable(place: String, attrs: SessionAttrs) -> Self {
        let why = match attrs {
            SessionAttrs::ReadWrite => "its sessions are read-only",
            SessionAttrs::ReadOnly => "its sessions are not read-only",
            SessionAttrs::Primary => "it is a standby",
            _ => "it is not a standby",
        };
        Self::new(Next::Host, "no-suitable-server", place, why)
            .hinted("target_session_attrs says which servers are accepted")
    }

    /// The server's own details, with what helps most often.
    pub(super) fn refused(place: String, error: &ServerMessage<'_>, accepted: bool) -> Self {
        let (code, hint) = explain(error.sqlstate);
        let next = match error.sqlstate {
            _ if accepted => Next::Nothing,
            "57P03" => Next::Host,
            _ => Next::Encryption,
        };
        let said = LoadError::new(code, error.message);
        Self {
            next,
            code: Code::sqlstate(error.sqlstate),
            details: Box::new(Details {
                error: match hint {
                    Some(hint) => said.with_hint(hint),
                    None => said,
                },
                place,
                why: error.message.to_owned(),
            }),
        }
    }

    pub(super) fn protocol(place: String, error: &ProtocolError) -> Self {
        use ProtocolError as P;
        let (next, code, hint) = match error {
            P::PasswordMissing => (
                Next::Nothing,
                "authentication-failed",
                Some("set PGPASSWORD, or add the server to the password file"),
            ),
            P::AuthenticationUnsupported(_) | P::ServerNotAuthentic(_) => {
                (Next::Encryption, "authentication-failed", None)
            }
            P::MethodRefused(_) | P::BindingMissing(_) => {
                (Next::Encryption, "authentication-refused", None)
            }
            P::VersionTooOld | P::VersionUnknown(_) => (Next::Nothing, "protocol-version", None),
            _ => (
                Next::Nothing,
                "protocol-error",
                Some("is it a PostgreSQL server?"),
            ),
        };
        let failure = Self::new(next, code, place, &error.to_string());
        match hint {
            Some(hint) => failure.hinted(hint),
            None => failure,
        }
    }

    /// Combines several errors into one, with the code and the hint of the last.
    pub(super) fn combined(mut failures: Vec<Self>) -> Self {
        failures
            .dedup_by(|a, b| a.details.place == b.details.place && a.details.why == b.details.why);
        let Some(mut last) = failures.pop() else {
            return Self::new(Next::Nothing, "connect-failed", String::new(), "no server");
        };
        if !failures.is_empty() {
            let mut message = "cannot connect".to_owned();
            for (number, failure) in failures.iter().chain([&last]).enumerate() {
                message += if number == 0 { ": " } else { "; " };
                if !failure.details.place.is_empty() {
                    message += &format!("{}: ", failure.details.place);
                }
                message += &failure.details.why;
            }
            last.details.error.message = message;
        }
        last
    }
}

fn explain(sqlstate: &str) -> (&'static str, Option<&'static str>) {
    match sqlstate {
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
    }
}
