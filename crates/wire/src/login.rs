//! Logging in: the start-up message, the protocol's version, and cleartext, MD5 and SCRAM-SHA-256
//! passwords, the last also bound to the TLS connection that they are sent on.

use bytes::{BufMut, BytesMut};
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{
    ChannelBinding, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, ScramSha256,
};
use postgres_protocol::message::frontend;

use crate::fields::split_text;
use crate::require_auth::{Method, RequireAuth};
use crate::{Channel, ProtocolError};

/// A version of the protocol, of major version 3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum ProtocolVersion {
    /// What every server speaks.
    #[default]
    V3_0,
    /// PostgreSQL 18: cancel keys of up to 256 bytes.
    V3_2,
}

impl ProtocolVersion {
    fn number(self) -> u32 {
        match self {
            Self::V3_0 => 3 << 16,
            Self::V3_2 => 3 << 16 | 2,
        }
    }
}

/// Whether a SCRAM log-in must be bound to its TLS connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Binding {
    /// Never.
    Disable,
    /// If the server offers it.
    #[default]
    Prefer,
    /// Or there is no log-in at all.
    Require,
}

/// Who logs in, to what, and what is asked of the way.
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
    /// The protocol's version to ask for.
    pub version: ProtocolVersion,
    /// The version that the server must speak at least.
    pub version_min: ProtocolVersion,
    /// Binding of SCRAM to TLS.
    pub binding: Binding,
    /// Which ways to prove who one is may be asked for.
    pub require_auth: RequireAuth,
}

/// How far a log-in has come.
pub(crate) enum Login {
    /// The start-up message is out.
    Asked(Channel),
    /// A password is out; the verdict comes next. Whether the log-in is bound to the connection.
    PasswordSent { bound: bool },
    /// The first SCRAM message is out.
    ScramBegun {
        scram: Box<ScramSha256>,
        bound: bool,
    },
    /// The proof is out; the server's own proof comes next.
    ScramProved {
        scram: Box<ScramSha256>,
        bound: bool,
    },
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
    let start = out.len();
    frontend::startup_message(fixed.into_iter().chain(more), out).map_err(unsendable)?;
    // The version follows the length word.
    (&mut out[start + 4..]).put_u32(identity.version.number());
    Ok(())
}

