//! Streams of hostile web servers, made of what means something in HTTP and of any bytes. With
//! `PROPTEST_CASES=300000 PROPTEST_RNG_SEED=7` it runs for minutes.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

mod outcome;

/// Parts of streams, right and wrong.
const PARTS: &[&str] = &[
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.0 302 Found\r\n",
    "HTTP/1.1 100 Continue\r\n\r\n",
    "HTTP/1.1 204 No Content\r\n",
    "HTTP/1.1 999 \r\n",
    "HTTP/2 200\r\n",
    "Content-Length: 5\r\n",
    "Content-Length: 5, 5\r\n",
    "Content-Length: 18446744073709551616\r\n",
    "Content-Length: -1\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: gzip, chunked\r\n",
    "transfer-encoding:chunked\r\n",
    "Connection: close\r\n",
    "Connection: keep-alive, Upgrade\r\n",
    "Set-Cookie: a=b; Path=/a; Max-Age=5\r\n",
    "Set-Cookie: =; Expires=never; Domain=.example\r\n",
    "Set-Cookie: a=\x01; Max-Age=-9223372036854775809\r\n",
    "Location: ../../x?y#z\r\n",
    "Location: //shop.example:8080/\r\n",
    "Location: http://shop.example:80808/\r\n",
    "Location: ?\r\n",
    " folded\r\n",
    ": no name\r\n",
    "\r\n",
    "\n",
    "\r",
    "5\r\n",
    "0\r\n",
    "5;extension=\"x\"\r\n",
    "00000000000000005\r\n",
    "ffffffffffffffff\r\n",
    "hello",
    "Trailer: x\r\n",
];

fn part() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        12 => (0..PARTS.len()).prop_map(|number| PARTS[number].as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..40),
        1 => (any::<u8>(), 0..70_000_usize).prop_map(|(byte, length)| vec![byte; length]),
    ]
}

/// The same streams every time, unless `PROPTEST_RNG_SEED` asks for others.
fn config() -> ProptestConfig {
    let config = ProptestConfig::default();
    match config.rng_seed {
        RngSeed::Random => ProptestConfig {
            rng_seed: RngSeed::Fixed(1),
            ..config
        },
        RngSeed::Fixed(_) => config,
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn streams_say_the_same_however_they_are_cut(
        start: [u8; 2],
        parts in prop::collection::vec(part(), 0..14),
    ) {
        outcome::check(&[&start[..], &parts.concat()].concat());
    }

    #[test]
    fn right_responses_with_a_byte_changed_are_read_to_an_end(
        start: [u8; 2],
        begins in 0_usize..4,
        parts in prop::collection::vec(part(), 1..8),
        at: prop::sample::Index,
        byte: u8,
    ) {
        let mut stream = [&start[..], PARTS[begins].as_bytes(), &parts.concat()].concat();
        let at = at.index(stream.len());
        stream[at] = byte;
        outcome::check(&stream);
    }
}

#[test]
fn the_corpus_is_read() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/http");
    let mut files = 0;
    for file in std::fs::read_dir(corpus).expect("a directory") {
        let content = std::fs::read(file.expect("a file").path()).expect("its content");
        outcome::check(&content);
        files += 1;
    }
    assert!(files > 0);
}
