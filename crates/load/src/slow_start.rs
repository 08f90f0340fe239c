//! Slow start: after a failure, a group's clients do not all connect again at once.
//!
//! Without failures no client waits. After a failure one connection is tried; when that is
//! established two may be tried at the same time, then four, until no client waits any more. This
//! is for connections of clients' own; a pool keeps its own pace.

use std::collections::VecDeque;

use crate::pool::LinkRef;

/// Which clients may try to connect.
#[derive(Debug)]
pub struct SlowStart {
    enabled: bool,
    /// After a failure: how many may try at the same time.
    window: Option<usize>,
    trying: usize,
    /// After a failure: no client tries before this time.
    closed_until_ns: u64,
    waiting: VecDeque<LinkRef>,
}

impl SlowStart {
    /// All may. Unless `enabled` it stays so.
    #[must_use]
    pub fn new(enabled: bool) -> Self {
        Self {
            enabled,
            window: None,
            trying: 0,
            closed_until_ns: 0,
            waiting: VecDeque::new(),
        }
    }

    /// True if this connection may be tried now; else it waits until [`SlowStart::admit`] names it.
    pub fn enter(&mut self, link: LinkRef, now_ns: u64) -> bool {
        let open = self.has_room(now_ns);
        if open {
            self.trying += 1;
        } else {
            self.waiting.push_back(link);
        }
        open
    }

    /// Return a waiting client that may try now.
    pub fn admit(&mut self, now_ns: u64) -> Option<LinkRef> {
        if !self.has_room(now_ns) {
            return None;
        }
        let first = self.waiting.pop_front()?;
        self.trying += 1;
        Some(first)
    }

    fn has_room(&self, now_ns: u64) -> bool {
        let room = |window| self.trying < window && now_ns >= self.closed_until_ns;
        self.window.is_none_or(room)
    }

    /// A connection that was tried is established.
    pub fn succeeded(&mut self) {
        self.trying -= 1;
        self.window = self.window.map(|window| window.saturating_mul(2));
        if self.trying == 0 && self.waiting.is_empty() {
            self.window = None;
        }
    }

    /// A connection that was tried could not be established. It pauses until `until_ns`, and so do
    /// all others; [`SlowStart::admit`] is to be called then.
    pub fn failed(&mut self, until_ns: u64) {
        self.trying -= 1;
        self.closed_until_ns = until_ns;
        self.slow_down();
    }

    /// Withdraw one that was admitted.
    pub fn gave_up(&mut self) {
        self.trying -= 1;
    }

    /// An established connection was lost.
    pub fn slow_down(&mut self) {
        if self.enabled {
            self.window = Some(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn link(id: u64) -> LinkRef {
        LinkRef {
            thread: 0,
            slot: 0,
            id,
        }
    }

    #[test]
    fn after_a_failure_they_come_back_one_two_four_at_a_time() {
        let mut start = SlowStart::new(true);
        assert!((0..20).all(|id| start.enter(link(id), 9)));
        (0..20).for_each(|_| start.failed(9));
        assert_eq!((0..20).filter(|id| start.enter(link(*id), 9)).count(), 1);
        let mut rounds = vec![];
        let mut trying = 1;
        while trying > 0 {
            rounds.push(trying);
            (0..trying).for_each(|_| start.succeeded());
            trying = std::iter::from_fn(|| start.admit(9)).count();
        }
        assert_eq!(rounds[..2], [1, 2]);
        assert_eq!(rounds.iter().sum::<usize>(), 20);
        assert!(
            (0..9).all(|id| start.enter(link(id), 9)),
            "open to all again"
        );
    }

    #[test]
    fn after_a_failure_all_pause() {
        let mut start = SlowStart::new(true);
        assert!(start.enter(link(0), 1));
        start.failed(5);
        assert!(!start.enter(link(1), 4));
        assert!(start.admit(4).is_none());
        assert_eq!(start.admit(5), Some(link(1)));
    }

    #[test]
    fn without_slow_start_nobody_waits() {
        let mut start = SlowStart::new(false);
        assert!(start.enter(link(0), 9));
        start.failed(9);
        start.slow_down();
        assert!((0..9).all(|id| start.enter(link(id), 9)));
    }

    proptest! {
        /// Whatever fails and succeeds: as long as somebody tries, or pauses after a failure, those
        /// who wait have their turn.
        #[test]
        fn nobody_waits_for_ever(outcomes in prop::collection::vec(any::<bool>(), 0..200)) {
            let mut start = SlowStart::new(true);
            let mut trying: VecDeque<LinkRef> = (0..10).map(link).collect();
            prop_assert!(trying.iter().all(|link| start.enter(*link, 9)));
            let mut connected = 0;
            for good in outcomes.into_iter().chain(std::iter::repeat_n(true, 20)) {
                let Some(tried) = trying.pop_front() else { break };
                if good {
                    start.succeeded();
                    connected += 1;
                } else {
                    start.failed(9);
                    trying.extend(start.enter(tried, 9).then_some(tried));
                }
                trying.extend(std::iter::from_fn(|| start.admit(9)));
            }
            prop_assert_eq!(connected, 10);
        }
    }
}
