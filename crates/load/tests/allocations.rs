//! A transaction in steady state allocates nothing: not in the script, nor in the protocol, the
//! event loop or the counts. The server is a thread of this test that answers without allocating.

use std::alloc::System;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pgdyno_load::Load;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

static ENDED: AtomicU64 = AtomicU64::new(0);

/// Answers one client: logs it in, then every message with the least that the protocol asks for.
fn serve(mut stream: UnixStream) -> std::io::Result<()> {
    let (mut received, mut answer) = ([0; 1 << 16], Vec::with_capacity(1 << 16));
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let rest = u32::from_be_bytes(length) as usize - 4;
    stream.read_exact(&mut received[..rest])?;
    stream.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I")?;
    let mut held = 0;
    loop {
        let count = stream.read(&mut received[held..])?;
        if count == 0 {
            return Ok(());
        }
        let end = held + count;
        let mut at = 0;
        while let Some([tag, a, b, c, d]) = received[at..end].first_chunk::<5>().copied() {
            let next = at + 1 + u32::from_be_bytes([a, b, c, d]) as usize;
            if next > end {
                break;
            }
            let reply: &[u8] = match tag {
                b'P' => b"1\0\0\0\x04",
                b'B' => b"2\0\0\0\x04",
                // A portal: one column called "x".
                b'D' if received[at + 5] == b'P' => {
                    b"T\0\0\0\x1a\0\x01x\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0"
                }
                // A statement: two parameters, bigint and uuid; no rows.
                b'D' => b"t\0\0\0\x0e\0\x02\0\0\0\x14\0\0\x0b\x86n\0\0\0\x04",
                b'E' => b"D\0\0\0\x0f\0\x01\0\0\0\x05some!C\0\0\0\x0dSELECT 1\0",
                b'S' => {
                    ENDED.fetch_add(1, Ordering::Relaxed);
                    b"Z\0\0\0\x05I"
                }
                b'X' => return Ok(()),
                _ => b"",
            };
            answer.extend_from_slice(reply);
            at = next;
        }
        received.copy_within(at..end, 0);
        held = end - at;
        stream.write_all(&answer)?;
        answer.clear();
    }
}

/// Answers the requests of one client by HTTP.
fn serve_http(mut stream: TcpStream) -> std::io::Result<()> {
    let (mut received, mut held) = ([0; 1 << 16], 0);
    loop {
        let count = stream.read(&mut received[held..])?;
        if count == 0 {
            return Ok(());
        }
        held += count;
        if received[..held].ends_with(b"\r\n\r\n") {
            held = 0;
            ENDED.fetch_add(1, Ordering::Relaxed);
            stream.write_all(
                b"HTTP/1.1 200 OK\r\nSet-Cookie: sid=1; Path=/\r\nX-A: 7\r\n\
                  Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            )?;
        }
    }
}

#[test]
fn a_request_in_steady_state_allocates_nothing() {
    let _alone = ALONE.lock();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve_http(stream));
        }
    });
    let plain = "\\set id random(1, 1000)\n\\get /x?id=:id&t=:txn\n\\header X-Id: :id\n\
        \\contains hello\n\\extract a header x-a\n\\get /y?a=:a\n\\status 2xx\n";
    for pool in [serde_json::Value::Null, serde_json::json!({"max": 2})] {
        let config = serde_json::json!({
            "groups": [{
                "name": "g", "clients": 4, "pool": pool,
                "http": {"host": "127.0.0.1", "port": port},
                "scripts": [{"name": "s", "text": plain}],
            }],
        });
        assert_eq!(allocations_of(&config.to_string(), 1000), 0, "{pool}");
    }
}

/// All tests of this file count the same allocations.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// For what hangs. A busy machine must not be taken for that.
const PATIENCE: Duration = Duration::from_secs(300);
/// Less than half of an interval, however slow the machine is.
const STRETCH_MAX: Duration = Duration::from_millis(400);
const STRETCHES_MAX: usize = 100;
/// Fewer show nothing.
const CYCLES_MIN: u64 = 20;

/// Allocations while so many cycles are answered, without those of intervals that end: the least of
/// several stretches, of which those with none make up the cycles.
fn allocations_of(config: &str, cycles: u64) -> usize {
    let load = Load::new(config).expect("a configuration");
    load.start(None).expect("started");
    let wait_for = |count: u64| {
        let (from, began) = (ENDED.load(Ordering::Relaxed), Instant::now());
        while ENDED.load(Ordering::Relaxed) - from < count {
            assert!(began.elapsed() < PATIENCE, "it stands still");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    wait_for(2000);
    // The ends of intervals, one a second, allocate; every other of these stretches has none.
    let (mut least, mut answered) = (usize::MAX, 0);
    for _ in 0..STRETCHES_MAX {
        let (from, began) = (ENDED.load(Ordering::Relaxed), Instant::now());
        let region = Region::new(ALLOCATOR);
        while ENDED.load(Ordering::Relaxed) - from < cycles && began.elapsed() < STRETCH_MAX {
            std::thread::sleep(Duration::from_millis(1));
        }
        let change = region.change();
        let allocations = change.allocations + change.reallocations;
        let count = ENDED.load(Ordering::Relaxed) - from;
        if count < CYCLES_MIN {
            continue; // What stands still allocates nothing.
        }
        least = least.min(allocations);
        if allocations == 0 {
            answered += count;
        }
        if answered >= cycles {
            break;
        }
    }
    load.stop(Duration::from_secs(1));
    least
}

#[test]
fn a_transaction_in_steady_state_allocates_nothing() {
    let _alone = ALONE.lock();
    let directory = std::env::temp_dir().join(format!("pgdyno-allocations-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let listener = UnixListener::bind(directory.join(".s.PGSQL.5432")).expect("a socket");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(stream));
        }
    });
    let plain = "\\set a random(1, 1000) * :client_id + :txn\n\\set u random_uuid()\n\
        update t set a = :a where u = :u;\n\\if :a > 5\nselect :a, :u;\n\\endif";
    let pipeline = "\\set a :txn\n\\set u random_uuid()\n\\startpipeline\nselect :a, :u;\n\
        \\syncpipeline\nselect :a, :u;\n\\endpipeline";
    let captured = "\\set a :txn\n\\set u random_uuid()\nselect :a, :u \\gset\nselect 1, :x;";
    let arrays = "\\array a 5 random(1, 9)\n\\set x :a[2] + :a[9]\nselect :a, :x;";
    for script in [plain, pipeline, captured, arrays] {
        for parameters in ["text", "binary"] {
            for pool in [serde_json::Value::Null, serde_json::json!({"max": 2})] {
                let config = serde_json::json!({
                    "target": {"hosts": [{"host": directory, "port": 5432}], "user": "u", "database": "d"},
                    "parameters": parameters,
                    "groups": [{
                        "name": "g", "clients": 4, "pool": pool,
                        "scripts": [{"name": "s", "text": script}],
                    }],
                });
                let allocations = allocations_of(&config.to_string(), 1000);
                assert_eq!(allocations, 0, "{script} {parameters} {pool}");
            }
        }
    }
    std::fs::remove_dir_all(&directory).expect("removed");
}
