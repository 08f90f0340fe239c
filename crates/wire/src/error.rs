//! Errors of a connection: protocol violations by the server, and failed authentication.

use std::fmt;

/// The connection cannot be used any further.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProtocolError {
    /// A message says that it is shorter or longer than one of its type can be.
    Length {
        /// The message's type byte.
        tag: u8,
        /// Its length word.
        length: u32,
    },
    /// A type byte that no server message has.
    UnknownMessage(u8),
    /// A message that may not come now.
    Unexpected {
        /// The message's type byte.
        tag: u8,
        /// State of the connection.
        during: &'static str,
    },
    /// A message's content does not follow its type's layout.
    Malformed {
        /// The message's type byte.
        tag: u8,
    },
    /// The server requires a password and none is known.
    PasswordMissing,
    /// The server requests an authentication method that is not supported.
    AuthenticationUnsupported(&'static str),
    /// The server failed to prove in the SCRAM exchange that it knows the password, or broke it off.
    ServerNotAuthentic(String),
    /// Channel binding was required and is not possible, with the reason.
    BindingMissing(&'static str),
    /// `require_auth` does not allow what the server asks for.
    MethodRefused(&'static str),
    /// The server selected a protocol version that was not requested.
    VersionUnknown(u32),
    /// The server supports only versions below the minimum.
    VersionTooOld,
    /// The server answered with an error to the request for TLS.
    EncryptionRefused,
    /// No answer to the request for TLS.
    EncryptionAnswer(u8),
    /// The server sent more than the answer to the request for TLS.
    DataBeforeEncryption,
    /// COPY FROM STDIN, and more statements were sent behind it already.
    CopyInPipeline,
    /// Something to be sent cannot be put into a message (a zero byte, or too long).
    Unsendable(String),
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { tag, length } => {
                let sent = Sent("a message of", *tag);
                write!(f, "{sent} with the impossible length {length}")
            }
            Self::UnknownMessage(tag) => Sent("a message of the unknown", *tag).fmt(f),
            Self::Unexpected { tag, during } => {
                write!(f, "{} during {during}", Sent("a message of", *tag))
            }
            Self::Malformed { tag } => Sent("a malformed message of", *tag).fmt(f),
            Self::PasswordMissing => {
                f.write_str("the server asks for a password and none was given")
            }
            Self::AuthenticationUnsupported(method) => {
                write!(
                    f,
                    "the server asks for {method} authentication, which is not supported"
                )
            }
            Self::ServerNotAuthentic(why) => {
                write!(f, "the server did not complete SCRAM authentication: {why}")
            }
            Self::BindingMissing(why) => {
                write!(f, "channel binding is not possible: {why}")
            }
            Self::MethodRefused("none") => f.write_str(
                "the server accepted the connection without authentication, which require_auth \
                 does not allow",
            ),
            Self::MethodRefused(method) => write!(
                f,
                "the server asks for {method} authentication, which require_auth does not allow"
            ),
            Self::VersionUnknown(number) => write!(
                f,
                "the server selected protocol version {}.{}, which was not requested",
                number >> 16,
                number & 0xffff
            ),
            Self::VersionTooOld => f.write_str(
                "the server supports only protocol version 3.0, below min_protocol_version",
            ),
            Self::EncryptionRefused => {
                f.write_str("the server answered the request for encryption with an error")
            }
            Self::EncryptionAnswer(byte) => write!(
                f,
                "the server answered the request for encryption with {}",
                Tag(*byte)
            ),
            Self::DataBeforeEncryption => f.write_str(
                "received unencrypted data with the answer to the request for encryption; it may \
                 have been injected in transit",
            ),
            Self::CopyInPipeline => f.write_str(
                "COPY FROM STDIN cannot be executed together with other statements in a pipeline",
            ),
            Self::Unsendable(why) => write!(f, "cannot be sent: {why}"),
        }
    }
}

impl std::error::Error for ProtocolError {}

/// The error of a message that could not be written.
pub(crate) fn unsendable(error: std::io::Error) -> ProtocolError {
    ProtocolError::Unsendable(error.to_string())
}

/// A kind of message from the server, and its type byte.
struct Sent(&'static str, u8);

impl fmt::Display for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server sent {} type {}", self.0, Tag(self.1))
    }
}

/// Prints a type byte as a character where it is one.
struct Tag(u8);

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_ascii_graphic() {
            write!(f, "'{}'", char::from(self.0))
        } else {
            write!(f, "0x{:02x}", self.0)
        }
    }
}
