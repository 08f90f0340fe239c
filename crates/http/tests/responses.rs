//! The reader against arbitrary splits of a stream and arbitrary bytes.

use pgdyno_http::{Event, HEAD_BYTES_MAX, HttpError, Reader};
use proptest::prelude::*;

/// Everything that a response said.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    statuses: Vec<u16>,
    headers: Vec<(Vec<u8>, Vec<u8>)>,
    bodies: Vec<Vec<u8>>,
    kept: Vec<bool>,
}

/// The reader's account of `requests` (true: HEAD) whose responses come in these pieces; with what
/// was wrong at last, if anything.
fn read_all(pieces: &[&[u8]], requests: &[bool]) -> (Said, Option<HttpError>) {
    let (mut said, mut reader) = (Said::default(), Reader::new());
    let mut requests = requests.iter();
    let mut expect = |reader: &mut Reader| {
        if let Some(to_head) = requests.next() {
            reader.expect(*to_head);
        }
    };
    expect(&mut reader);
    for piece in pieces {
        let mut piece = *piece;
        // A response ends where it ends, and the next is expected from there.
        while !piece.is_empty() {
            let (length, outcome) = read_one(&mut reader, piece, &mut said);
            match outcome {
                Err(error) => return (said, Some(error)),
                Ok(true) => expect(&mut reader),
                Ok(false) => {}
            }
            piece = &piece[length..];
        }
    }
    let error = match reader.end() {
        Ok(complete) => {
            if complete {
                said.kept.push(false);
            }
            None
        }
        Err(error) => Some(error),
    };
    (said, error)
}

/// Reads a byte at a time after the first response of a piece has ended, which is how long it was.
fn read_one(
    reader: &mut Reader,
    piece: &[u8],
    said: &mut Said,
) -> (usize, Result<bool, HttpError>) {
    let mut ended = false;
    for (used, byte) in piece.iter().enumerate() {
        let mut reading = reader.read(std::slice::from_ref(byte));
        loop {
            match reading.event() {
                Ok(Some(Event::Head(head))) => {
                    said.statuses.push(head.status);
                    said.headers
                        .extend(head.headers().map(|(n, v)| (n.to_vec(), v.to_vec())));
                    said.bodies.push(vec![]);
                }
                Ok(Some(Event::Body(bytes))) => {
                    said.bodies
                        .last_mut()
                        .expect("a head came")
                        .extend_from_slice(bytes);
                }
                Ok(Some(Event::End { keep_alive })) => {
                    said.kept.push(keep_alive);
                    ended = true;
                    break;
                }
                Ok(None) => break,
                Err(error) => return (used, Err(error)),
            }
        }
        if ended {
            return (used + 1, Ok(true));
        }
    }
    (piece.len(), Ok(false))
}

/// Content of one response, in whole pieces.
fn read_pieces(pieces: &[&[u8]], to_head: bool) -> (Said, Option<HttpError>) {
    let (mut said, mut reader) = (Said::default(), Reader::new());
    reader.expect(to_head);
    for piece in pieces {
        let mut reading = reader.read(piece);
        loop {
            match reading.event() {
                Ok(Some(Event::Head(head))) => {
                    said.statuses.push(head.status);
                    said.headers
                        .extend(head.headers().map(|(n, v)| (n.to_vec(), v.to_vec())));
                    said.bodies.push(vec![]);
                }
                Ok(Some(Event::Body(bytes))) => {
                    said.bodies
                        .last_mut()
                        .expect("a head came")
                        .extend_from_slice(bytes);
                }
                Ok(Some(Event::End { keep_alive })) => said.kept.push(keep_alive),
                Ok(None) => break,
                Err(error) => return (said, Some(error)),
            }
        }
    }
    assert!(
        reader.partial_bytes()
            <= HEAD_BYTES_MAX + pieces.iter().map(|p| p.len()).max().unwrap_or(0)
    );
    let error = reader.end().map(|complete| {
        if complete {
            said.kept.push(false);
        }
    });
    (said, error.err())
}