/// Reads the server's NegotiateProtocolVersion: the version that it is going to speak.
pub(crate) fn negotiate(
    identity: &Identity,
    body: &[u8],
) -> Result<ProtocolVersion, ProtocolError> {
    const MALFORMED: ProtocolError = ProtocolError::Malformed { tag: b'v' };
    let (number, rest) = body.split_first_chunk::<4>().ok_or(MALFORMED)?;
    let (options, _) = rest.split_first_chunk::<4>().ok_or(MALFORMED)?;
    let version = match u32::from_be_bytes(*number) {
        number if number == ProtocolVersion::V3_0.number() => ProtocolVersion::V3_0,
        number if number == ProtocolVersion::V3_2.number() => ProtocolVersion::V3_2,
        number => return Err(ProtocolError::VersionUnknown(number)),
    };
    // No protocol option is ever asked for, so none can be refused.
    if version >= identity.version || u32::from_be_bytes(*options) != 0 {
        return Err(ProtocolError::Unexpected {
            tag: b'v',
            during: "log-in",
        });
    }
    if version < identity.version_min {
        return Err(ProtocolError::VersionTooOld);
    }
    Ok(version)
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
    let kind = u32::from_be_bytes(*kind);
    match (kind, login) {
        (0, login @ (Login::Asked(_) | Login::PasswordSent { .. })) => accept(&login, identity),
        (3 | 5 | 10, Login::Asked(channel)) => {
            let method = match kind {
                3 => Method::Password,
                5 => Method::Md5,
                _ => Method::Scram,
            };
            identity.require_auth.check(method)?;
            if identity.binding == Binding::Require && method != Method::Scram {
                return Err(ProtocolError::BindingMissing(UNBOUND_METHOD));
            }
            match method {
                Method::Scram => return begin_scram(channel, data, identity, out),
                Method::Md5 => {
                    let salt = data.first_chunk::<4>().ok_or(MALFORMED)?;
                    let hash = md5_hash(identity.user.as_bytes(), password(identity)?, *salt);
                    frontend::password_message(hash.as_bytes(), out)
                }
                _ => frontend::password_message(password(identity)?, out),
            }
            .map_err(unsendable)?;
            Ok(Login::PasswordSent { bound: false })
        }
        (11, Login::ScramBegun { mut scram, bound }) => {
            scram.update(data).map_err(not_authentic)?;
            frontend::sasl_response(scram.message(), out).map_err(unsendable)?;
            Ok(Login::ScramProved { scram, bound })
        }
        (12, Login::ScramProved { mut scram, bound }) => {
            scram.finish(data).map_err(not_authentic)?;
            Ok(Login::PasswordSent { bound })
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

const UNBOUND_METHOD: &str = "the server asks for a password in a way that has none";

/// The server said yes: whether it may, after what it asked for.
fn accept(login: &Login, identity: &Identity) -> Result<Login, ProtocolError> {
    if matches!(login, Login::Asked(_)) {
        identity.require_auth.check(Method::None)?;
    }
    if identity.binding == Binding::Require && !matches!(login, Login::PasswordSent { bound: true })
    {
        return Err(ProtocolError::BindingMissing(
            "the server let us in without one",
        ));
    }
    Ok(Login::Accepted)
}

fn begin_scram(
    channel: Channel,
    mechanisms: &[u8],
    identity: &Identity,
    out: &mut BytesMut,
) -> Result<Login, ProtocolError> {
    let (plain, plus) = read_mechanisms(mechanisms)?;
    let (name, binding) = bind_channel(channel, plus, identity.binding)?;
    if name == SCRAM_SHA_256 && !plain {
        return Err(ProtocolError::AuthenticationUnsupported(
            "SASL without SCRAM-SHA-256",
        ));
    }
    let scram = Box::new(ScramSha256::new(password(identity)?, binding));
    frontend::sasl_initial_response(name, scram.message(), out).map_err(unsendable)?;
    let bound = name == SCRAM_SHA_256_PLUS;
    Ok(Login::ScramBegun { scram, bound })
}

/// Whether the server offers SCRAM without and with binding.
fn read_mechanisms(mut names: &[u8]) -> Result<(bool, bool), ProtocolError> {
    let (mut plain, mut plus) = (false, false);
    loop {
        let (name, rest) = split_text(b'R', names)?;
        match name {
            "" => return Ok((plain, plus)),
            SCRAM_SHA_256 => plain = true,
            SCRAM_SHA_256_PLUS => plus = true,
            _ => {}
        }
        names = rest;
    }
}

/// Chooses the mechanism: bound to the connection where both sides can and the user does not mind.
fn bind_channel(
    channel: Channel,
    offered: bool,
    wanted: Binding,
) -> Result<(&'static str, ChannelBinding), ProtocolError> {
    match (channel, wanted) {
        (Channel::Clear, _) if offered => Err(ProtocolError::BindingMissing(
            "the server offers it on a connection that is not encrypted, as if somebody between \
             had taken the encryption away",
        )),
        (Channel::Clear, Binding::Require) => Err(ProtocolError::BindingMissing(
            "the connection is not encrypted",
        )),
        (Channel::Tls(Some(hash)), Binding::Prefer | Binding::Require) if offered => Ok((
            SCRAM_SHA_256_PLUS,
            ChannelBinding::tls_server_end_point(hash.into_vec()),
        )),
        (Channel::Tls(_), Binding::Require) if offered => Err(ProtocolError::BindingMissing(
            "the server's certificate is signed in a way that has no hash for it",
        )),
        (Channel::Tls(_), Binding::Require) => Err(ProtocolError::BindingMissing(
            "the server does not offer it",
        )),
        // Lets a server that did offer it notice that somebody between took the offer out.
        (Channel::Tls(Some(_)), Binding::Prefer) => {
            Ok((SCRAM_SHA_256, ChannelBinding::unrequested()))
        }
        _ => Ok((SCRAM_SHA_256, ChannelBinding::unsupported())),
    }
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
