//! A transaction in steady state allocates nothing: not in the script, nor in the protocol, the
//! event loop or the counts. The server is a thread of this test that answers without allocating.

use std::alloc::System;
use std::io::{Read, Write};
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

/// Allocations while at least so many cycles are answered, without those of intervals that end.
fn allocations_of(config: &str, cycles: u64) -> usize {
    let load = Load::new(config).expect("a configuration");
    load.start(None).expect("started");
    let wait_for = |count: u64| {
        let (from, began) = (ENDED.load(Ordering::Relaxed), Instant::now());
        while ENDED.load(Ordering::Relaxed) - from < count {
            assert!(began.elapsed() < Duration::from_secs(20), "it stands still");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    wait_for(2000);
    // The ends of intervals, one a second, allocate; most of these stretches have none.
    let least = (0..5)
        .map(|_| {
            let region = Region::new(ALLOCATOR);
            wait_for(cycles);
            let change = region.change();
            change.allocations + change.reallocations
        })
        .min();
    load.stop(Duration::from_secs(1));
    least.expect("five stretches")
}

#[test]
fn a_transaction_in_steady_state_allocates_nothing() {
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
    for script in [plain, pipeline, captured] {
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
