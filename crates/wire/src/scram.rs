//! SCRAM-SHA-256 (RFC 5802 and 7677) with keys that can be kept.
//!
//! Keys are derived from the password, the server's salt and its iteration count, which takes
//! milliseconds. A client that connects again with the same three needs no new ones (RFC 5802,
//! section 5.1), and whoever drives the connection decides where they are derived:
//! an [`Exchange`] names the [`Salt`] that it needs keys for and waits.

use std::fmt;
use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::BytesMut;
use postgres_protocol::message::frontend;
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac, pbkdf2};
use zeroize::{Zeroize, Zeroizing};

use crate::ProtocolError;
use crate::error::unsendable;

const NONCE_BYTES: usize = 18;
const KEY_BYTES: usize = digest::SHA256_OUTPUT_LEN;
/// A server that asks for more keeps its client busy with nothing; PostgreSQL's default is 4,096.
const ITERATIONS_MAX: u32 = 100_000;

/// An addition of the server to the password before keys are derived from it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Salt {
    /// Random bytes, stored with the role.
    pub bytes: Box<[u8]>,
    /// Times that the hash is iterated.
    pub iterations: NonZeroU32,
}

/// The keys of one password with one salt.
pub struct ScramKeys {
    client: [u8; KEY_BYTES],
    server: [u8; KEY_BYTES],
}

impl ScramKeys {
    /// Derives them, which takes as long as the salt's iterations do.
    #[must_use]
    pub fn derive(password: &[u8], salt: &Salt) -> Self {
        let mut salted = Zeroizing::new([0; KEY_BYTES]);
        let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
        let password = normalize(password);
        pbkdf2::derive(
            algorithm,
            salt.iterations,
            &salt.bytes,
            &password,
            &mut *salted,
        );
        Self {
            client: sign(&*salted, b"Client Key"),
            server: sign(&*salted, b"Server Key"),
        }
    }
}

impl Drop for ScramKeys {
    fn drop(&mut self) {
        self.client.zeroize();
        self.server.zeroize();
    }
}

impl fmt::Debug for ScramKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScramKeys")
    }
}

/// SASLprep, or the password as it is where that does not apply: so does PostgreSQL.
fn normalize(password: &[u8]) -> Zeroizing<Vec<u8>> {
    let prepared = std::str::from_utf8(password)
        .ok()
        .and_then(|text| stringprep::saslprep(text).ok());
    Zeroizing::new(prepared.map_or_else(|| password.to_vec(), |it| it.into_owned().into_bytes()))
}

/// Binding of the exchange to TLS: the header that states it, and its data.
pub(crate) struct ChannelBinding {
    header: &'static str,
    data: Box<[u8]>,
}

impl ChannelBinding {
    /// The client cannot.
    pub(crate) fn unsupported() -> Self {
        Self::unbound("n,,")
    }

    /// The client can, and the server did not offer it.
    pub(crate) fn not_offered() -> Self {
        Self::unbound("y,,")
    }

    /// To the hash of the server's certificate.
    pub(crate) fn end_point(hash: Box<[u8]>) -> Self {
        Self {
            header: "p=tls-server-end-point,,",
            data: hash,
        }
    }

    fn unbound(header: &'static str) -> Self {
        Self {
            header,
            data: Box::default(),
        }
    }
}

/// An exchange that the client has begun.
pub(crate) struct Exchange {
    nonce: String,
    binding: ChannelBinding,
}

impl Exchange {
    /// Writes the client's first message, for this mechanism.
    pub(crate) fn begin(
        mechanism: &str,
        binding: ChannelBinding,
        out: &mut BytesMut,
    ) -> Result<Self, ProtocolError> {
        let mut random = [0; NONCE_BYTES];
        SystemRandom::new()
            .fill(&mut random)
            .map_err(|_| ProtocolError::Unsendable("there are no random numbers".into()))?;
        let nonce = STANDARD.encode(random);
        let message = format!("{}n=,r={nonce}", binding.header);
        frontend::sasl_initial_response(mechanism, message.as_bytes(), out).map_err(unsendable)?;
        Ok(Self { nonce, binding })
    }

    /// Reads the server's challenge.
    pub(crate) fn challenge(self, message: &[u8]) -> Result<Challenge, ProtocolError> {
        let message = text(message)?;
        let mut parts = message.split(',');
        let nonce = value(parts.next(), "r=")?;
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err(not_authentic("its nonce does not continue the client's"));
        }
        let bytes = STANDARD
            .decode(value(parts.next(), "s=")?)
            .map_err(|_| not_authentic("its salt is not base64"))?;
        let iterations = value(parts.next(), "i=")?
            .parse()
            .map_err(|_| not_authentic("its iteration count is not a number above 0"))?;
        if iterations > ITERATIONS_MAX.try_into().unwrap_or(NonZeroU32::MAX) {
            return Err(not_authentic(&format!(
                "it asks for {iterations} iterations; at most {ITERATIONS_MAX} are executed"
            )));
        }
        let mut bound = self.binding.header.as_bytes().to_vec();
        bound.extend_from_slice(&self.binding.data);
        let answer = format!("c={},r={nonce}", STANDARD.encode(bound));
        Ok(Challenge {
            salt: Salt {
                bytes: bytes.into(),
                iterations,
            },
            signed: format!("n=,r={},{message},{answer}", self.nonce),
            answer,
        })
    }
}

/// The server's challenge, which waits for keys.
pub(crate) struct Challenge {
    /// Salt of the keys that it needs.
    pub(crate) salt: Salt,
    /// The text that both sides sign.
    signed: String,
    /// The client's final message, without the proof.
    answer: String,
}

