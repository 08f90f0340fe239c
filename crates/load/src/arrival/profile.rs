//! A rate over time: straight lines one after the other, or a sine. Its integral up to a time is the
//! number of arrivals to expect until then; the inverse says when that number is reached.

use std::f64::consts::TAU;

/// Nanoseconds of a second.
const SECOND_NS: f64 = 1e9;
/// Steps after which the search for a time on a sine ends: each at least halves what is left.
const SEARCH_STEPS: usize = 80;

/// A stretch in which the rate goes in a straight line; rates per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Segment {
    /// Its length in nanoseconds.
    pub duration_ns: u64,
    /// The rate at its beginning.
    pub rate_from: f64,
    /// The rate at its end.
    pub rate_to: f64,
}

impl Segment {
    /// Arrivals in its first `into_ns`.
    fn mass(&self, into_ns: f64) -> f64 {
        let length_ns = ns(self.duration_ns);
        let share = into_ns / length_ns;
        let rate = self.rate_from + (self.rate_to - self.rate_from) * share / 2.0;
        rate * into_ns / SECOND_NS
    }

    /// Time from its start until so many have arrived.
    fn time_of(&self, mass: f64) -> f64 {
        let length_ns = ns(self.duration_ns);
        if mass <= 0.0 {
            return 0.0;
        }
        let slope = (self.rate_to - self.rate_from) / (length_ns / SECOND_NS);
        let root = (self.rate_from * self.rate_from + 2.0 * slope * mass).max(0.0);
        // Of the two ways to write the solution the one that loses no digits.
        let seconds = 2.0 * mass / (self.rate_from + root.sqrt());
        (seconds * SECOND_NS).min(length_ns)
    }
}

/// A rate over time, never negative.
#[derive(Debug, Clone, PartialEq)]
pub enum Profile {
    /// See [`Profile::segments`].
    Segments(Segments),
    /// See [`Profile::sine`].
    Sine(Sine),
}

impl Profile {
    /// Segments one after the other, none of no length; then again, or the last rate for ever.
    #[must_use]
    pub fn segments(segments: &[Segment], repeat: bool) -> Self {
        Self::Segments(Segments::new(segments, repeat))
    }

    /// A swing of `amplitude`, which is at most `mean`, around `mean`; `phase` in turns: at 0 it
    /// begins at the mean and rises, at 0.25 it begins at its highest.
    #[must_use]
    pub fn sine(mean: f64, amplitude: f64, period_ns: u64, phase: f64) -> Self {
        Self::Sine(Sine {
            mean,
            amplitude,
            period_ns: ns(period_ns),
            phase: phase.rem_euclid(1.0),
        })
    }

    /// The highest rate.
    #[must_use]
    pub fn rate_max(&self) -> f64 {
        match self {
            Self::Segments(segments) => segments.rate_max(),
            Self::Sine(sine) => sine.mean + sine.amplitude,
        }
    }

    /// Arrivals to expect until this time.
    #[must_use]
    pub fn integral(&self, at_ns: u64) -> f64 {
        match self {
            Self::Segments(segments) => segments.integral(ns(at_ns)),
            Self::Sine(sine) => sine.integral(ns(at_ns)),
        }
    }

    /// Time at which `count` have arrived; `None` if that is never, or not within centuries. If
    /// nothing arrives for a period, it is the beginning of the period.
    #[must_use]
    pub fn time_of(&self, count: f64) -> Option<u64> {
        match self {
            Self::Segments(segments) => segments.time_of(count),
            Self::Sine(sine) => sine.time_of(count),
        }
        .and_then(to_ns)
    }
}

/// Segments one after the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Segments {
    /// Each with its beginning and the arrivals before it.
    parts: Vec<(Segment, f64, f64)>,
    /// Length of all of them.
    length_ns: f64,
    /// Arrivals in all of them.
    mass: f64,
    /// True if they begin again; else the last rate holds.
    repeat: bool,
}

impl Segments {
    fn new(segments: &[Segment], repeat: bool) -> Self {
        let (mut length_ns, mut mass) = (0.0, 0.0);
        let mut parts = Vec::with_capacity(segments.len());
        for segment in segments {
            parts.push((*segment, length_ns, mass));
            length_ns += ns(segment.duration_ns);
            mass += segment.mass(ns(segment.duration_ns));
        }
        Self {
            parts,
            length_ns,
            mass,
            repeat,
        }
    }

    fn rate_max(&self) -> f64 {
        let rates = self.parts.iter();
        rates
            .flat_map(|(segment, ..)| [segment.rate_from, segment.rate_to])
            .fold(0.0, f64::max)
    }

    fn rate_last(&self) -> f64 {
        let last = self.parts.last();
        last.map_or(0.0, |(segment, ..)| segment.rate_to)
    }

    fn integral(&self, at_ns: f64) -> f64 {
        if self.repeat {
            let rounds = (at_ns / self.length_ns).floor();
            let rest_ns = (at_ns - rounds * self.length_ns).clamp(0.0, self.length_ns);
            return rounds * self.mass + self.mass_until(rest_ns);
        }
        let over_ns = (at_ns - self.length_ns).max(0.0);
        self.mass_until(at_ns.min(self.length_ns)) + self.rate_last() * over_ns / SECOND_NS
    }

