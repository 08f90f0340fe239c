//! The measured period: from the moment when every client has had its first transaction, for the
//! seconds asked for. The first ones make statements and warm the server's caches.

use std::time::{Duration, Instant};

use crate::sys::Cpu;

/// Counts of the window.
#[derive(Debug, Clone, Copy)]
pub struct Measured {
    pub transactions: u64,
    pub seconds: f64,
    pub cpu: Cpu,
}

/// The window of one run.
#[derive(Debug)]
pub struct Window {
    length: Duration,
    cold: usize,
    began: Option<(Instant, Cpu)>,
    transactions: u64,
    measured: Option<Measured>,
}

impl Window {
    /// Opens when `clients` have had their first transaction.
    pub fn new(clients: usize, seconds: f64) -> Self {
        Self {
            length: Duration::from_secs_f64(seconds),
            cold: clients,
            began: None,
            transactions: 0,
            measured: None,
        }
    }

    /// A transaction is done.
    pub fn count(&mut self, first_of_client: bool) {
        self.transactions += 1;
        if first_of_client {
            self.cold -= 1;
            if self.cold == 0 {
                self.transactions = 0;
                self.began = Some((Instant::now(), Cpu::now()));
            }
        }
    }

    /// True if no client shall begin another transaction. To be asked once per pass of the loop.
    pub fn is_over(&mut self) -> bool {
        if self.measured.is_none()
            && let Some((at, cpu)) = self.began
            && at.elapsed() >= self.length
        {
            self.measured = Some(Measured {
                transactions: self.transactions,
                seconds: at.elapsed().as_secs_f64(),
                cpu: Cpu::now().since(cpu),
            });
        }
        self.measured.is_some()
    }

    /// The result; `None` before the window is over.
    pub fn measured(&self) -> Option<Measured> {
        self.measured
    }
}
