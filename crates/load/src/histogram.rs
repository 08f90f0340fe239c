//! Latency histograms: HDR, 2 significant digits, 1 ns to 1 h, mergeable, encoded as HDR V2 deflate.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::sync::OnceLock;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};

/// Longest distinguishable duration in nanoseconds: an hour. Longer ones count as this.
pub const DURATION_NS_MAX: u64 = 3_600_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 2;
/// Longest uncompressed form that is read.
const PLAIN_BYTES_MAX: usize = 1 << 20;
/// More than one of ours has.
const PLAIN_BYTES_USUAL: usize = 50_000;

/// A count of durations in nanoseconds. It takes no memory before the first is recorded, and as much
/// as the longest needs: 14 kB for a millisecond, 24 kB for a second.
///
/// Two digits: a third would take eight times the memory and cache lines in each thread, for a
/// precision (0.1 %) far below any difference that a run can show.
#[derive(Clone, Default)]
pub struct Histogram(Option<hdrhistogram::Histogram<u64>>);

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Histogram({} values)", self.count())
    }
}

impl Histogram {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts one duration.
    pub fn record(&mut self, duration_ns: u64) {
        // It grows as far as it must, so nothing can be out of range.
        let _ = self.filled().record(duration_ns.min(DURATION_NS_MAX));
    }

    /// Counts one duration, unless there was none: who knows how many values there should be adds
    /// the zeros at the end.
    pub fn record_unless_0(&mut self, duration_ns: u64) {
        if duration_ns != 0 {
            self.record(duration_ns);
        }
    }

    /// Counts a duration several times.
    pub fn record_n(&mut self, duration_ns: u64, count: u64) {
        if count != 0 {
            let duration_ns = duration_ns.min(DURATION_NS_MAX);
            let _ = self.filled().record_n(duration_ns, count);
        }
    }

    /// Adds another one's counts.
    pub fn add(&mut self, other: &Self) {
        if let Some(theirs) = other.some() {
            let _ = self.filled().add(theirs);
        }
    }

    /// Forgets all counts; keeps the memory.
    pub fn clear(&mut self) {
        if let Some(counts) = &mut self.0
            && !counts.is_empty()
        {
            counts.reset();
        }
    }

    /// Number of durations counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.as_ref().map_or(0, hdrhistogram::Histogram::len)
    }

    /// The longest, to the histogram's precision; 0 if empty.
    #[must_use]
    pub fn max_ns(&self) -> u64 {
        self.some().map_or(0, hdrhistogram::Histogram::max)
    }

    /// The shortest, to the histogram's precision; 0 if empty.
    #[must_use]
    pub fn min_ns(&self) -> u64 {
        self.some().map_or(0, hdrhistogram::Histogram::min)
    }

    /// The mean, to the histogram's precision; 0 if empty.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        self.some().map_or(0.0, hdrhistogram::Histogram::mean)
    }

    /// The duration that `percentile` per cent do not exceed; 0 if empty.
    #[must_use]
    pub fn percentile_ns(&self, percentile: f64) -> u64 {
        self.some()
            .map_or(0, |counts| counts.value_at_percentile(percentile))
    }

    /// Number of durations between the two, both included, to the histogram's precision.
    #[must_use]
    pub fn count_between(&self, low_ns: u64, high_ns: u64) -> u64 {
        match self.some() {
            Some(counts) if low_ns <= high_ns => {
                counts.count_between(low_ns, high_ns.min(DURATION_NS_MAX))
            }
            _ => 0,
        }
    }

    /// Buckets that are not empty: the highest duration in each, and its count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.some().into_iter().flat_map(|counts| {
            counts.iter_recorded().map(|step| {
                (
                    counts.highest_equivalent(step.value_iterated_to()),
                    step.count_since_last_iteration(),
                )
            })
        })
    }

    /// The counts, if there are any.
    fn some(&self) -> Option<&hdrhistogram::Histogram<u64>> {
        self.0.as_ref().filter(|counts| !counts.is_empty())
    }

    /// The counts, made if need be.
    fn filled(&mut self) -> &mut hdrhistogram::Histogram<u64> {
        self.0.get_or_insert_with(nothing)
    }

    /// As bytes: HDR histogram format V2, compressed.
    ///
    /// # Panics
    /// Never: a vector takes every byte.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        static EMPTY: OnceLock<Vec<u8>> = OnceLock::new();
        match self.some() {
            Some(counts) => encoded(counts),
            None => EMPTY.get_or_init(|| encoded(&nothing())).clone(),
        }
    }

    /// From [`Histogram::encode`]'s bytes, or those of any HDR library.
    ///
    /// # Errors
    /// The reason why the bytes are invalid.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        let mut histogram = Self::new();
        histogram.add_encoded(bytes)?;
        Ok(histogram)
    }

    /// Adds the counts of [`Histogram::encode`]'s bytes, or of those of any HDR library.
    ///
    /// # Errors
    /// The reason why the bytes are invalid; nothing is added.
    pub fn add_encoded(&mut self, bytes: &[u8]) -> Result<(), String> {
        thread_local! {
            static DECODER: RefCell<Decoder> = RefCell::new(Decoder::new());
        }
        DECODER.with_borrow_mut(|decoder| {
            let read = decoder.decode(bytes)?;
            if read.max() <= DURATION_NS_MAX && !read.is_empty() {
                let _ = self.filled().add(read);
            } else {
                for step in read.iter_recorded() {
                    self.record_n(step.value_iterated_to(), step.count_since_last_iteration());
                }
            }
            Ok(())
        })
    }
}