fn cut<'a>(stream: &'a [u8], at: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut at: Vec<usize> = at
        .iter()
        .map(|index| index.index(stream.len() + 1))
        .collect();
    at.extend([0, stream.len()]);
    at.sort_unstable();
    at.windows(2)
        .map(|pair| &stream[pair[0]..pair[1]])
        .collect()
}

/// A body, written in chunks of these sizes with what may stand around them.
fn chunked(body: &[u8], sizes: &[usize], extension: &str, trailer: &str) -> Vec<u8> {
    let (mut written, mut rest) = (Vec::new(), body);
    for size in sizes.iter().chain([&usize::MAX]) {
        let (chunk, after) = rest.split_at((*size).min(rest.len()));
        if !chunk.is_empty() {
            written.extend_from_slice(format!("{:x}{extension}\r\n", chunk.len()).as_bytes());
            written.extend_from_slice(chunk);
            written.extend_from_slice(b"\r\n");
        }
        rest = after;
    }
    written.extend_from_slice(format!("0\r\n{trailer}\r\n").as_bytes());
    written
}

/// A response with this body, framed in one of the ways that there are: its bytes.
fn response(body: &[u8], sizes: &[usize], way: u8) -> Vec<u8> {
    let mut bytes = b"HTTP/1.1 200 OK\r\nX-Name:  a value \r\n".to_vec();
    match way % 3 {
        0 => {
            bytes.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
            bytes.extend_from_slice(body);
        }
        1 => {
            bytes.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
            bytes.extend_from_slice(&chunked(body, sizes, ";a=\"b\"", "Sum: 1\r\n"));
        }
        _ => {
            bytes.extend_from_slice(b"\r\n");
            bytes.extend_from_slice(body);
        }
    }
    bytes
}

proptest! {
    #[test]
    fn any_split_gives_the_same_response(
        body in prop::collection::vec(any::<u8>(), 0..300),
        sizes in prop::collection::vec(1_usize..100, 0..5),
        at in prop::collection::vec(any::<prop::sample::Index>(), 0..30),
        way: u8,
    ) {
        let stream = response(&body, &sizes, way);
        let (said, error) = read_pieces(&cut(&stream, &at), false);
        prop_assert_eq!(error, None);
        prop_assert_eq!(said.statuses, [200]);
        prop_assert_eq!(&said.headers[0], &(b"X-Name".to_vec(), b"a value".to_vec()));
        prop_assert_eq!(&said.bodies[0], &body);
        prop_assert_eq!(said.kept, [way % 3 != 2]);
    }

    #[test]
    fn responses_follow_one_another(
        bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 1..5),
        interim: bool,
    ) {
        let mut stream = Vec::new();
        for (number, body) in bodies.iter().enumerate() {
            if interim {
                stream.extend_from_slice(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
            }
            stream.extend_from_slice(&response(body, &[7], u8::from(number % 2 == 1)));
        }
        let requests = vec![false; bodies.len()];
        let (said, error) = read_all(&[&stream], &requests);
        prop_assert_eq!(error, None);
        prop_assert_eq!(said.bodies, bodies);
    }

    #[test]
    fn a_response_that_is_cut_off_is_truncated(
        body in prop::collection::vec(any::<u8>(), 1..300),
        at: prop::sample::Index,
        way in 0_u8..2,
    ) {
        let stream = response(&body, &[100], way);
        let end = at.index(stream.len());
        let (_, error) = read_pieces(&[&stream[..end]], false);
        let wanted = if end == 0 { HttpError::NoResponse } else { HttpError::Truncated };
        prop_assert_eq!(error, Some(wanted));
    }

    #[test]
    fn arbitrary_bytes_neither_panic_nor_depend_on_the_split(
        start in prop::sample::select(vec![
            "", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.0 404\r\n\r\n",
        ]),
        rest in prop::collection::vec(prop_oneof![
            any::<u8>(), prop::sample::select(b"\r\n:;0129af".to_vec()),
        ], 0..200),
        at in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
        to_head: bool,
    ) {
        let stream = [start.as_bytes(), &rest].concat();
        let whole = read_pieces(&[&stream], to_head);
        prop_assert_eq!(read_pieces(&cut(&stream, &at), to_head), whole);
    }
}