    fn time_of(&self, count: f64) -> Option<f64> {
        if self.repeat && self.mass > 0.0 {
            let rounds = (count / self.mass).floor();
            let rest = (count - rounds * self.mass).clamp(0.0, self.mass);
            return Some(rounds * self.length_ns + self.time_within(rest));
        }
        if count <= self.mass {
            return Some(self.time_within(count));
        }
        let seconds = (count - self.mass) / self.rate_last();
        (!self.repeat).then_some(self.length_ns + seconds * SECOND_NS)
    }

    /// Arrivals in the first `at_ns`.
    fn mass_until(&self, at_ns: f64) -> f64 {
        let begun = self
            .parts
            .partition_point(|(_, begin_ns, _)| *begin_ns <= at_ns);
        let last = self.parts[..begun].last();
        last.map_or(0.0, |(segment, begin_ns, before)| {
            let into_ns = (at_ns - begin_ns).min(ns(segment.duration_ns));
            before + segment.mass(into_ns)
        })
    }

    /// Time until so many have arrived: in the first segment that reaches the number.
    fn time_within(&self, count: f64) -> f64 {
        let begun = self.parts.partition_point(|(.., before)| *before < count);
        let last = self.parts[..begun].last();
        last.map_or(0.0, |(segment, begin_ns, before)| {
            begin_ns + segment.time_of(count - before)
        })
    }
}

/// A rate that swings.
#[derive(Debug, Clone, PartialEq)]
pub struct Sine {
    /// The rate that it swings around.
    mean: f64,
    /// Amplitude, at most `mean`.
    amplitude: f64,
    /// Length of a swing.
    period_ns: f64,
    /// Initial phase, in turns.
    phase: f64,
}

impl Sine {
    fn integral(&self, at_ns: f64) -> f64 {
        let rounds = (at_ns / self.period_ns).floor();
        rounds * self.round_mass() + self.swing_mass(at_ns - rounds * self.period_ns)
    }

    fn time_of(&self, count: f64) -> Option<f64> {
        let round = self.round_mass();
        if round <= 0.0 {
            return None;
        }
        let rounds = (count / round).floor();
        let rest = (count - rounds * round).clamp(0.0, round);
        Some(rounds * self.period_ns + self.swing_time(rest))
    }

    /// Arrivals of one whole swing.
    fn round_mass(&self) -> f64 {
        self.mean * self.period_ns / SECOND_NS
    }

    /// In the swing, in radians.
    fn angle(&self, into_ns: f64) -> f64 {
        TAU * (into_ns / self.period_ns + self.phase)
    }

    /// Arrivals in the first `into_ns` of a swing.
    fn swing_mass(&self, into_ns: f64) -> f64 {
        let swing = (TAU * self.phase).cos() - self.angle(into_ns).cos();
        (self.mean * into_ns + self.amplitude * self.period_ns / TAU * swing) / SECOND_NS
    }

    /// Time at which `mass` of a swing has arrived: by Newton's method, or by bisection where that
    /// diverges.
    fn swing_time(&self, mass: f64) -> f64 {
        let (mut low_ns, mut high_ns) = (0.0, self.period_ns);
        let mut at_ns = mass / self.mean * SECOND_NS;
        for _ in 0..SEARCH_STEPS {
            let off = self.swing_mass(at_ns) - mass;
            if off < 0.0 {
                low_ns = at_ns;
            } else {
                high_ns = at_ns;
            }
            let rate = self.mean + self.amplitude * self.angle(at_ns).sin();
            let step_ns = at_ns - off / rate * SECOND_NS;
            let next_ns = if step_ns > low_ns && step_ns < high_ns {
                step_ns
            } else {
                f64::midpoint(low_ns, high_ns)
            };
            if (next_ns - at_ns).abs() < 0.25 {
                return next_ns;
            }
            at_ns = next_ns;
        }
        at_ns
    }
}

