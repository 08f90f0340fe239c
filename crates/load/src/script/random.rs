//! Random numbers of a client: the generator, and the distributions that scripts can draw from.
//!
//! The generator is xoroshiro128** by Blackman and Vigna (<https://prng.di.unimi.it/>), seeded
//! through splitmix64, and ranges are drawn by rejection. PostgreSQL 15 and later do the same, so
//! `permute` gives the same permutation, and a distribution the same values from the same state.
//! It is 16 bytes: ten thousand clients carry one each.

use std::f64::consts::TAU;

/// Smallest width of `random_gaussian`: the range is cut at this many standard deviations.
pub(super) const GAUSSIAN_MIN: f64 = 2.0;
/// Smallest exponent of `random_zipfian`.
pub(super) const ZIPFIAN_MIN: f64 = 1.001;
/// Largest exponent of `random_zipfian`.
pub(super) const ZIPFIAN_MAX: f64 = 1000.0;

/// A random number generator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rng {
    low: u64,
    high: u64,
}

impl Rng {
    /// The generator of this seed. Neighbouring seeds give unrelated sequences.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut state = seed;
        // splitmix64 maps different states to different numbers, so not both can be 0.
        Self {
            low: splitmix64(&mut state),
            high: splitmix64(&mut state),
        }
    }

    /// 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let mixed = self.low ^ self.high;
        let value = self.low.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        self.low = self.low.rotate_left(24) ^ mixed ^ (mixed << 16);
        self.high = mixed.rotate_left(37);
        value
    }

    /// Uniform in [0, 1), a multiple of 2^-52.
    #[inline]
    #[allow(clippy::cast_precision_loss)] // 52 bits fit
    pub fn double(&mut self) -> f64 {
        (self.next_u64() >> 12) as f64 * (1.0 / (1_u64 << 52) as f64)
    }

    /// Uniform in [`min`, `max`], both included; `min` if they are the wrong way round.
    #[inline]
    pub fn range(&mut self, min: i64, max: i64) -> i64 {
        if min >= max {
            return min;
        }
        let width = max.wrapping_sub(min).cast_unsigned();
        min.wrapping_add(self.up_to(width).cast_signed())
    }

    /// Uniform in [0, `max`].
    #[inline]
    fn up_to(&mut self, max: u64) -> u64 {
        if max == 0 {
            return 0;
        }
        loop {
            let value = self.next_u64() >> max.leading_zeros();
            if value <= max {
                return value;
            }
        }
    }

    /// Standard normal, by Box and Muller.
    fn normal(&mut self) -> f64 {
        let radius = 1.0 - self.double();
        let angle = 1.0 - self.double();
        (-2.0 * radius.ln()).sqrt() * (TAU * angle).sin()
    }

    /// Truncated normal over [`min`, `max`], whose ends are `parameter` standard deviations from
    /// the middle. `parameter` is at least [`GAUSSIAN_MIN`] and finite.
    pub(super) fn gaussian(&mut self, min: i64, max: i64, parameter: f64) -> i64 {
        let deviation = loop {
            let value = self.normal();
            if (-parameter..parameter).contains(&value) {
                break value;
            }
        };
        at_fraction(min, max, (deviation + parameter) / (parameter * 2.0))
    }

    /// Truncated exponential over [`min`, `max`]; `parameter` is above 0.
    pub(super) fn exponential(&mut self, min: i64, max: i64, parameter: f64) -> i64 {
        let cut = (-parameter).exp();
        let uniform = 1.0 - self.double();
        at_fraction(min, max, -(cut + (1.0 - cut) * uniform).ln() / parameter)
    }

    /// Zipfian over [`min`, `max`]: the k-th value has a weight of 1/k^`exponent`, which is between
    /// [`ZIPFIAN_MIN`] and [`ZIPFIAN_MAX`]. Rejection after Devroye, "Non-Uniform Random Variate
    /// Generation", 1986, p. 550.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // x is at most n
    pub(super) fn zipfian(&mut self, min: i64, max: i64, exponent: f64) -> i64 {
        let n = max - min + 1;
        if n <= 1 {
            return min;
        }
        let power = exponent - 1.0;
        let b = 2.0_f64.powf(power);
        loop {
            let u = self.double();
            let v = self.double();
            let x = u.powf(-1.0 / power).floor();
            let t = (1.0 + 1.0 / x).powf(power);
            if v * x * (t - 1.0) / (b - 1.0) <= t / b && x <= n as f64 {
                return (min - 1).wrapping_add((x as i64).min(n));
            }
        }
    }

    /// A version 4 UUID (RFC 9562).
    pub(super) fn uuid(&mut self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.next_u64().to_be_bytes());
        bytes[8..].copy_from_slice(&self.next_u64().to_be_bytes());
        bytes[6] = (bytes[6] & 0x0F) | 0x40;
        bytes[8] = (bytes[8] & 0x3F) | 0x80;
        bytes
    }
}

