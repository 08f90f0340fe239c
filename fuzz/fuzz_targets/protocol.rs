//! Arbitrary bytes from a server, in arbitrary pieces, at log-in and afterwards: nothing panics,
//! nothing hangs, memory stays bounded, and the split makes no difference.
//!
//! The first two bytes of an input choose the state and the size of the pieces.

#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use pgdyno_wire::{Event, Identity, Message, Scanner, Session};

fuzz_target!(|input: &[u8]| {
    let Some((&[choice, piece], stream)) = input.split_first_chunk::<2>() else {
        return;
    };
    let whole = outcome(choice, stream, stream.len().max(1));
    let pieces = outcome(choice, stream, usize::from(piece).max(1));
    assert_eq!(whole, pieces);
});

/// What a connection makes of the stream, in words.
fn outcome(choice: u8, stream: &[u8], piece_bytes: usize) -> Vec<String> {
    let identity = Identity {
        user: "user".into(),
        database: "database".into(),
        password: (choice & 1 != 0).then(|| "password".into()),
        parameters: vec![],
    };
    let mut out = BytesMut::new();
    let Ok(mut session) = Session::start(&identity, &mut out) else {
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
                Ok(event) => seen.push(describe(event)),
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
        other => format!("{other:?}"),
    }
}
