//! Cancel keys, and the request that contains one.

use bytes::{BufMut, BytesMut};

use crate::{ProtocolError, ProtocolVersion};

/// The key that a cancel request must contain.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BackendKey {
    /// Process ID of the server process.
    pub pid: i32,
    secret: Secret,
}

/// Four bytes in protocol 3.0, and there is one for each connection.
#[derive(Clone, PartialEq, Eq)]
enum Secret {
    Short([u8; 4]),
    Long(Box<[u8]>),
}

impl Default for Secret {
    fn default() -> Self {
        Self::Short([0; 4])
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(secret)")
    }
}

impl BackendKey {
    /// Reads the body of BackendKeyData.
    pub(crate) fn read(body: &[u8], version: ProtocolVersion) -> Result<Self, ProtocolError> {
        const MALFORMED: ProtocolError = ProtocolError::Malformed { tag: b'K' };
        let (pid, secret) = body.split_first_chunk::<4>().ok_or(MALFORMED)?;
        let secret = match (<[u8; 4]>::try_from(secret), version) {
            (Ok(secret), _) => Secret::Short(secret),
            (Err(_), ProtocolVersion::V3_2) if (5..=256).contains(&secret.len()) => {
                Secret::Long(secret.into())
            }
            _ => return Err(MALFORMED),
        };
        Ok(Self {
            pid: i32::from_be_bytes(*pid),
            secret,
        })
    }

    fn secret(&self) -> &[u8] {
        match &self.secret {
            Secret::Short(secret) => secret,
            Secret::Long(secret) => secret,
        }
    }
}

/// Writes a cancel request, to be sent on a connection of its own.
pub fn write_cancel(key: &BackendKey, out: &mut BytesMut) {
    let secret = key.secret();
    // Length word, request code, process; a secret has at most 256 bytes.
    out.put_u32(12 + u32::try_from(secret.len()).unwrap_or(0));
    out.put_u32(80_877_102);
    out.put_i32(key.pid);
    out.put_slice(secret);
}
