//! The times at which transactions are due: evenly spaced or Poisson, along a rate profile.
//!
//! Both are drawn in the profile's own time, in which one transaction is due per unit on average:
//! the next one is due a unit later, or an exponentially distributed number of units; the inverse
//! of the profile's integral says when that is.

use serde::Deserialize;

use super::profile::Profile;
use crate::script::Rng;

/// The distribution of arrivals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Process {
    /// Evenly spaced: after each whole one that the rate amounts to, and a half before the first.
    Constant,
    /// Independent of each other.
    Poisson,
}

/// The times at which transactions are due, in order.
#[derive(Debug, Clone)]
pub struct Arrivals {
    profile: Profile,
    process: Process,
    rng: Rng,
    /// Factor on the profile's rate.
    factor: f64,
    /// The profile's integral when the factor changed last.
    since: f64,
    /// Units that had passed by then.
    passed: f64,
    /// The next one, in units.
    next: f64,
    /// The last time given out.
    last_ns: u64,
}

impl Arrivals {
    /// From time 0 on.
    #[must_use]
    pub fn new(profile: Profile, process: Process, seed: u64) -> Self {
        let mut arrivals = Self {
            profile,
            process,
            rng: Rng::new(seed),
            factor: 1.0,
            since: 0.0,
            passed: 0.0,
            next: 0.5,
            last_ns: 0,
        };
        if process == Process::Poisson {
            arrivals.next = arrivals.gap();
        }
        arrivals
    }

    /// The highest rate that the profile has, without the factor.
    #[must_use]
    pub fn rate_max(&self) -> f64 {
        self.profile.rate_max()
    }

    /// Time at which the next transaction is due, never earlier than the one before. `None` if none
    /// will be, unless the factor changes.
    pub fn next_ns(&mut self) -> Option<u64> {
        if self.factor <= 0.0 {
            return None;
        }
        let at_ns = self
            .profile
            .time_of(self.since + (self.next - self.passed) / self.factor)?;
        self.next += self.gap();
        self.last_ns = self.last_ns.max(at_ns);
        Some(self.last_ns)
    }

    /// From `at_ns` on the rate is the profile's times `factor`. All times up to then must have been
    /// given out; the last `undone` ones, which are later, are taken back and drawn again.
    #[allow(clippy::cast_precision_loss)] // a handful
    pub fn set_factor(&mut self, at_ns: u64, factor: f64, undone: usize) {
        let integral = self.profile.integral(at_ns);
        self.passed += (integral - self.since) * self.factor;
        self.since = integral;
        self.factor = factor;
        self.last_ns = at_ns;
        self.next = match self.process {
            // What is left of the way to the next one stays, at another pace.
            Process::Constant => (self.next - undone as f64).max(self.passed),
            // It has no memory.
            Process::Poisson => self.passed + self.gap(),
        };
    }

