//! Logging in: the start-up message, and cleartext, MD5 and SCRAM-SHA-256 passwords.

use bytes::BytesMut;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::frontend;

use crate::ProtocolError;
use crate::fields::split_text;

/// Who logs in, and to what.
#[derive(Clone, Default)]
pub struct Identity {
    /// Role.
    pub user: String,
    /// Database.
    pub database: String,
    /// Password, where one is known.
    pub password: Option<String>,
    /// Further start-up parameters: `application_name`, `options` …
    pub parameters: Vec<(String, String)>,
}

/// How far a log-in has come.
pub(crate) enum Login {
    /// The start-up message is out.
    Asked,
    /// A password is out; the verdict comes next.
    PasswordSent,
    /// The first SCRAM message is out.
    ScramBegun(Box<ScramSha256>),
    /// The proof is out; the server's own proof comes next.
    ScramProved(Box<ScramSha256>),
    /// The server said yes; parameters, key and ReadyForQuery follow.
    Accepted,
}

/// Writes the start-up message.
pub(crate) fn write_startup(identity: &Identity, out: &mut BytesMut) -> Result<(), ProtocolError> {
    let fixed = [
        ("user", identity.user.as_str()),
        ("database", identity.database.as_str()),
        ("client_encoding", "UTF8"),
    ];
    let more = identity
        .parameters
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    frontend::startup_message(fixed.into_iter().chain(more), out).map_err(unsendable)
}

/// Answers one authentication message of the server.
pub(crate) fn answer(
    login: Login,
    body: &[u8],
    identity: &Identity,
    out: &mut BytesMut,
) -> Result<Login, ProtocolError> {
    const MALFORMED: ProtocolError = ProtocolError::Malformed { tag: b'R' };
    let (kind, data) = body.split_first_chunk::<4>().ok_or(MALFORMED)?;
    match (u32::from_be_bytes(*kind), login) {
        (0, Login::Asked | Login::PasswordSent) => Ok(Login::Accepted),
        (3, Login::Asked) => {
            frontend::password_message(password(identity)?, out).map_err(unsendable)?;
            Ok(Login::PasswordSent)
        }
        (5, Login::Asked) => {
            let salt = data.first_chunk::<4>().ok_or(MALFORMED)?;
            let hash = md5_hash(identity.user.as_bytes(), password(identity)?, *salt);
            frontend::password_message(hash.as_bytes(), out).map_err(unsendable)?;
            Ok(Login::PasswordSent)
        }
        (10, Login::Asked) => begin_scram(data, identity, out),
        (11, Login::ScramBegun(mut scram)) => {
            scram.update(data).map_err(not_authentic)?;
            frontend::sasl_response(scram.message(), out).map_err(unsendable)?;
            Ok(Login::ScramProved(scram))
        }
        (12, Login::ScramProved(mut scram)) => {
            scram.finish(data).map_err(not_authentic)?;
            Ok(Login::PasswordSent)
        }
        (2, _) => Err(ProtocolError::AuthenticationUnsupported("Kerberos V5")),
        (7 | 8, _) => Err(ProtocolError::AuthenticationUnsupported("GSSAPI")),
        (9, _) => Err(ProtocolError::AuthenticationUnsupported("SSPI")),
        (0 | 3 | 5 | 10 | 11 | 12, _) => Err(ProtocolError::Unexpected {
            tag: b'R',
            during: "log-in",
        }),
        _ => Err(ProtocolError::AuthenticationUnsupported(
            "an unknown kind of",
        )),
    }
}

fn begin_scram(
    mut mechanisms: &[u8],
    identity: &Identity,
    out: &mut BytesMut,
) -> Result<Login, ProtocolError> {
    loop {
        let (name, rest) = split_text(b'R', mechanisms)?;
        match name {
            SCRAM_SHA_256 => break,
            "" => {
                return Err(ProtocolError::AuthenticationUnsupported(
                    "SASL without SCRAM-SHA-256",
                ));
            }
            _ => mechanisms = rest,
        }
    }
    let scram = ScramSha256::new(password(identity)?, ChannelBinding::unsupported());
    frontend::sasl_initial_response(SCRAM_SHA_256, scram.message(), out).map_err(unsendable)?;
    Ok(Login::ScramBegun(Box::new(scram)))
}

fn password(identity: &Identity) -> Result<&[u8], ProtocolError> {
    match identity.password.as_deref() {
        Some(password) if !password.is_empty() => Ok(password.as_bytes()),
        _ => Err(ProtocolError::PasswordMissing),
    }
}

fn not_authentic(error: std::io::Error) -> ProtocolError {
    ProtocolError::ServerNotAuthentic(error.to_string())
}

pub(crate) fn unsendable(error: std::io::Error) -> ProtocolError {
    ProtocolError::Unsendable(error.to_string())
}