/// No counts, in memory of their own, which grows.
fn nothing() -> hdrhistogram::Histogram<u64> {
    hdrhistogram::Histogram::new(SIGNIFICANT_DIGITS).expect("a valid number of digits")
}

/// Encodes, with memory that it keeps: the compressor alone has some 300 kB, and an interval of many
/// groups and scripts has hundreds of histograms.
struct Encoder {
    serializer: V2Serializer,
    plain: Vec<u8>,
    compress: Compress,
}

/// First bytes of the compressed form.
const COMPRESSED_COOKIE: u32 = 0x1c84_9314;

impl Encoder {
    fn new() -> Self {
        Self {
            serializer: V2Serializer::new(),
            plain: Vec::new(),
            compress: Compress::new(Compression::fast(), true),
        }
    }

    fn encode(&mut self, counts: &hdrhistogram::Histogram<u64>) -> Vec<u8> {
        self.plain.clear();
        self.serializer
            .serialize(counts, &mut self.plain)
            .expect("a vector takes every byte");
        self.compress.reset();
        // Room for what cannot be compressed: the stream's own bytes, and five for each block.
        let mut bytes = Vec::with_capacity(self.plain.len() + self.plain.len() / 1000 + 64);
        bytes.extend_from_slice(&COMPRESSED_COOKIE.to_be_bytes());
        bytes.extend_from_slice(&[0; 4]);
        let status = self
            .compress
            .compress_vec(&self.plain, &mut bytes, FlushCompress::Finish);
        debug_assert!(matches!(status, Ok(Status::StreamEnd)), "{status:?}");
        let length = u32::try_from(bytes.len() - 8).unwrap_or(u32::MAX);
        bytes[4..8].copy_from_slice(&length.to_be_bytes());
        bytes.shrink_to_fit();
        bytes
    }
}

fn encoded(counts: &hdrhistogram::Histogram<u64>) -> Vec<u8> {
    thread_local! {
        static ENCODER: RefCell<Encoder> = RefCell::new(Encoder::new());
    }
    ENCODER.with_borrow_mut(|encoder| encoder.encode(counts))
}

/// Decodes, with memory that it keeps: a long run's page merges tens of thousands of histograms.
struct Decoder {
    deserializer: Deserializer,
    plain: Vec<u8>,
    decompress: Decompress,
}

impl Decoder {
    fn new() -> Self {
        Self {
            deserializer: Deserializer::new(),
            plain: Vec::with_capacity(PLAIN_BYTES_USUAL),
            decompress: Decompress::new(true),
        }
    }

    fn decode(&mut self, bytes: &[u8]) -> Result<hdrhistogram::Histogram<u64>, String> {
        let invalid = |why: &dyn fmt::Display| format!("not an encoded histogram: {why}");
        self.inflate(bytes).map_err(|error| invalid(&error))?;
        self.deserializer
            .deserialize(&mut self.plain.as_slice())
            .map_err(|error| invalid(&error))
    }