fn one(stream: &str) -> (Said, Option<HttpError>) {
    read_pieces(&[stream.as_bytes()], false)
}

#[test]
fn connections_are_kept_as_the_head_says() {
    let kept = |head: &str| one(&format!("{head}Content-Length: 0\r\n\r\n")).0.kept;
    assert_eq!(kept("HTTP/1.1 200 OK\r\n"), [true]);
    assert_eq!(kept("HTTP/1.1 200 OK\r\nConnection: close\r\n"), [false]);
    assert_eq!(
        kept("HTTP/1.1 200 OK\r\nconnection: foo, Close\r\n"),
        [false]
    );
    assert_eq!(kept("HTTP/1.0 200 OK\r\n"), [false]);
    assert_eq!(
        kept("HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n"),
        [true]
    );
    // Who says where the response ends in two ways is not asked again.
    assert_eq!(
        one("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
            .0
            .kept,
        [false]
    );
}

#[test]
fn responses_without_a_body_have_none() {
    for status in ["204 No Content", "304 Not Modified"] {
        let (said, error) = one(&format!("HTTP/1.1 {status}\r\nContent-Length: 9\r\n\r\n"));
        assert_eq!((said.kept, error), (vec![true], None));
    }
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n";
    let (said, error) = read_pieces(&[head], true);
    assert_eq!((said.kept, error), (vec![true], None));
}

#[test]
fn what_is_no_response_is_refused() {
    let refused = |stream: &str| one(stream).1;
    assert_eq!(refused("SSH-2.0-OpenSSH_9.2\r\n"), Some(HttpError::NotHttp));
    assert_eq!(refused("HTTP/2 200\r\n\r\n"), Some(HttpError::NotHttp));
    let ok = "HTTP/1.1 200 OK\r\n";
    for length in [
        "-1",
        "1, 2",
        "",
        "1x",
        "99999999999999999999",
        "1\r\nContent-Length: 2",
    ] {
        let stream = format!("{ok}Content-Length: {length}\r\n\r\n");
        assert_eq!(refused(&stream), Some(HttpError::Length), "{length}");
    }
    assert_eq!(refused(&format!("{ok}Content-Length: 1, 1\r\n\r\nx")), None);
    for chunk in [
        "x\r\n",
        "\r\n",
        "1\r\nab\r\n",
        "ffffffffffffffff\r\n",
        "-1\r\n",
    ] {
        let stream = format!("{ok}Transfer-Encoding: chunked\r\n\r\n{chunk}");
        assert_eq!(refused(&stream), Some(HttpError::Chunk), "{chunk}");
    }
    let long = "x".repeat(HEAD_BYTES_MAX);
    assert_eq!(
        refused(&format!("{ok}A: {long}\r\n")),
        Some(HttpError::HeadTooLong)
    );
    let many = "A: b\r\n".repeat(200);
    assert_eq!(
        refused(&format!("{ok}{many}\r\n")),
        Some(HttpError::TooManyHeaders)
    );
    assert_eq!(
        refused(&format!("{ok}no header\r\n\r\n")).map(|e| matches!(e, HttpError::Head(_))),
        Some(true)
    );
    assert_eq!(
        refused(&format!("{ok}Content-Length: 1\r\n\r\nabc")),
        Some(HttpError::Unasked)
    );
    let endless = format!(
        "{ok}Transfer-Encoding: chunked\r\n\r\n0\r\n{}",
        "a: b\r\n".repeat(20_000)
    );
    assert_eq!(refused(&endless), Some(HttpError::TrailersTooLong));
}
