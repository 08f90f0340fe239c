//! Why a place does not work out, in words, and what may go better.

use std::io;

use pgdyno_wire::{ProtocolError, ServerMessage};

use crate::config::SessionAttrs;
use crate::error::LoadError;
use crate::failure::Code;
use crate::socket::reason;

const NOT_THERE: &str = "is the server running there, and does it accept connections from here?";

/// What may go better.
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

/// Why a connection could not be established.
#[derive(Debug, Clone)]
pub struct Trouble {
    pub(super) next: Next,
    /// SQLSTATE or own code.
    pub code: Code,
    words: Box<Words>,
}

#[derive(Debug, Clone)]
struct Words {
    error: LoadError,
    place: String,
    why: String,
}

impl Trouble {
    fn new(next: Next, code: &'static str, place: String, why: &str) -> Self {
        let load_code = match code {
            "connect-failed" | "connect-timeout" => "connection-failed",
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
            words: Box::new(Words {
                error: LoadError::new(load_code, message),
                place,
                why: why.to_owned(),
            }),
        }
    }

    /// As an error of a load that cannot begin.
    #[must_use]
    pub fn into_error(self) -> LoadError {
        self.words.error
    }

    fn hinted(mut self, hint: impl Into<String>) -> Self {
        self.words.error.hint = Some(hint.into());
        self
    }

    pub(super) fn unreachable(place: String, why: &str) -> Self {
        Self::new(Next::Address, "connect-failed", place, why).hinted(NOT_THERE)
    }

    pub(super) fn timeout(place: String) -> Self {
        let why = "no answer in time";
        Self::new(Next::Address, "connect-timeout", place, why).hinted(NOT_THERE)
    }

    pub(super) fn no_socket(place: String, error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE) => {
                let why = "this process, or the machine, may have no more files open";
                Self::new(Next::Nothing, "too-many-files", place, why).hinted(
                    "each connection is one: raise the limit (ulimit -n), or use fewer clients",
                )
            }
            Some(libc::EADDRNOTAVAIL) => {
                let why = "this machine has no port left for another connection to there";
                Self::new(Next::Address, "connect-failed", place, why).hinted(
                    "connections that ended hold their port for a minute: reconnect less often, \
                     or use the server's Unix socket",
                )
            }
            _ => Self::unreachable(place, &reason(error)),
        }
    }

    pub(super) fn tls(place: String, why: &str, hint: Option<&'static str>) -> Self {
        let why = format!("no encryption: {why}");
        let trouble = Self::new(Next::Encryption, "tls-failed", place, &why);
        match hint {
            Some(hint) => trouble.hinted(hint),
            None => trouble,
        }
    }

    pub(super) fn tls_files(error: LoadError) -> Self {
        Self {
            next: Next::Encryption,
            code: Code::Own("tls-failed"),
            words: Box::new(Words {
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
            .hinted("target_session_attrs says which servers will do")
    }

    /// The server's own words, with what helps most often.
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
            words: Box::new(Words {
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
        let trouble = Self::new(next, code, place, &error.to_string());
        match hint {
            Some(hint) => trouble.hinted(hint),
            None => trouble,
        }
    }

    /// Several as one: the code and the hint are the last one's.
    pub(super) fn put_together(mut troubles: Vec<Self>) -> Self {
        troubles.dedup_by(|a, b| a.words.place == b.words.place && a.words.why == b.words.why);
        let Some(mut last) = troubles.pop() else {
            return Self::new(Next::Nothing, "connect-failed", String::new(), "no server");
        };
        if !troubles.is_empty() {
            let mut message = "cannot connect".to_owned();
            for (number, trouble) in troubles.iter().chain([&last]).enumerate() {
                message += if number == 0 { ": " } else { "; " };
                if !trouble.words.place.is_empty() {
                    message += &format!("{}: ", trouble.words.place);
                }
                message += &trouble.words.why;
            }
            last.words.error.message = message;
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
