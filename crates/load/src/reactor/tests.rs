//! The two kinds of reactor do the same.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

use super::*;
use crate::sys::monotonic_ns;

/// A listening socket in the file system that goes away with it.
struct Server {
    listener: UnixListener,
    path: PathBuf,
}

impl Server {
    fn new(name: &str) -> Self {
        let id = std::process::id();
        let path = std::env::temp_dir().join(format!("pgdyno-reactor-{id}-{name}"));
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).expect("free");
        Self { listener, path }
    }

    fn accept(&self) -> UnixStream {
        self.listener.accept().expect("connected").0
    }

    fn stream(&self) -> Stream {
        Stream::Unix(mio::net::UnixStream::connect(&self.path).expect("listening"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A reactor of each kind that this system has.
fn each(name: &str, test: impl Fn(&mut Reactor, &Bell, &Server)) {
    for wanted in [Wanted::Mio, Wanted::IoUring] {
        let Ok((reactors, _)) = Reactor::for_threads(wanted, 1) else {
            assert_eq!(wanted, Wanted::IoUring, "mio is everywhere");
            continue;
        };
        for (mut reactor, bell) in reactors {
            reactor.settle().expect("allowed");
            test(&mut reactor, &bell, &Server::new(name));
        }
    }
}

/// For what hangs. A busy machine must not be taken for that.
const PATIENCE_NS: u64 = 300_000_000_000;

/// The next event; none if it does not come at all.
fn next(reactor: &mut Reactor, buffer: &mut [u8]) -> Option<Event> {
    let until_ns = monotonic_ns() + PATIENCE_NS;
    loop {
        if let Some(event) = reactor.next(buffer) {
            return Some(event);
        }
        if monotonic_ns() > until_ns {
            return None;
        }
        reactor.wait(Some(until_ns)).expect("there");
    }
}

fn connected(reactor: &mut Reactor, slot: usize, server: &Server) -> UnixStream {
    reactor.open(slot, server.stream()).expect("room");
    let event = next(reactor, &mut vec![0; RECEIVE_BYTES_MAX]);
    assert!(
        matches!(event, Some(Event::Connected(s, Ok(()))) if s == slot),
        "{event:?}"
    );
    server.accept()
}

/// Bytes that differ from their neighbours.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 + i / 251) as u8).collect()
}

#[test]
fn what_is_sent_arrives_and_what_arrives_is_told() {
    each("echo", |reactor, _, server| {
        let mut peer = connected(reactor, 3, server);
        let mut buffer = vec![0; RECEIVE_BYTES_MAX];
        for round in 0..100_u8 {
            reactor.send(3, &[round, 1]);
            reactor.send(3, &[2]);
            reactor.wait(Some(0)).expect("there");
            let mut got = [0; 3];
            peer.read_exact(&mut got).expect("sent");
            assert_eq!(got, [round, 1, 2]);
            peer.write_all(&[round; 9]).expect("open");
            match next(reactor, &mut buffer) {
                Some(Event::Received(3, 9)) => assert_eq!(buffer[..9], [round; 9]),
                other => panic!("{other:?}"),
            }
        }
    });
}

#[test]
fn what_the_socket_does_not_take_is_sent_later_in_order() {
    each("unsent", |reactor, _, server| {
        let mut peer = connected(reactor, 0, server);
        let bytes = pattern(3_000_000);
        for part in bytes.chunks(700_000) {
            reactor.send(0, part);
            reactor.wait(Some(0)).expect("there");
        }
        assert!(reactor.unsent_bytes(0) > 0);
        let reader = std::thread::spawn(move || {
            let mut got = vec![0; 3_000_000];
            peer.read_exact(&mut got).expect("sent");
            (peer, got)
        });
        let event = next(reactor, &mut vec![0; RECEIVE_BYTES_MAX]);
        assert!(matches!(event, Some(Event::Drained(0))), "{event:?}");
        assert_eq!(reactor.unsent_bytes(0), 0);
        let (mut peer, got) = reader.join().expect("read");
        assert!(got == bytes);
        reactor.send(0, b"after");
        reactor.wait(Some(0)).expect("there");
        let mut got = [0; 5];
        peer.read_exact(&mut got).expect("sent");
        assert_eq!(&got, b"after");
    });
}

#[test]
fn much_that_arrives_on_many_sockets_at_once_arrives_whole() {
    each("flood", |reactor, _, server| {
        let mut peers: Vec<_> = (0..20)
            .map(|slot| connected(reactor, slot, server))
            .collect();
        let bytes = pattern(200_000);
        let sent = bytes.clone();
        let writer = std::thread::spawn(move || {
            for part in sent.chunks(10_000) {
                for peer in &mut peers {
                    peer.write_all(part).expect("open");
                }
            }
        });
        let mut got = vec![Vec::new(); 20];
        let mut buffer = vec![0; RECEIVE_BYTES_MAX];
        let mut closed = 0;
        while closed < 20 {
            match next(reactor, &mut buffer) {
                Some(Event::Received(slot, count)) => {
                    got[slot].extend_from_slice(&buffer[..count]);
                }
                Some(Event::Closed(slot, None)) => {
                    reactor.close(slot, b"");
                    closed += 1;
                }
                other => panic!("{other:?}"),
            }
        }
        writer.join().expect("written");
        assert!(got.iter().all(|got| *got == bytes));
    });
}

#[test]
fn a_closed_place_is_silent_and_can_be_taken_again() {
    each("again", |reactor, _, server| {
        let mut buffer = vec![0; RECEIVE_BYTES_MAX];
        for _ in 0..50 {
            let mut old = connected(reactor, 1, server);
            old.write_all(b"never seen").expect("open");
            reactor.wait(Some(0)).expect("there");
            reactor.send(1, b"never sent");
            reactor.close(1, b"");
            let mut new = connected(reactor, 1, server);
            new.write_all(b"new").expect("open");
            match next(reactor, &mut buffer) {
                Some(Event::Received(1, 3)) => assert_eq!(&buffer[..3], b"new"),
                other => panic!("{other:?}"),
            }
            reactor.close(1, b"bye");
            let mut rest = Vec::new();
            new.read_to_end(&mut rest).expect("closed");
            assert_eq!(rest, b"bye");
        }
    });
}

#[test]
fn the_end_of_a_connection_is_told_after_its_last_words() {
    each("end", |reactor, _, server| {
        let mut peer = connected(reactor, 7, server);
        peer.write_all(b"last words").expect("open");
        drop(peer);
        let mut buffer = vec![0; RECEIVE_BYTES_MAX];
        reactor.send(7, b"too late");
        let event = next(reactor, &mut buffer);
        assert!(matches!(event, Some(Event::Received(7, 10))), "{event:?}");
        let event = next(reactor, &mut buffer);
        assert!(matches!(event, Some(Event::Closed(7, _))), "{event:?}");
    });
}

#[test]
fn an_end_right_behind_data_is_not_missed() {
    each("behind", |reactor, _, server| {
        let mut buffer = vec![0; RECEIVE_BYTES_MAX];
        for round in 0..300 {
            let mut peer = connected(reactor, 0, server);
            let closer = std::thread::spawn(move || {
                peer.write_all(&[7; 40]).expect("open");
            });
            let mut got = 0;
            loop {
                match next(reactor, &mut buffer) {
                    Some(Event::Received(0, count)) => got += count,
                    Some(Event::Closed(0, None)) => break,
                    other => panic!("round {round}: {other:?} after {got} bytes"),
                }
            }
            assert_eq!(got, 40);
            closer.join().expect("closed");
            reactor.close(0, b"");
        }
    });
}

#[test]
fn a_refused_connection_is_told() {
    each("refused", |reactor, _, _| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("free");
        let address = listener.local_addr().expect("bound");
        drop(listener);
        let stream = mio::net::TcpStream::connect(address).expect("begun");
        reactor.open(2, Stream::Tcp(stream)).expect("room");
        let event = next(reactor, &mut vec![0; RECEIVE_BYTES_MAX]);
        assert!(
            matches!(event, Some(Event::Connected(2, Err(_)))),
            "{event:?}"
        );
    });
}

#[test]
fn a_bell_ends_a_wait_and_a_time_does() {
    each("bell", |reactor, bell, _| {
        let mut buffer = vec![0; RECEIVE_BYTES_MAX];
        for _ in 0..3 {
            bell.ring();
            bell.ring();
            reactor.wait(None).expect("there");
            assert!(matches!(reactor.next(&mut buffer), Some(Event::Rung)));
            assert!(reactor.next(&mut buffer).is_none());
        }
        let until_ns = monotonic_ns() + 3_000_000;
        while monotonic_ns() < until_ns {
            reactor.wait(Some(until_ns)).expect("there");
            assert!(reactor.next(&mut buffer).is_none());
        }
    });
}