#[allow(clippy::cast_precision_loss)] // exact for a hundred days, and to 100 ns for ever after
fn ns(at_ns: u64) -> f64 {
    at_ns as f64
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // checked
fn to_ns(at_ns: f64) -> Option<u64> {
    (at_ns < 9e18).then_some(at_ns.max(0.0) as u64)
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    fn segment(seconds: f64, rate_from: f64, rate_to: f64) -> Segment {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let duration_ns = (seconds * SECOND_NS) as u64;
        Segment {
            duration_ns,
            rate_from,
            rate_to,
        }
    }

    fn any_rate() -> impl Strategy<Value = f64> {
        prop_oneof![
            Just(0.0),
            1e-6_f64..1e-3,
            0.1_f64..1000.0,
            1e5_f64..super::super::RATE_MAX,
        ]
    }

    /// Of segments: milliseconds, the rate at their beginning and at their end.
    pub(in crate::arrival) fn in_parts(parts: &[(u64, f64, f64)], repeat: bool) -> Profile {
        let segments: Vec<Segment> = parts
            .iter()
            .map(|&(ms, rate_from, rate_to)| Segment {
                duration_ns: ms * 1_000_000,
                rate_from,
                rate_to,
            })
            .collect();
        Profile::segments(&segments, repeat)
    }

    fn any_profile() -> impl Strategy<Value = Profile> {
        let segment = (1_u64..20_000, any_rate(), any_rate());
        let segments = prop::collection::vec(segment, 1..6);
        prop_oneof![
            (segments, any::<bool>()).prop_map(|(parts, repeat)| in_parts(&parts, repeat)),
            (1e-3_f64..1e6, 0.0_f64..=1.0, 1_u64..100_000, 0.0_f64..2.0).prop_map(
                |(mean, share, ms, phase)| Profile::sine(mean, mean * share, ms * 1_000_000, phase)
            ),
        ]
    }

    proptest! {
        #[test]
        fn the_integral_never_falls_and_no_rate_exceeds_the_highest(
            profile in any_profile(), at_ns in 0_u64..100_000_000_000, more_ns in 0_u64..10_000_000_000,
        ) {
            let (first, second) = (profile.integral(at_ns), profile.integral(at_ns + more_ns));
            let most = profile.rate_max() * ns(more_ns) / SECOND_NS;
            let slack = 1e-9 * (1.0 + second);
            prop_assert!(second >= first - slack);
            prop_assert!(second - first <= most + slack, "{first} {second} {most}");
        }

        #[test]
        fn the_inverse_finds_the_count_again(
            profile in any_profile(), share in 0.0_f64..1.0,
        ) {
            let count = share * profile.integral(400_000_000_000);
            if let Some(at_ns) = profile.time_of(count) {
                // The time is rounded to a nanosecond, in which at most so many arrive.
                let slack = profile.rate_max() * 3.0 / SECOND_NS + 1e-9 * (1.0 + count);
                let found = profile.integral(at_ns);
                prop_assert!((found - count).abs() <= slack, "{count} {at_ns} {found}");
            } else {
                // Whatever is reached within 400 s has a time, unless it is all there is, rounded.
                let all = profile.integral(400_000_000_000);
                prop_assert!(all == 0.0 || count >= all * (1.0 - 1e-9));
            }
        }

        #[test]
        fn the_inverse_never_goes_back(
            profile in any_profile(), count in 0.0_f64..1e7, more in 0.0_f64..1e3,
        ) {
            match (profile.time_of(count), profile.time_of(count + more)) {
                (Some(first), Some(second)) => prop_assert!(second + 3 >= first),
                (None, Some(_)) => prop_assert!(false, "never, then some time"),
                _ => {}
            }
        }
    }

    #[test]
    fn a_ramp_has_the_area_of_a_triangle() {
        let profile = Profile::segments(&[segment(10.0, 0.0, 100.0)], false);
        assert!((profile.integral(10_000_000_000) - 500.0).abs() < 1e-6);
        assert!((profile.integral(5_000_000_000) - 125.0).abs() < 1e-6);
        assert!((profile.integral(12_000_000_000) - 700.0).abs() < 1e-6);
        assert_eq!(profile.time_of(125.0), Some(5_000_000_000));
        assert_eq!(profile.time_of(700.0), Some(12_000_000_000));
    }

    #[test]
    fn repeated_segments_go_on_across_their_ends() {
        let burst = [segment(1.0, 1000.0, 1000.0), segment(9.0, 0.0, 0.0)];
        let profile = Profile::segments(&burst, true);
        assert!((profile.integral(100_000_000_000) - 10_000.0).abs() < 1e-6);
        assert_eq!(profile.time_of(1000.5), Some(10_000_500_000));
        assert_eq!(profile.time_of(999.5), Some(999_500_000));
        assert_eq!(
            profile.time_of(999.999_999_999).map(|at| at / 1_000_000),
            Some(999)
        );
    }

    #[test]
    fn a_rate_that_ends_at_nothing_brings_nothing_more() {
        let ends = Profile::segments(&[segment(2.0, 10.0, 10.0), segment(1.0, 0.0, 0.0)], false);
        assert_eq!(ends.time_of(19.5), Some(1_950_000_000));
        assert_eq!(ends.time_of(20.5), None);
        let never = Profile::segments(&[segment(1.0, 0.0, 0.0)], true);
        assert_eq!(never.time_of(0.5), None);
        assert_eq!(Profile::sine(0.0, 0.0, 1_000_000, 0.0).time_of(0.5), None);
    }

    #[test]
    fn a_sine_begins_where_its_phase_says() {
        let quarter_ns = 1_000_000_000;
        let first = |phase| Profile::sine(100.0, 100.0, 4 * quarter_ns, phase).integral(quarter_ns);
        let lift = 400.0 / TAU;
        assert!((first(0.0) - (100.0 + lift)).abs() < 1e-6);
        assert!((first(0.25) - (100.0 + lift)).abs() < 1e-6);
        assert!((first(0.5) - (100.0 - lift)).abs() < 1e-6);
        assert!((first(0.75) - (100.0 - lift)).abs() < 1e-6);
    }
}
