//! Authentication: the start-up message, the protocol's version, and cleartext, MD5 and
//! SCRAM-SHA-256 passwords, the last also with channel binding.

use bytes::{BufMut, BytesMut};
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{SCRAM_SHA_256, SCRAM_SHA_256_PLUS};
use postgres_protocol::message::frontend;

use crate::error::unsendable;
use crate::fields::split_text;
use crate::require_auth::{Method, RequireAuth};
use crate::scram::{Challenge, ChannelBinding, Exchange, Expected, ScramKeys};
use crate::{Channel, ProtocolError, Salt};

/// A version of the protocol, of major version 3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum ProtocolVersion {
    /// Supported by every server.
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

/// Channel binding of SCRAM authentication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Binding {
    /// Never.
    Disable,
    /// Used if the server offers it.
    #[default]
    Prefer,
    /// Always; without it the connection fails.
    Require,
}

/// The role, the database, and requirements on authentication.
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
    /// The authentication methods that the server may request.
    pub require_auth: RequireAuth,
}

/// The state of authentication.
pub(crate) enum Authentication {
    /// The start-up message was sent.
    Asked(Channel),
    /// A password was sent; the result comes next. `bound`: with channel binding.
    PasswordSent { bound: bool },
    /// The first SCRAM message was sent.
    ScramBegun { exchange: Exchange, bound: bool },
    /// The server's challenge came; keys are needed to answer it.
    ScramChallenged {
        challenge: Box<Challenge>,
        bound: bool,
    },
    /// The proof was sent; the server's own proof comes next.
    ScramProved {
        expected: Box<Expected>,
        bound: bool,
    },
    /// The server accepted the client; parameters, key and ReadyForQuery follow.
    Accepted,
}

const ENCODING: &str = "client_encoding";

/// Writes the start-up message. Text is UTF-8 unless the parameters name an encoding.
pub(crate) fn write_startup(identity: &Identity, out: &mut BytesMut) -> Result<(), ProtocolError> {
    let fixed = [
        ("user", identity.user.as_str()),
        ("database", identity.database.as_str()),
    ];
    let more = || {
        let pairs = identity.parameters.iter();
        pairs.map(|(name, value)| (name.as_str(), value.as_str()))
    };
    let named = more().any(|(name, _)| name == ENCODING);
    let default = (!named).then_some((ENCODING, "UTF8"));
    // An empty encoding is the server's own choice.
    let given = more().filter(|pair| *pair != (ENCODING, ""));
    let all = fixed.into_iter().chain(default).chain(given);
    let start = out.len();
    frontend::startup_message(all, out).map_err(unsendable)?;
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
    // No protocol option is ever requested, so none can be refused.
    if version >= identity.version || u32::from_be_bytes(*options) != 0 {
        return Err(ProtocolError::Unexpected {
            tag: b'v',
            during: "authentication",
        });
    }
    if version < identity.version_min {
        return Err(ProtocolError::VersionTooOld);
    }
    Ok(version)
}

/// Answers one authentication message of the server.
pub(crate) fn answer(
    authentication: Authentication,
    body: &[u8],
    identity: &Identity,
    out: &mut BytesMut,
) -> Result<Authentication, ProtocolError> {
    const MALFORMED: ProtocolError = ProtocolError::Malformed { tag: b'R' };
    let (kind, data) = body.split_first_chunk::<4>().ok_or(MALFORMED)?;
    let kind = u32::from_be_bytes(*kind);
    match (kind, authentication) {
        (0, authentication @ (Authentication::Asked(_) | Authentication::PasswordSent { .. })) => {
            accept(&authentication, identity)
        }
        (3 | 5 | 10, Authentication::Asked(channel)) => {
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
            Ok(Authentication::PasswordSent { bound: false })
        }
        (11, Authentication::ScramBegun { exchange, bound }) => {
            let challenge = Box::new(exchange.challenge(data)?);
            Ok(Authentication::ScramChallenged { challenge, bound })
        }
        (12, Authentication::ScramProved { expected, bound }) => {
            expected.check(data)?;
            Ok(Authentication::PasswordSent { bound })
        }
        (2, _) => Err(ProtocolError::AuthenticationUnsupported("Kerberos V5")),
        (7 | 8, _) => Err(ProtocolError::AuthenticationUnsupported("GSSAPI")),
        (9, _) => Err(ProtocolError::AuthenticationUnsupported("SSPI")),
        (0 | 3 | 5 | 10 | 11 | 12, _) => Err(ProtocolError::Unexpected {
            tag: b'R',
            during: "authentication",
        }),
        _ => Err(ProtocolError::AuthenticationUnsupported(
            "an unknown kind of",
        )),
    }
}