/// The next of a sequence that the state decides (Sebastiano Vigna).
pub(super) fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut value = *state;
    value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// The value that lies `fraction` of the way from `min` to one above `max`. Rounding may give a
/// fraction of 1, which is `max` too.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // the cast saturates
fn at_fraction(min: i64, max: i64, fraction: f64) -> i64 {
    let width = max - min + 1;
    min + ((width as f64 * fraction) as i64).clamp(0, width - 1)
}

/// pgbench's `permute`: a pseudorandom permutation of 0 … `size`-1, chosen by `seed`. Six rounds of
/// an odd multiplication, an exclusive or and a rotation, on the lower and then on the upper
/// power-of-two part of the range, each followed by a random offset. `size` is above 0.
pub(super) fn permute(value: i64, size: i64, seed: i64) -> i64 {
    if size < 2 {
        return 0;
    }
    let size = size.cast_unsigned();
    let bits = size.ilog2();
    let mask = (1_u64 << bits) - 1;
    let mut rng = Rng::new(seed.cast_unsigned());
    let scramble = |value: u64, rng: &mut Rng| {
        let factor = (rng.next_u64() & mask) | 1;
        let flip = rng.next_u64() & mask;
        if value > mask {
            return value;
        }
        let mixed = (value.wrapping_mul(factor) ^ flip) & mask;
        ((mixed << 1) & mask) | (mixed >> (bits - 1))
    };
    let mut at = value.cast_unsigned() % size;
    for _ in 0..6 {
        at = scramble(at, &mut rng);
        at = size - 1 - scramble(size - 1 - at, &mut rng);
        at = add_modulo(at, rng.up_to(size - 1), size);
    }
    at.cast_signed()
}

/// Both are below `size`, which is below 2^63: no overflow.
fn add_modulo(a: u64, b: u64, size: u64) -> u64 {
    (a + b) % size
}

/// FNV-1a over the 8 bytes of `value`, lowest first, from a basis that `seed` changes.
pub(super) fn hash_fnv1a(value: i64, seed: i64) -> i64 {
    let start = 0xCBF2_9CE4_8422_2325 ^ seed.cast_unsigned();
    value
        .to_le_bytes()
        .into_iter()
        .fold(start, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3)
        })
        .cast_signed()
}

/// `MurmurHash2`, 64 bits (Austin Appleby), of the 8 bytes of `value`.
pub(super) fn hash_murmur2(value: i64, seed: i64) -> i64 {
    const FACTOR: u64 = 0xC6A4_A793_5BD1_E995;
    const SHIFT: u32 = 47;
    let mut word = value.cast_unsigned().wrapping_mul(FACTOR);
    word = (word ^ (word >> SHIFT)).wrapping_mul(FACTOR);
    let mut hash = seed.cast_unsigned() ^ FACTOR.wrapping_mul(8);
    hash = (hash ^ word).wrapping_mul(FACTOR);
    hash = (hash ^ (hash >> SHIFT)).wrapping_mul(FACTOR);
    (hash ^ (hash >> SHIFT)).cast_signed()
}
