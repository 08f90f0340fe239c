//! The number of clients of a group over time: steps and linear ramps, until it is set explicitly.

use serde::Deserialize;

/// From `at_ms` on, go in a straight line to `clients` over `ramp_ms`, then hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Start of the change, in milliseconds after the start of the load.
    pub at_ms: u64,
    /// Clients at its end.
    pub clients: u32,
    /// Duration in milliseconds; 0 is at once.
    #[serde(default)]
    pub ramp_ms: u64,
}

/// A group's plan of clients over time.
#[derive(Debug, Clone)]
pub struct Schedule {
    initial: u32,
    steps: Vec<Step>,
}

/// Between two changes of a ramp at least this long passes, so that ten thousand clients do not
/// cost ten thousand wake-ups.
const RESOLUTION_NS: u64 = 2_000_000;

impl Schedule {
    /// `steps` in order of `at_ms`. A group begins with `clients`; if there are steps and the first
    /// is at 0, it begins with none and goes to the first step's count.
    #[must_use]
    pub fn new(clients: u32, steps: &[Step]) -> Self {
        let initial = if steps.first().is_some_and(|step| step.at_ms == 0) {
            0
        } else {
            clients
        };
        Self {
            initial,
            steps: steps.to_vec(),
        }
    }

    /// A constant number of clients.
    #[must_use]
    pub fn constant(clients: u32) -> Self {
        Self {
            initial: clients,
            steps: Vec::new(),
        }
    }

    /// The most clients that there ever are.
    #[must_use]
    pub fn clients_max(&self) -> u32 {
        let steps = self.steps.iter().map(|step| step.clients);
        steps.fold(self.initial, u32::max)
    }

    /// Clients at a time after the start. A step that begins before the one before it has ended
    /// takes over from wherever that one was.
    #[must_use]
    pub fn clients_at(&self, elapsed_ns: u64) -> u32 {
        let mut from = self.initial;
        for (index, step) in self.steps.iter().enumerate() {
            let begin_ns = step.at_ms * 1_000_000;
            if elapsed_ns < begin_ns {
                break;
            }
            let next_ns = self
                .steps
                .get(index + 1)
                .map_or(u64::MAX, |next| next.at_ms * 1_000_000);
            from = along(from, step, elapsed_ns.min(next_ns) - begin_ns);
        }
        from
    }

    /// Time of the next possible change after `elapsed_ns`, both since the start; `None` for never.
    #[must_use]
    pub fn next_change_ns(&self, elapsed_ns: u64) -> Option<u64> {
        let now = self.clients_at(elapsed_ns);
        for (index, step) in self.steps.iter().enumerate() {
            let begin_ns = step.at_ms * 1_000_000;
            let end_ns = begin_ns + step.ramp_ms * 1_000_000;
            let next_ns = self
                .steps
                .get(index + 1)
                .map_or(u64::MAX, |next| next.at_ms * 1_000_000);
            if elapsed_ns < begin_ns {
                return Some(begin_ns);
            }
            if elapsed_ns < end_ns.min(next_ns) {
                let left = u64::from(now.abs_diff(step.clients)).max(1);
                let pace = (end_ns - elapsed_ns) / left;
                return Some(
                    (elapsed_ns + pace.max(RESOLUTION_NS))
                        .min(end_ns)
                        .min(next_ns),
                );
            }
        }
        None
    }
}

/// Clients of a step that began `since_ns` ago at `from` clients.
fn along(from: u32, step: &Step, since_ns: u64) -> u32 {
    let ramp_ns = step.ramp_ms * 1_000_000;
    if since_ns >= ramp_ns {
        return step.clients;
    }
    let change = i128::from(step.clients) - i128::from(from);
    let moved = change * i128::from(since_ns) / i128::from(ramp_ns);
    u32::try_from(i128::from(from) + moved).unwrap_or(step.clients)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(at_ms: u64, clients: u32, ramp_ms: u64) -> Step {
        Step {
            at_ms,
            clients,
            ramp_ms,
        }
    }

    #[test]
    fn a_ramp_is_a_straight_line_from_nothing() {
        let schedule = Schedule::new(16, &[step(0, 16, 16_000)]);
        let at = |ms: u64| schedule.clients_at(ms * 1_000_000);
        assert_eq!(
            [
                at(0),
                at(1000),
                at(8000),
                at(15_999),
                at(16_000),
                at(99_000)
            ],
            [0, 1, 8, 15, 16, 16]
        );
    }

    #[test]
    fn steps_hold_until_the_next_and_may_go_down() {
        let schedule = Schedule::new(4, &[step(1000, 8, 0), step(2000, 2, 1000)]);
        let at = |ms: u64| schedule.clients_at(ms * 1_000_000);
        assert_eq!(
            [at(0), at(999), at(1000), at(1999), at(2500), at(3000)],
            [4, 4, 8, 8, 5, 2]
        );
    }

    #[test]
    fn an_interrupted_ramp_goes_on_from_where_it_was() {
        let schedule = Schedule::new(0, &[step(0, 100, 10_000), step(5000, 0, 5000)]);
        assert_eq!(schedule.clients_at(5_000_000_000), 50);
        assert_eq!(schedule.clients_at(7_500_000_000), 25);
    }

    #[test]
    fn every_change_is_announced_and_the_last_one_ends_the_plan() {
        let schedule = Schedule::new(3, &[step(500, 40, 300), step(900, 7, 50)]);
        let (mut at_ns, mut wakes) = (0, 0);
        while let Some(next_ns) = schedule.next_change_ns(at_ns) {
            assert!(next_ns > at_ns);
            at_ns = next_ns;
            wakes += 1;
        }
        assert_eq!(schedule.clients_at(at_ns), 7);
        assert_eq!(at_ns, 950_000_000);
        assert!(wakes < 200);
    }
}
