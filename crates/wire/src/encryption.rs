//! Asking for encryption before the log-in, and what the server says to that.

use bytes::{BufMut, BytesMut};

use crate::ProtocolError;

/// What a session runs on.
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
    /// The server does not encrypt; the log-in may follow in the clear.
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
/// Something else than one of the two letters; or more came with it. Nobody can have sent that as
/// an answer to something, and what was not encrypted must not be taken for what is.
pub fn read_tls_answer(received: &[u8]) -> Result<TlsAnswer, ProtocolError> {
    match received {
        b"S" => Ok(TlsAnswer::Yes),
        b"N" => Ok(TlsAnswer::No),
        [b'S' | b'N', ..] => Err(ProtocolError::DataBeforeEncryption),
        // Whoever is in between could have written it: its text is nobody's word.
        [b'E', ..] => Err(ProtocolError::EncryptionRefused),
        _ => Err(ProtocolError::EncryptionAnswer(
            received.first().copied().unwrap_or(0),
        )),
    }
}
