//! The request for encryption before authentication, and the server's answer.

use bytes::{BufMut, BytesMut};

use crate::ProtocolError;

/// The channel that a session uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Channel {
    /// Not encrypted.
    Clear,
    /// TLS; with the hash of the server's certificate that SCRAM can be bound to (RFC 5929,
    /// tls-server-end-point), if its signature has one.
    Tls(Option<Box<[u8]>>),
}

/// The server's answer to [`write_tls_request`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsAnswer {
    /// The TLS handshake may begin.
    Yes,
    /// The server does not encrypt; authentication may follow unencrypted.
    No,
}

/// Writes the request for TLS, the first thing on a connection.
pub fn write_tls_request(out: &mut BytesMut) {
    out.put_u32(8);
    out.put_u32(80_877_103);
}

/// Reads the answer to it: all that was received so far, and not nothing.
///
/// # Errors
/// The answer is not one of the two letters, or more data came with it. That data cannot be an
/// answer to anything, and unencrypted data must not be taken for encrypted.
pub fn read_tls_answer(received: &[u8]) -> Result<TlsAnswer, ProtocolError> {
    match received {
        b"S" => Ok(TlsAnswer::Yes),
        b"N" => Ok(TlsAnswer::No),
        [b'S' | b'N', ..] => Err(ProtocolError::DataBeforeEncryption),
        // It could have been injected in transit, so its text is not trustworthy.
        [b'E', ..] => Err(ProtocolError::EncryptionRefused),
        _ => Err(ProtocolError::EncryptionAnswer(
            received.first().copied().unwrap_or(0),
        )),
    }
}