    /// Reads the uncompressed form inside the compressed one: cookie and length, then a zlib stream
    /// that fills the rest. Unlike the histogram library this reads to the end, where the checksum
    /// is.
    fn inflate(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (header, stream) = bytes
            .split_first_chunk::<8>()
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        let length = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
        if length as usize != stream.len() {
            return Err(io::Error::other("its length is not what its header says"));
        }
        self.plain.clear();
        self.decompress.reset(true);
        let mut done = (0, 0);
        while self.plain.len() <= PLAIN_BYTES_MAX {
            self.plain.reserve(1);
            let left = usize::try_from(done.0).ok().and_then(|at| stream.get(at..));
            let status = self.decompress.decompress_vec(
                left.unwrap_or_default(),
                &mut self.plain,
                FlushDecompress::None,
            )?;
            if status == Status::StreamEnd && self.plain.len() <= PLAIN_BYTES_MAX {
                return Ok(());
            }
            let before = done;
            done = (self.decompress.total_in(), self.decompress.total_out());
            if done == before {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Err(io::Error::other("it is too long"))
    }
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::V2DeflateSerializer;
    use proptest::prelude::*;

    use super::*;

    fn any_values() -> impl Strategy<Value = Vec<(u64, u64)>> {
        let value = prop_oneof![Just(0), 0_u64..100_000, any::<u64>()];
        prop::collection::vec(
            (
                value,
                prop_oneof![1_u64..5, any::<u32>().prop_map(u64::from)],
            ),
            0..200,
        )
    }

    fn of(values: &[(u64, u64)]) -> Histogram {
        let mut histogram = Histogram::new();
        for (value, count) in values {
            histogram.record_n(*value, *count);
        }
        histogram
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_is_encoded_is_decoded_here_and_by_the_library(values in any_values()) {
            let histogram = of(&values);
            let bytes = histogram.encode();
            let back = Histogram::decode(&bytes).expect("our own bytes");
            prop_assert!(back.buckets().eq(histogram.buckets()));
            let read: hdrhistogram::Histogram<u64> = Deserializer::new()
                .deserialize(&mut bytes.as_slice())
                .expect("the library's own format");
            prop_assert_eq!(read.len(), histogram.count());
            let mut theirs = Vec::new();
            let counts = histogram.0.unwrap_or_else(nothing);
            V2DeflateSerializer::new().serialize(&counts, &mut theirs).expect("a vector");
            let theirs = Histogram::decode(&theirs).expect("the library's bytes");
            prop_assert!(back.buckets().eq(theirs.buckets()));
        }

        #[test]
        fn merging_is_recording_together(parts in prop::collection::vec(any_values(), 0..5)) {
            let mut merged = Histogram::new();
            for part in &parts {
                merged.add(&of(part));
            }
            let together = of(&parts.concat());
            prop_assert!(merged.buckets().eq(together.buckets()));
            merged.clear();
            prop_assert_eq!(merged.encode(), Histogram::new().encode());
        }
    }

    fn compressed(plain: &[u8]) -> Vec<u8> {
        let mut stream = Vec::with_capacity(plain.len() + 1000);
        Compress::new(Compression::fast(), true)
            .compress_vec(plain, &mut stream, FlushCompress::Finish)
            .expect("a vector");
        let length = u32::try_from(stream.len()).expect("short");
        [
            &COMPRESSED_COOKIE.to_be_bytes(),
            &length.to_be_bytes(),
            &stream[..],
        ]
        .concat()
    }

    #[test]
    fn bytes_that_are_none_are_refused_and_leave_no_trace() {
        let whole = of(&[(1, 3), (2_000_000, 5), (DURATION_NS_MAX, 1)]).encode();
        let mut histogram = Histogram::new();
        for length in 0..whole.len() {
            let mut cut = whole[..length].to_vec();
            assert!(histogram.add_encoded(&cut).is_err(), "{length} bytes");
            if let Some(header) = cut.get_mut(4..8) {
                header.copy_from_slice(&u32::try_from(length - 8).expect("short").to_be_bytes());
                assert!(
                    histogram.add_encoded(&cut).is_err(),
                    "{length} bytes that say so"
                );
            }
        }
        let too_long = compressed(&vec![0; PLAIN_BYTES_MAX + 60_000]);
        let said = histogram.add_encoded(&too_long).expect_err("no histogram");
        assert!(said.ends_with("it is too long"), "{said}");
        assert!(histogram.add_encoded(&compressed(b"nothing")).is_err());
        assert_eq!(histogram.count(), 0);
        histogram
            .add_encoded(&whole)
            .expect("what was damaged before is forgotten");
        assert_eq!(histogram.encode(), whole);
    }

    #[test]
    fn an_empty_one_has_no_counts_in_memory() {
        let mut histogram = Histogram::new();
        histogram.add(&Histogram::new());
        histogram.record_unless_0(0);
        histogram.record_n(5, 0);
        assert!(histogram.0.is_none());
        assert_eq!(histogram.count(), 0);
    }
}