const UNBOUND_METHOD: &str = "the server requests an authentication method without it";

/// Checks that the server may accept the client after the authentication that it requested.
fn accept(
    authentication: &Authentication,
    identity: &Identity,
) -> Result<Authentication, ProtocolError> {
    if matches!(authentication, Authentication::Asked(_)) {
        identity.require_auth.check(Method::None)?;
    }
    if identity.binding == Binding::Require
        && !matches!(authentication, Authentication::PasswordSent { bound: true })
    {
        return Err(ProtocolError::BindingMissing(
            "the server accepted the connection without it",
        ));
    }
    Ok(Authentication::Accepted)
}

fn begin_scram(
    channel: Channel,
    mechanisms: &[u8],
    identity: &Identity,
    out: &mut BytesMut,
) -> Result<Authentication, ProtocolError> {
    let (plain, plus) = read_mechanisms(mechanisms)?;
    let (name, binding) = bind_channel(channel, plus, identity.binding)?;
    if name == SCRAM_SHA_256 && !plain {
        return Err(ProtocolError::AuthenticationUnsupported(
            "SASL without SCRAM-SHA-256",
        ));
    }
    password(identity)?;
    let exchange = Exchange::begin(name, binding, out)?;
    let bound = name == SCRAM_SHA_256_PLUS;
    Ok(Authentication::ScramBegun { exchange, bound })
}

impl Authentication {
    /// The salt of the keys that the server's challenge waits for.
    pub(crate) fn salt(&self) -> Option<&Salt> {
        match self {
            Self::ScramChallenged { challenge, .. } => Some(&challenge.salt),
            _ => None,
        }
    }

    /// Answers the server's challenge, if there is one.
    pub(crate) fn prove(self, keys: &ScramKeys, out: &mut BytesMut) -> Result<Self, ProtocolError> {
        match self {
            Self::ScramChallenged { challenge, bound } => {
                let expected = Box::new(challenge.prove(keys, out)?);
                Ok(Self::ScramProved { expected, bound })
            }
            other => Ok(other),
        }
    }
}

impl Identity {
    /// Derives the keys of the password with a salt: for [`Session::prove`](crate::Session::prove).
    /// It takes milliseconds.
    #[must_use]
    pub fn derive_keys(&self, salt: &Salt) -> ScramKeys {
        let password = self.password.as_deref().unwrap_or_default();
        ScramKeys::derive(password.as_bytes(), salt)
    }
}

/// Return whether the server offers SCRAM without, and with channel binding.
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

/// Chooses the mechanism: with channel binding where both sides support it and the user allows it.
fn bind_channel(
    channel: Channel,
    offered: bool,
    wanted: Binding,
) -> Result<(&'static str, ChannelBinding), ProtocolError> {
    match (channel, wanted) {
        (Channel::Clear, _) if offered => Err(ProtocolError::BindingMissing(
            "the server offers it on an unencrypted connection; encryption may have been removed \
             in transit",
        )),
        (Channel::Clear, Binding::Require) => Err(ProtocolError::BindingMissing(
            "the connection is not encrypted",
        )),
        (Channel::Tls(Some(hash)), Binding::Prefer | Binding::Require) if offered => {
            Ok((SCRAM_SHA_256_PLUS, ChannelBinding::end_point(hash)))
        }
        (Channel::Tls(_), Binding::Require) if offered => Err(ProtocolError::BindingMissing(
            "the signature algorithm of the server's certificate defines no hash for it",
        )),
        (Channel::Tls(_), Binding::Require) => Err(ProtocolError::BindingMissing(
            "the server does not offer it",
        )),
        // Lets a server that did offer it detect that the offer was removed in transit.
        (Channel::Tls(Some(_)), Binding::Prefer) => {
            Ok((SCRAM_SHA_256, ChannelBinding::not_offered()))
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
