//! Arbitrary bytes from a web server, in pieces: what they say is the same however they are cut,
//! memory stays bounded, and no cookie or redirect gets a line of its own into a request. Used by
//! the fuzz target `http` and by tests.

use std::time::SystemTime;

use pgdyno_http::{Event, HEAD_BYTES_MAX, HttpError, Jar, Origin, Reader};

/// Checks a stream whose first two bytes choose the request and the size of the pieces.
pub fn check(input: &[u8]) {
    let Some((&[choice, piece], stream)) = input.split_first_chunk::<2>() else {
        return;
    };
    let whole = outcome(choice, stream, stream.len().max(1));
    let pieces = outcome(choice, stream, usize::from(piece).max(1));
    assert_eq!(whole, pieces);
}

/// Everything that a response says, as text.
fn outcome(choice: u8, stream: &[u8], piece_bytes: usize) -> Vec<String> {
    let origin = Origin {
        secure: choice & 2 != 0,
        host: "shop.example".into(),
        port: 8080,
    };
    let (mut reader, mut jar, mut target) = (Reader::new(), Jar::default(), b"/a/b?c".to_vec());
    reader.expect(choice & 1 != 0);
    let (mut seen, mut body) = (Vec::new(), Vec::new());
    for bytes in stream.chunks(piece_bytes) {
        let mut reading = reader.read(bytes);
        loop {
            match reading.event() {
                Ok(Some(Event::Head(head))) => {
                    for (name, value) in head.headers() {
                        if name.eq_ignore_ascii_case(b"set-cookie") {
                            jar.set(value, &origin.host, &target, SystemTime::UNIX_EPOCH);
                        }
                        if name.eq_ignore_ascii_case(b"location") {
                            let here = origin.follow(value, &mut target);
                            assert!(!here || target.starts_with(b"/"));
                        }
                    }
                    let mut cookies = Vec::new();
                    jar.write(&target, false, SystemTime::UNIX_EPOCH, &mut cookies);
                    assert!(!cookies[..cookies.len().saturating_sub(2)].contains(&b'\n'));
                    seen.push(format!("{} {target:?} {cookies:?}", head.status));
                }
                Ok(Some(Event::Body(bytes))) => body.extend_from_slice(bytes),
                Ok(Some(Event::End { keep_alive })) => seen.push(format!("{body:?} {keep_alive}")),
                Ok(None) => break,
                Err(error) => {
                    seen.push(format!("{body:?} {}", kind(error)));
                    return seen;
                }
            }
        }
        drop(reading);
        assert!(reader.partial_bytes() <= HEAD_BYTES_MAX + piece_bytes);
    }
    seen.push(format!("{body:?} {:?}", reader.end()));
    seen
}

/// The part of a response that is wrong. A head that is both malformed and too long is the one or the
/// other, as the pieces come.
fn kind(error: HttpError) -> String {
    match error {
        HttpError::NotHttp
        | HttpError::Head(_)
        | HttpError::HeadTooLong
        | HttpError::TooManyHeaders => "the head".to_owned(),
        HttpError::Chunk | HttpError::TrailersTooLong => "the chunks".to_owned(),
        error => error.to_string(),
    }
}
