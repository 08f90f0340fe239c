//! The loop on completions: per answer one send that reports only failure and one receive, all of a
//! batch handed over in the one call that also waits.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsRawFd;

use io_uring::squeue::{Entry, Flags};
use io_uring::{IoUring, cqueue, opcode, squeue, types};

use crate::client::{Client, Wants};
use crate::script::Script;
use crate::window::{Measured, Window};

const ENTRIES_MAX: u32 = 4096;
/// `IORING_RECVSEND_POLL_FIRST`: the answer is never there yet when the receive is handed over.
const POLL_FIRST: u16 = 1;

/// Runs all clients to the end of the window, and until what was under way is answered.
pub fn run(clients: &mut [Client], script: &Script, seconds: f64) -> io::Result<Measured> {
    let entries = u32::try_from(clients.len() * 2)
        .unwrap_or(ENTRIES_MAX)
        .next_power_of_two()
        .clamp(8, ENTRIES_MAX);
    let mut ring: IoUring<squeue::Entry, cqueue::Entry> = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_coop_taskrun()
        .build(entries)?;
    let files: Vec<_> = clients.iter().map(|it| it.socket.as_raw_fd()).collect();
    ring.submitter().register_files(&files)?;
    let mut window = Window::new(clients.len(), seconds);
    let mut active = clients.len();
    for (number, client) in clients.iter_mut().enumerate() {
        push(&mut ring, &send(number, client))?;
        push(&mut ring, &receive(number, client))?;
    }
    let mut done = Vec::with_capacity(clients.len());
    while active > 0 {
        ring.submit_and_wait(1)?;
        done.extend(ring.completion().map(|it| (it.user_data(), it.result())));
        for (number, result) in done.drain(..) {
            let number = usize::try_from(number).map_err(io::Error::other)?;
            let count =
                usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))?;
            let client = &mut clients[number];
            match client.received(count, script, &mut window)? {
                Wants::Nothing => active -= 1,
                Wants::More => push(&mut ring, &receive(number, client))?,
                Wants::Send => {
                    push(&mut ring, &send(number, client))?;
                    push(&mut ring, &receive(number, client))?;
                }
            }
        }
        window.is_over();
    }
    window
        .measured()
        .ok_or_else(|| io::Error::other("the load ended before its time"))
}

fn fixed(number: usize) -> types::Fixed {
    types::Fixed(u32::try_from(number).unwrap_or(u32::MAX))
}

fn send(number: usize, client: &Client) -> Entry {
    let length = u32::try_from(client.send.len()).unwrap_or(0);
    opcode::Send::new(fixed(number), client.send.as_ptr(), length)
        .flags(libc::MSG_WAITALL)
        .build()
        .flags(Flags::SKIP_SUCCESS)
        .user_data(number as u64)
}

fn receive(number: usize, client: &mut Client) -> Entry {
    let room = &mut client.receive[client.have..];
    let length = u32::try_from(room.len()).unwrap_or(u32::MAX);
    opcode::Recv::new(fixed(number), room.as_mut_ptr(), length)
        .ioprio(POLL_FIRST)
        .build()
        .user_data(number as u64)
}

/// Hands an entry over, with those before it when there is no more room for it.
fn push(ring: &mut IoUring, entry: &Entry) -> io::Result<()> {
    loop {
        // SAFETY: the buffers belong to a client, which outlives the ring, and are not touched
        // before the answer to what was sent has come: a client changes what it sends, and moves
        // what it receives into, only in `received`, when it has neither under way.
        if unsafe { ring.submission().push(entry) }.is_ok() {
            return Ok(());
        }
        ring.submit()?;
    }
}
