//! The loop on readiness (epoll on Linux): one wait per batch, one read and one write per answer.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use crate::client::{Client, Wants, nonblocking};
use crate::script::Script;
use crate::window::{Measured, Window};

const WAIT_MAX: Duration = Duration::from_millis(100);

/// Runs all clients to the end of the window, and until what was under way is answered.
pub fn run(clients: &mut [Client], script: &Script, seconds: f64) -> io::Result<Measured> {
    let mut poll = Poll::new()?;
    let mut window = Window::new(clients.len(), seconds);
    let mut active = clients.len();
    for (number, client) in clients.iter_mut().enumerate() {
        // The mode is the socket's, whichever descriptor it is set through.
        nonblocking(client.socket.try_clone()?.into())?;
        let fd = client.socket.as_raw_fd();
        poll.registry()
            .register(&mut SourceFd(&fd), Token(number), Interest::READABLE)?;
        send(client)?;
    }
    let mut events = Events::with_capacity(1024);
    while active > 0 {
        match poll.poll(&mut events, Some(WAIT_MAX)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            polled => polled?,
        }
        for event in &events {
            if on_readable(&mut clients[event.token().0], script, &mut window)? == Wants::Nothing {
                active -= 1;
            }
        }
        window.is_over();
    }
    window
        .measured()
        .ok_or_else(|| io::Error::other("the load ended before its time"))
}

fn on_readable(client: &mut Client, script: &Script, window: &mut Window) -> io::Result<Wants> {
    loop {
        let room = client.receive.len() - client.have;
        let count = match client.socket.read(&mut client.receive[client.have..]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Wants::More),
            read => read?,
        };
        match client.received(count, script, window)? {
            Wants::Send => send(client)?,
            Wants::More if count == room => continue,
            wants => return Ok(wants),
        }
        // Less than there was room for: the socket is empty, and what comes is a new event.
        return Ok(Wants::Send);
    }
}

/// A message is shorter than any socket's buffer, and nothing else is on its way.
fn send(client: &mut Client) -> io::Result<()> {
    let count = client.socket.write(&client.send)?;
    if count < client.send.len() {
        return Err(io::Error::other("the socket took half a message"));
    }
    Ok(())
}
