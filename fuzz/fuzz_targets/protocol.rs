//! Arbitrary bytes from a server, in arbitrary pieces, at authentication and afterwards: nothing
//! panics,
//! nothing hangs, memory stays bounded, and the split makes no difference.
//!
//! The first two bytes of an input choose the state and the size of the pieces.

#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use pgdyno_wire::{
    Binding, Channel, Event, Identity, Message, ProtocolVersion, Scanner, Session, TlsAnswer,
    read_tls_answer,
};

fuzz_target!(|input: &[u8]| {
    let Some((&[choice, piece], stream)) = input.split_first_chunk::<2>() else {
        return;
    };
    let whole = outcome(choice, stream, stream.len().max(1));
    let pieces = outcome(choice, stream, usize::from(piece).max(1));
    assert_eq!(whole, pieces);
});

/// The result of a connection that reads the stream, as text.
fn outcome(choice: u8, stream: &[u8], piece_bytes: usize) -> Vec<String> {
    let identity = Identity {
        user: "user".into(),
        database: "database".into(),
        password: (choice & 1 != 0).then(|| "password".into()),
        // Asked with the bits that count the cycles of a connection that is authenticated already.
        version: if choice & 16 != 0 {
            ProtocolVersion::V3_2
        } else {
            ProtocolVersion::V3_0
        },
        binding: if choice & 32 != 0 {
            Binding::Require
        } else {
            Binding::Prefer
        },
        ..Identity::default()
    };
    let (channel, stream) = match choice & 12 {
        // The answer to the request for encryption is the stream's first byte.
        8 => match read_tls_answer(&stream[..stream.len().min(1)]) {
            Ok(TlsAnswer::Yes) => (Channel::Tls(Some([7; 32].into())), &stream[1..]),
            Ok(TlsAnswer::No) => (Channel::Clear, &stream[1..]),
            Err(error) => return vec![error.to_string()],
        },
        _ => (Channel::Clear, stream),
    };
    let mut out = BytesMut::new();
    let Ok(mut session) = Session::start(&identity, channel, &mut out) else {
        return vec![];
    };
    let mut scanner = Scanner::new();
    scanner.keep_rows(choice & 2 != 0);
    let mut seen = Vec::new();
    if choice & 4 != 0 {
        for (tag, body) in [(b'R', &[0, 0, 0, 0][..]), (b'Z', b"I")] {
            let _ = session.receive(Message { tag, body }, &identity, &mut out);
        }
        for _ in 0..u32::from(choice >> 4) {
            let _ = session.execute(&mut out);
            session.sync(&mut out);
        }
    }
    for bytes in stream.chunks(piece_bytes) {
        let mut scan = scanner.scan(bytes);
        loop {
            let message = match scan.message() {
                Ok(Some(message)) => message,
                Ok(None) => break,
                Err(error) => {
                    seen.push(error.to_string());
                    return seen;
                }
            };
            out.clear();
            match session.receive(message, &identity, &mut out) {
                Ok(event) => {
                    seen.push(describe(event));
                    // Of many iterations nothing else would be learnt.
                    if let Some(salt) = session.salt().filter(|salt| salt.iterations.get() < 100) {
                        let keys = identity.derive_keys(salt);
                        let _ = session.prove(&keys, &mut out);
                    }
                    // Also says whether the session still copies.
                    if choice & 8 != 0 {
                        let _ = session.copy_data(b"1\n", &mut out);
                        session.copy_done(&mut out);
                    }
                }
                Err(error) => {
                    seen.push(error.to_string());
                    return seen;
                }
            }
        }
    }
    assert!(scanner.partial_bytes() <= stream.len());
    seen
}

fn describe(event: Event<'_>) -> String {
    match event {
        Event::Columns(mut columns) => {
            let mut names = vec![];
            while let Ok(Some(name)) = columns.name() {
                names.push(name.to_owned());
            }
            format!("{names:?}")
        }
        Event::Row(Some(mut row)) => {
            let mut values = vec![];
            while let Ok(Some(value)) = row.value() {
                values.push(value.map(<[u8]>::to_vec));
            }
            format!("{values:?}")
        }
        Event::ParameterTypes(types) => format!("{:?}", types.oids().collect::<Vec<_>>()),
        other => format!("{other:?}"),
    }
}
