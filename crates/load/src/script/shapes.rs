//! Values that have parts, which a key decides: documents, arrays and ranges.
//!
//! Their texts need no escapes, neither in a literal nor in COPY.

use super::error::EvalError;
use super::random::{hash_murmur2, splitmix64};
use super::texts::{TIMESTAMPS_US, write_int, write_letters, write_timestamp};

/// A document, an array or a range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// Value of `document_of()`: `{"v": "…"}` with so many letters and digits.
    Document {
        /// Decides the text.
        seed: u64,
        /// Number of its characters.
        length: u16,
    },
    /// Value of `array_of()`: numbers, or the texts that `text_of()` makes of them.
    Array {
        /// Decides the elements.
        seed: u64,
        /// Elements are the numbers from 1 to this one.
        distinct: u32,
        /// Number of the elements.
        count: u16,
        /// Characters of each; 0: they are numbers.
        length: u16,
    },
    /// Value of `range_of()`, with its first value and without its last.
    Range {
        /// The first.
        low: i64,
        /// The last.
        high: i64,
        /// They are times, in microseconds since 1970.
        of_times: bool,
    },
}

impl Shape {
    /// The array of a key.
    pub(super) fn array(
        key: i64,
        count: u16,
        distinct: i64,
        length: u16,
    ) -> Result<Self, EvalError> {
        let distinct = u32::try_from(distinct).ok().filter(|&each| each > 0);
        Ok(Self::Array {
            seed: seed_of(key),
            distinct: distinct.ok_or_else(|| {
                EvalError::new("an array has elements from 1 to a positive number")
            })?,
            count,
            length,
        })
    }

    /// The range of so many numbers from one on, or of so many seconds from a time on.
    pub(super) fn range(low: i64, length: i64, of_times: bool) -> Result<Self, EvalError> {
        if length < 0 {
            return Err(EvalError::new("a range ends before it begins"));
        }
        let unit = if of_times { 1_000_000 } else { 1 };
        let high = length
            .checked_mul(unit)
            .and_then(|length| low.checked_add(length));
        let high = high.filter(|high| !of_times || TIMESTAMPS_US.contains(high));
        Ok(Self::Range {
            low,
            high: high.ok_or_else(|| EvalError::new("the end of a range is out of range"))?,
            of_times,
        })
    }

    pub(super) fn type_name(self) -> &'static str {
        match self {
            Self::Document { .. } => "document",
            Self::Array { .. } => "array",
            Self::Range { .. } => "range",
        }
    }

    pub(super) fn write_text(self, out: &mut Vec<u8>) {
        match self {
            Self::Document { seed, length } => {
                out.extend_from_slice(b"{\"v\": \"");
                write_letters(seed, length, out);
                out.extend_from_slice(b"\"}");
            }
            Self::Array {
                mut seed,
                distinct,
                count,
                length,
            } => {
                out.push(b'{');
                for place in 0..count {
                    if place > 0 {
                        out.push(b',');
                    }
                    let drawn = splitmix64(&mut seed) % u64::from(distinct);
                    let number = drawn.cast_signed() + 1;
                    if length == 0 {
                        write_int(number, out);
                    } else {
                        write_letters(seed_of(number), length, out);
                    }
                }
                out.push(b'}');
            }
            Self::Range {
                low,
                high,
                of_times,
            } => {
                let write: fn(i64, &mut Vec<u8>) =
                    if of_times { write_timestamp } else { write_int };
                out.push(b'[');
                write(low, out);
                out.push(b',');
                write(high, out);
                out.push(b')');
            }
        }
    }
}

/// The seed of the text of a key.
pub(super) fn seed_of(key: i64) -> u64 {
    hash_murmur2(key, 0).cast_unsigned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(shape: Shape) -> String {
        let mut out = Vec::new();
        shape.write_text(&mut out);
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn ranges_are_of_numbers_or_times() {
        let days = "[1970-01-01 00:00:00+00,1970-01-02 00:00:00+00)";
        for (low, length, of_times, wanted) in [(-1, 5, false, "[-1,4)"), (0, 86_400, true, days)] {
            let found = Shape::range(low, length, of_times).expect("a range");
            assert_eq!(text(found), wanted);
        }
        assert!(Shape::range(2, -1, false).is_err());
        assert!(Shape::range(2, i64::MAX, false).is_err());
        assert!(Shape::range(TIMESTAMPS_US.end - 1, 1, true).is_err());
        assert!(Shape::array(1, 1, 0, 0).is_err());
    }

    proptest! {
        #[test]
        fn elements_are_texts_of_their_numbers(key: i64, count in 0_u16..40, distinct in 1_i64..9) {
            let numbers = text(Shape::array(key, count, distinct, 0).expect("an array"));
            let texts = text(Shape::array(key, count, distinct, 5).expect("an array"));
            let wanted: Vec<String> = numbers
                .trim_matches(['{', '}'])
                .split(',')
                .filter(|each| !each.is_empty())
                .map(|each| {
                    let number: i64 = each.parse().expect("a number");
                    assert!((1..=distinct).contains(&number));
                    let mut out = Vec::new();
                    write_letters(seed_of(number), 5, &mut out);
                    String::from_utf8(out).expect("ASCII")
                })
                .collect();
            prop_assert_eq!(wanted.len(), usize::from(count));
            prop_assert_eq!(texts, format!("{{{}}}", wanted.join(",")));
        }

        #[test]
        fn documents_have_their_length(seed: u64, length: u16) {
            let found = text(Shape::Document { seed, length });
            prop_assert_eq!(found.len(), usize::from(length) + 9);
            prop_assert!(found[7..found.len() - 2].bytes().all(|byte| byte.is_ascii_alphanumeric()));
        }
    }
}