    /// Units between two arrivals.
    fn gap(&mut self) -> f64 {
        match self.process {
            Process::Constant => 1.0,
            Process::Poisson => -(1.0 - self.rng.double()).ln(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::profile::{Segment, tests::in_parts};
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn constant_rate(rate: f64) -> Profile {
        let whole = Segment {
            duration_ns: SECOND_NS,
            rate_from: rate,
            rate_to: rate,
        };
        Profile::segments(&[whole], false)
    }

    fn until(arrivals: &mut Arrivals, end_ns: u64) -> Vec<u64> {
        let mut times = Vec::new();
        while let Some(at_ns) = arrivals.clone().next_ns()
            && at_ns <= end_ns
        {
            arrivals.next_ns();
            times.push(at_ns);
        }
        times
    }

    fn any_profile() -> impl Strategy<Value = Profile> {
        let rate = || prop_oneof![Just(0.0), 1e-3_f64..1.0, 1.0_f64..2000.0];
        let segment = (1_u64..5_000, rate(), rate());
        let parts = prop::collection::vec(segment, 1..5);
        (parts, any::<bool>()).prop_map(|(parts, repeat)| in_parts(&parts, repeat))
    }

    proptest! {
        #[test]
        fn even_arrivals_are_never_more_than_half_a_transaction_off(
            profile in any_profile(), end_ns in 1_u64..8 * SECOND_NS,
        ) {
            let mut arrivals = Arrivals::new(profile.clone(), Process::Constant, 0);
            let times = until(&mut arrivals, end_ns);
            prop_assert!(times.is_sorted());
            #[allow(clippy::cast_precision_loss)]
            let off = times.len() as f64 - profile.integral(end_ns);
            prop_assert!(off.abs() <= 0.5 + 1e-4, "{off}");
        }

        #[test]
        fn poisson_arrivals_follow_the_integral(profile in any_profile(), seed: u64) {
            let mut arrivals = Arrivals::new(profile.clone(), Process::Poisson, seed);
            let times = until(&mut arrivals, 5 * SECOND_NS);
            prop_assert!(times.is_sorted());
            let expected = profile.integral(5 * SECOND_NS);
            #[allow(clippy::cast_precision_loss)]
            let off = (times.len() as f64 - expected).abs();
            // Six standard deviations, and as much for the smallest numbers.
            prop_assert!(off <= 6.0 * expected.sqrt() + 6.0, "{off} of {expected}");
        }

        #[test]
        fn a_changed_factor_counts_from_its_moment(
            profile in any_profile(),
            changes in prop::collection::vec((0_u64..2 * SECOND_NS, 0.0_f64..4.0), 1..5),
        ) {
            let mut arrivals = Arrivals::new(profile.clone(), Process::Constant, 0);
            let (mut at_ns, mut factor, mut expected, mut count) = (0, 1.0, 0.0, 0);
            for (after_ns, next) in changes.into_iter().chain([(SECOND_NS, 0.0)]) {
                let end_ns = at_ns + after_ns;
                let times = until(&mut arrivals, end_ns);
                prop_assert!(times.is_sorted() && times.first().is_none_or(|first| *first >= at_ns));
                count += times.len();
                expected += factor * (profile.integral(end_ns) - profile.integral(at_ns));
                let early = usize::from(arrivals.next_ns().is_some());
                arrivals.set_factor(end_ns, next, early);
                (at_ns, factor) = (end_ns, next);
            }
            #[allow(clippy::cast_precision_loss)]
            let off = count as f64 - expected;
            prop_assert!(off.abs() <= 0.5 + 1e-4, "{off}");
        }
    }

    #[test]
    #[allow(clippy::cast_precision_loss)]
    fn poisson_gaps_are_exponential() {
        let mut arrivals = Arrivals::new(constant_rate(1000.0), Process::Poisson, 7);
        let times = until(&mut arrivals, 200 * SECOND_NS);
        let gaps: Vec<f64> = times
            .windows(2)
            .map(|pair| (pair[1] - pair[0]) as f64)
            .collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps
            .iter()
            .map(|gap| (gap - mean) * (gap - mean))
            .sum::<f64>()
            / gaps.len() as f64;
        assert!((mean / 1e6 - 1.0).abs() < 0.02, "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "{variance}");
        let long = gaps.iter().filter(|gap| **gap > 2e6).count() as f64 / gaps.len() as f64;
        assert!((long - (-2.0_f64).exp()).abs() < 0.005, "{long}");
    }

    #[test]
    fn the_same_seed_gives_the_same_times() {
        let times = |seed| {
            until(
                &mut Arrivals::new(constant_rate(50.0), Process::Poisson, seed),
                SECOND_NS,
            )
        };
        assert_eq!(times(1), times(1));
        assert_ne!(times(1), times(2));
    }

    #[test]
    fn extreme_rates_have_times() {
        let mut fast = Arrivals::new(constant_rate(1e7), Process::Constant, 0);
        assert_eq!(until(&mut fast, SECOND_NS / 1000).len(), 10_000);
        let mut slow = Arrivals::new(constant_rate(1e-6), Process::Constant, 0);
        assert_eq!(slow.next_ns(), Some(500_000 * SECOND_NS));
        let mut none = Arrivals::new(constant_rate(0.0), Process::Poisson, 0);
        assert_eq!(none.next_ns(), None);
    }
}
