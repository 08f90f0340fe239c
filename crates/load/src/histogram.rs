//! Latency histograms: HDR, 2 significant digits, 1 ns to 1 h, mergeable, encoded as HDR V2 deflate.

use std::fmt;
use std::io::{self, Read};

use flate2::read::ZlibDecoder;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};

/// Longest duration told apart, in nanoseconds: an hour. Longer ones count as this.
pub const DURATION_NS_MAX: u64 = 3_600_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 2;
/// Longest uncompressed form that is read; one of ours has under 50 kB.
const PLAIN_BYTES_MAX: u64 = 1 << 20;

/// A count of durations in nanoseconds.
#[derive(Clone)]
pub struct Histogram(hdrhistogram::Histogram<u64>);

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Histogram({} values)", self.count())
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty one.
    ///
    /// # Panics
    /// Never: the bounds are constants that the histogram accepts.
    #[must_use]
    pub fn new() -> Self {
        let histogram =
            hdrhistogram::Histogram::new_with_bounds(1, DURATION_NS_MAX, SIGNIFICANT_DIGITS);
        Self(histogram.expect("constant bounds are valid"))
    }

    /// Counts one duration.
    pub fn record(&mut self, duration_ns: u64) {
        self.0.saturating_record(duration_ns);
    }

    /// Counts a duration several times.
    pub fn record_n(&mut self, duration_ns: u64, count: u64) {
        self.0.saturating_record_n(duration_ns, count);
    }

    /// Adds another one's counts.
    pub fn add(&mut self, other: &Self) {
        if !other.0.is_empty() {
            // Equal bounds, so nothing can be out of range.
            let _ = self.0.add(&other.0);
        }
    }

    /// Forgets all counts; keeps the memory.
    pub fn clear(&mut self) {
        if !self.0.is_empty() {
            self.0.reset();
        }
    }

    /// How many durations were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The longest, to the histogram's precision; 0 if empty.
    #[must_use]
    pub fn max_ns(&self) -> u64 {
        if self.0.is_empty() { 0 } else { self.0.max() }
    }

    /// The shortest, to the histogram's precision; 0 if empty.
    #[must_use]
    pub fn min_ns(&self) -> u64 {
        if self.0.is_empty() { 0 } else { self.0.min() }
    }

    /// The mean, to the histogram's precision; 0 if empty.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        if self.0.is_empty() {
            0.0
        } else {
            self.0.mean()
        }
    }

    /// The duration that `percentile` per cent do not exceed; 0 if empty.
    #[must_use]
    pub fn percentile_ns(&self, percentile: f64) -> u64 {
        if self.0.is_empty() {
            0
        } else {
            self.0.value_at_percentile(percentile)
        }
    }

    /// How many lie between the two, both included, to the histogram's precision.
    #[must_use]
    pub fn count_between(&self, low_ns: u64, high_ns: u64) -> u64 {
        if low_ns > high_ns || self.0.is_empty() {
            return 0;
        }
        self.0.count_between(low_ns, high_ns.min(DURATION_NS_MAX))
    }

    /// Buckets that are not empty: the highest duration in each, and its count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter_recorded().map(|step| {
            (
                self.0.highest_equivalent(step.value_iterated_to()),
                step.count_since_last_iteration(),
            )
        })
    }

    /// As bytes: HDR histogram format V2, compressed.
    ///
    /// # Panics
    /// Never: a vector takes every byte.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&self.0, &mut bytes)
            .expect("a vector takes every byte");
        bytes
    }

    /// From [`Histogram::encode`]'s bytes, or those of any HDR library.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        let invalid = |why: &dyn fmt::Display| format!("not an encoded histogram: {why}");
        let plain = inflate(bytes).map_err(|error| invalid(&error))?;
        let read: hdrhistogram::Histogram<u64> = Deserializer::new()
            .deserialize(&mut plain.as_slice())
            .map_err(|error| invalid(&error))?;
        let mut histogram = Self::new();
        for step in read.iter_recorded() {
            histogram.record_n(step.value_iterated_to(), step.count_since_last_iteration());
        }
        Ok(histogram)
    }
}

/// The uncompressed form inside the compressed one: cookie and length, then a zlib stream that fills
/// the rest. Unlike the histogram library this reads to the end, where the checksum is.
fn inflate(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let (header, stream) = bytes
        .split_first_chunk::<8>()
        .ok_or(io::ErrorKind::UnexpectedEof)?;
    let length = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
    if length as usize != stream.len() {
        return Err(io::Error::other("its length is not what its header says"));
    }
    let mut plain = Vec::new();
    let read = ZlibDecoder::new(stream)
        .take(PLAIN_BYTES_MAX + 1)
        .read_to_end(&mut plain)?;
    if read as u64 > PLAIN_BYTES_MAX {
        return Err(io::Error::other("it is too long"));
    }
    Ok(plain)
}