impl Challenge {
    /// Writes the client's proof.
    pub(crate) fn prove(
        &self,
        keys: &ScramKeys,
        out: &mut BytesMut,
    ) -> Result<Expected, ProtocolError> {
        let stored = digest::digest(&digest::SHA256, &keys.client);
        let mut proof = sign(stored.as_ref(), self.signed.as_bytes());
        for (byte, key) in proof.iter_mut().zip(keys.client) {
            *byte ^= key;
        }
        let message = format!("{},p={}", self.answer, STANDARD.encode(proof));
        frontend::sasl_response(message.as_bytes(), out).map_err(unsendable)?;
        Ok(Expected {
            key: hmac::Key::new(hmac::HMAC_SHA256, &keys.server),
            signed: self.signed.clone(),
        })
    }
}

/// Text that the server must sign to be believed, and the key.
pub(crate) struct Expected {
    key: hmac::Key,
    signed: String,
}

impl Expected {
    /// Reads the server's own proof.
    pub(crate) fn check(&self, message: &[u8]) -> Result<(), ProtocolError> {
        let message = text(message)?;
        if let Some(error) = message.strip_prefix("e=") {
            return Err(not_authentic(error));
        }
        let signature = STANDARD
            .decode(value(message.split(',').next(), "v=")?)
            .map_err(|_| not_authentic("its proof is not base64"))?;
        hmac::verify(&self.key, self.signed.as_bytes(), &signature)
            .map_err(|_| not_authentic("its proof is wrong"))
    }
}

fn sign(key: &[u8], message: &[u8]) -> [u8; KEY_BYTES] {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message);
    let mut signature = [0; KEY_BYTES];
    signature.copy_from_slice(tag.as_ref());
    signature
}

fn text(message: &[u8]) -> Result<&str, ProtocolError> {
    std::str::from_utf8(message).map_err(|_| not_authentic("its message is not UTF-8"))
}

/// The value of an attribute, which must be this one.
fn value<'a>(part: Option<&'a str>, name: &str) -> Result<&'a str, ProtocolError> {
    part.and_then(|part| part.strip_prefix(name))
        .ok_or_else(|| not_authentic(&format!("its message lacks {name}")))
}

fn not_authentic(why: &str) -> ProtocolError {
    ProtocolError::ServerNotAuthentic(why.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn salt(bytes: &[u8], iterations: u32) -> Salt {
        Salt {
            bytes: bytes.into(),
            iterations: iterations.try_into().expect("above 0"),
        }
    }

    /// The exchange of RFC 7677, section 3, whose client names the user.
    #[test]
    fn the_example_of_the_rfc() {
        let salt = salt(
            &STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").expect("base64"),
            4096,
        );
        let challenge = Challenge {
            salt: salt.clone(),
            signed: "n=user,r=rOprNGfwEbeRWgbNEkqO,\
                     r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                     s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,\
                     c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
                .into(),
            answer: String::new(),
        };
        let mut out = BytesMut::new();
        let expected = challenge
            .prove(&ScramKeys::derive(b"pencil", &salt), &mut out)
            .expect("written");
        assert!(out.ends_with(b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="));
        let proof = |text: &str| expected.check(text.as_bytes());
        assert_eq!(
            proof("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="),
            Ok(())
        );
        assert!(proof("v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=").is_err());
        assert!(proof("e=invalid-proof").is_err());
        assert!(proof("").is_err());
    }

    proptest! {
        /// Keys are of one password, one salt and one iteration count, and of no others.
        #[test]
        fn other_input_has_other_keys(
            password in "[ -~]{1,12}", bytes in prop::collection::vec(any::<u8>(), 1..20),
            iterations in 1_u32..9, more in 1_u32..9, added: u8,
        ) {
            let mut longer = bytes.clone();
            longer.push(added);
            let keys = ScramKeys::derive(password.as_bytes(), &salt(&bytes, iterations));
            let same = ScramKeys::derive(password.as_bytes(), &salt(&bytes, iterations));
            prop_assert_eq!((same.client, same.server), (keys.client, keys.server));
            let others = [
                ScramKeys::derive(format!("{password}x").as_bytes(), &salt(&bytes, iterations)),
                ScramKeys::derive(password.as_bytes(), &salt(&longer, iterations)),
                ScramKeys::derive(password.as_bytes(), &salt(&bytes, iterations + more)),
            ];
            for other in others {
                prop_assert_ne!(other.client, keys.client);
                prop_assert_ne!(other.server, keys.server);
            }
        }

        #[test]
        fn no_challenge_panics(message in "[rsi]=[ -~]{0,20}(,s=[ -~]{0,9}(,i=[0-9]{0,12})?)?") {
            let exchange = Exchange { nonce: "n".into(), binding: ChannelBinding::unsupported() };
            let _ = exchange.challenge(message.as_bytes());
        }
    }

    #[test]
    fn iterations_are_limited() {
        for (iterations, good) in [
            ("1", true),
            ("100000", true),
            ("100001", false),
            ("4294967295", false),
            ("99999999999", false),
            ("0", false),
            ("-1", false),
        ] {
            let exchange = Exchange {
                nonce: "n".into(),
                binding: ChannelBinding::unsupported(),
            };
            let message = format!("r=nm,s=c2FsdA==,i={iterations}");
            assert_eq!(
                exchange.challenge(message.as_bytes()).is_ok(),
                good,
                "{iterations}"
            );
        }
    }
}
