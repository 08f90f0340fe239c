//! What a server can do wrong, and what a log-in can lack.

use std::fmt;

/// The connection cannot be used any further.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProtocolError {
    /// A message says that it is shorter or longer than one of its type can be.
    Length {
        /// The message's type byte.
        tag: u8,
        /// What its length word says.
        length: u32,
    },
    /// A type byte that no server message has.
    UnknownMessage(u8),
    /// A message that may not come now.
    Unexpected {
        /// The message's type byte.
        tag: u8,
        /// What the connection was doing.
        during: &'static str,
    },
    /// A message's content does not follow its type's layout.
    Malformed {
        /// The message's type byte.
        tag: u8,
    },
    /// The server wants a password and none is known.
    PasswordMissing,
    /// The server asks for a way to log in that is not supported.
    AuthenticationUnsupported(&'static str),
    /// The server failed to prove in the SCRAM exchange that it knows the password, or broke it off.
    ServerNotAuthentic(String),
    /// The log-in was to be bound to its TLS connection, and is not: why.
    BindingMissing(&'static str),
    /// `require_auth` does not allow what the server asks for.
    MethodRefused(&'static str),
    /// The server speaks another version than was asked for.
    VersionUnknown(u32),
    /// The server speaks only a version older than the least.
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
                write!(f, "the server did not complete the SCRAM log-in: {why}")
            }
            Self::BindingMissing(why) => {
                write!(f, "the log-in cannot be bound to the encrypted connection: {why}")
            }
            Self::MethodRefused("none") => f.write_str(
                "the server let us in without asking for anything, which require_auth does not allow",
            ),
            Self::MethodRefused(method) => write!(
                f,
                "the server asks for {method} authentication, which require_auth does not allow"
            ),
            Self::VersionUnknown(number) => write!(
                f,
                "the server wants to speak version {}.{} of the protocol, which nobody asked for",
                number >> 16,
                number & 0xffff
            ),
            Self::VersionTooOld => f.write_str(
                "the server speaks only version 3.0 of the protocol, below min_protocol_version",
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
                "unencrypted data came with the answer to the request for encryption, as if \
                 somebody between had put it there",
            ),
            Self::CopyInPipeline => f.write_str(
                "COPY FROM STDIN cannot be executed together with other statements in a pipeline",
            ),
            Self::Unsendable(why) => write!(f, "cannot be sent: {why}"),
        }
    }
}

impl std::error::Error for ProtocolError {}

/// What kind of message the server sent, and its type byte.
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
