//! Values of expressions, their conversions, and how they are written.
//!
//! Conversions follow pgbench: a double becomes an int by rounding half to even, a boolean or NULL
//! never becomes a number, and only a boolean is a boolean (conditions are laxer, see
//! [`Value::is_true`]).

use std::io::Write as _;

use super::error::EvalError;
use super::shapes::Shape;
use super::texts::{TIMESTAMPS_US, write_int, write_letters, write_timestamp};

/// The value of an expression. Small and `Copy`: evaluating allocates nothing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// SQL NULL.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A floating-point number.
    Double(f64),
    /// Value of `random_uuid()` or `uuid_of()`; no operator accepts it.
    Uuid([u8; 16]),
    /// Value of `random_text()` or `text_of()`: so many letters and digits, which the seed decides.
    /// No operator accepts it.
    Text {
        /// Decides the text.
        seed: u64,
        /// Number of its characters.
        length: u16,
    },
    /// Value of `timestamp()`: microseconds since 1970, UTC; no operator accepts it.
    Timestamp(i64),
    /// Value of `document_of()`, `array_of()` or `range_of()`; no operator accepts it.
    Shape(Shape),
}

impl Value {
    /// Appends the value as pgbench writes it: `NULL`, `true`, `42`, `0.1` (15 significant
    /// digits), `Infinity`, `NaN`.
    pub fn write_text(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Null => out.extend_from_slice(b"NULL"),
            Self::Bool(true) => out.extend_from_slice(b"true"),
            Self::Bool(false) => out.extend_from_slice(b"false"),
            Self::Int(value) => write_int(value, out),
            Self::Double(value) => write_double(value, out),
            Self::Uuid(value) => write_uuid(value, out),
            Self::Text { seed, length } => write_letters(seed, length, out),
            Self::Timestamp(value) => write_timestamp(value, out),
            Self::Shape(shape) => shape.write_text(out),
        }
    }

    /// As the condition of `\if` or CASE: a number is true if it is not 0, NULL is false.
    #[must_use]
    pub fn is_true(&self) -> bool {
        match *self {
            Self::Null => false,
            Self::Bool(value) => value,
            Self::Int(value) => value != 0,
            Self::Double(value) => value != 0.0,
            Self::Uuid(_) | Self::Text { .. } | Self::Timestamp(_) | Self::Shape(_) => true,
        }
    }

    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "boolean",
            Self::Int(_) => "int",
            Self::Double(_) => "double",
            Self::Uuid(_) => "uuid",
            Self::Text { .. } => "text",
            Self::Timestamp(_) => "timestamp",
            Self::Shape(shape) => shape.type_name(),
        }
    }

    /// True if its text is a literal of SQL only within quotes.
    pub(super) fn is_quoted(self) -> bool {
        matches!(
            self,
            Self::Uuid(_) | Self::Text { .. } | Self::Timestamp(_) | Self::Shape(_)
        )
    }

    /// The time so many seconds after the start of 1970, UTC: of the years 1 to 9999.
    pub(super) fn timestamp(seconds: Self) -> Result<Self, EvalError> {
        let us = match seconds {
            Self::Int(seconds) => seconds.checked_mul(1_000_000),
            seconds => int_from_double(seconds.to_double()? * 1e6).ok(),
        };
        us.filter(|us| TIMESTAMPS_US.contains(us))
            .map(Self::Timestamp)
            .ok_or_else(|| EvalError::new("timestamp out of range: years are 1 to 9999"))
    }

    pub(super) fn to_bool(self) -> Result<bool, EvalError> {
        match self {
            Self::Bool(value) => Ok(value),
            _ => Err(self.no_conversion("boolean")),
        }
    }

    pub(super) fn to_int(self) -> Result<i64, EvalError> {
        match self {
            Self::Int(value) => Ok(value),
            Self::Double(value) => int_from_double(value),
            _ => Err(self.no_conversion("int")),
        }
    }

    pub(super) fn to_double(self) -> Result<f64, EvalError> {
        match self {
            Self::Double(value) => Ok(value),
            #[allow(clippy::cast_precision_loss)] // as in SQL: the nearest double
            Self::Int(value) => Ok(value as f64),
            _ => Err(self.no_conversion("double")),
        }
    }

    #[cold]
    fn no_conversion(self, to: &str) -> EvalError {
        EvalError::new(format!("cannot convert {} to {to}", self.type_name()))
    }

    /// The value that a variable's text stands for in an expression; `None` if it is none.
    /// pgbench's words: `null`, prefixes of `true`, `yes`, `false`, `no`, and `on`, `of`, `off`.
    pub(super) fn from_text(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        if text.is_empty() {
            return None;
        }
        let prefix_of = |word: &str| {
            word.get(..text.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(text))
        };
        let is = |word: &str| text.eq_ignore_ascii_case(word);
        if is("null") {
            Some(Self::Null)
        } else if prefix_of("true") || prefix_of("yes") || is("on") {
            Some(Self::Bool(true))
        } else if prefix_of("false") || prefix_of("no") || is("off") || is("of") {
            Some(Self::Bool(false))
        } else {
            number_from_text(text.trim_start_matches(|c: char| c.is_ascii_whitespace()))
        }
    }
    /// The element of an array's text, from 1; NULL if it is not there. `None` if the text is no
    /// array, or the element has no value in an expression.
    pub(super) fn element(text: &[u8], index: i64) -> Option<Self> {
        let inner = text.strip_prefix(b"{")?.strip_suffix(b"}")?;
        let at = index.checked_sub(1).and_then(|at| usize::try_from(at).ok());
        let Some(at) = at.filter(|_| !inner.is_empty()) else {
            return Some(Self::Null);
        };
        match inner.split(|&byte| byte == b',').nth(at) {
            Some(element) => Self::from_text(element),
            None => Some(Self::Null),
        }
    }
}

/// A number as C's strtol and strtod read it; a whole number out of range is none.
fn number_from_text(text: &str) -> Option<Value> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok().map(Value::Int);
    }
    if let Some(hexadecimal) = digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        let value = double_from_hexadecimal(hexadecimal)?;
        let negative = text.starts_with('-');
        return Some(Value::Double(if negative { -value } else { value }));
    }
    let value: f64 = text.parse().ok()?;
    let overflow =
        value.is_infinite() && digits.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    (!overflow).then_some(Value::Double(value))
}

/// `1F`, `.8`, `1.8p-3`: a number as strtod reads it after `0x`; what is infinite is none.
fn double_from_hexadecimal(text: &str) -> Option<f64> {
    let (mantissa, exponent) = match text.split_once(['p', 'P']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut value = 0.0_f64;
    for digit in whole.chars().chain(fraction.chars()) {
        value = value.mul_add(16.0, f64::from(digit.to_digit(16)?));
    }
    let shift = i32::try_from(fraction.len()).ok()?.checked_mul(4)?;
    let value = value * f64::from(exponent.checked_sub(shift)?).exp2();
    value.is_finite().then_some(value)
}

/// Rounds half to even. 2^63 is a double, and the first that does not fit.
fn int_from_double(value: f64) -> Result<i64, EvalError> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    let rounded = value.round_ties_even();
    if (-LIMIT..LIMIT).contains(&rounded) {
        #[allow(clippy::cast_possible_truncation)] // checked on the line above
        Ok(rounded as i64)
    } else {
        Err(EvalError::new(format!(
            "double to int overflow for {rounded}"
        )))
    }
}

/// C's `%.15g`, except infinity and not-a-number, which are written so that SQL reads them.
fn write_double(value: f64, out: &mut Vec<u8>) {
    const DIGITS: i32 = 15;
    if value.is_nan() {
        return out.extend_from_slice(b"NaN");
    }
    if value.is_infinite() {
        return out.extend_from_slice(if value < 0.0 {
            b"-Infinity"
        } else {
            b"Infinity"
        });
    }
    // "-d.dddddddddddddde-308" fits; writing to a slice that is long enough cannot fail.
    let mut buffer = [0_u8; 32];
    let mut rest = &mut buffer[..];
    let _ = write!(rest, "{:.*e}", (DIGITS - 1) as usize, value);
    let written = 32 - rest.len();
    let text = &buffer[..written];
    let e = text
        .iter()
        .position(|&byte| byte == b'e')
        .unwrap_or(written);
    let exponent: i32 = std::str::from_utf8(&text[e + 1..])
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    let negative = text[0] == b'-';
    let mut digits = [b'0'; DIGITS as usize];
    let source = text[..e].iter().filter(|byte| byte.is_ascii_digit());
    digits
        .iter_mut()
        .zip(source)
        .for_each(|(to, from)| *to = *from);
    let length = digits
        .iter()
        .rposition(|&digit| digit != b'0')
        .map_or(1, |at| at + 1);
    if negative {
        out.push(b'-');
    }
    if (-4..DIGITS).contains(&exponent) {
        write_fixed(&digits[..length], exponent, out);
    } else {
        write_exponential(&digits[..length], exponent, out);
    }
}

/// Significant digits, the first of them worth 10^exponent, without an exponent.
fn write_fixed(digits: &[u8], exponent: i32, out: &mut Vec<u8>) {
    if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.extend((1..-exponent).map(|_| b'0'));
        return out.extend_from_slice(digits);
    }
    let whole = exponent.unsigned_abs() as usize + 1;
    if digits.len() <= whole {
        out.extend_from_slice(digits);
        out.extend((digits.len()..whole).map(|_| b'0'));
    } else {
        out.extend_from_slice(&digits[..whole]);
        out.push(b'.');
        out.extend_from_slice(&digits[whole..]);
    }
}

fn write_exponential(digits: &[u8], exponent: i32, out: &mut Vec<u8>) {
    out.push(digits[0]);
    if digits.len() > 1 {
        out.push(b'.');
        out.extend_from_slice(&digits[1..]);
    }
    out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
    if exponent.abs() < 10 {
        out.push(b'0');
    }
    write_int(i64::from(exponent.abs()), out);
}

fn write_uuid(value: [u8; 16], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    for (at, byte) in value.into_iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        out.extend([HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    }
}

/// A value to be sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Datum<'a> {
    /// A value of the language.
    Value(Value),
    /// Text as it is.
    Text(&'a [u8]),
}

impl Datum<'_> {
    /// True if it is NULL.
    #[must_use]
    pub fn is_null(&self) -> bool {
        *self == Datum::Value(Value::Null)
    }

    /// Appends its text.
    pub fn write_text(&self, out: &mut Vec<u8>) {
        match self {
            Self::Value(value) => value.write_text(out),
            Self::Text(text) => out.extend_from_slice(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(value: Value) -> String {
        let mut out = Vec::new();
        value.write_text(&mut out);
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn doubles_are_written_as_printf_g_does() {
        for (value, wanted) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (0.1, "0.1"),
            (0.1 + 0.2, "0.3"),
            (1.0 / 3.0, "0.333333333333333"),
            (1e14, "100000000000000"),
            (1e15, "1e+15"),
            (123_456_789_012_345_680.0, "1.23456789012346e+17"),
            (0.0001, "0.0001"),
            (0.000_01, "1e-05"),
            (-1.5e-300, "-1.5e-300"),
            (f64::MAX, "1.79769313486232e+308"),
            (999_999_999_999_999.9, "1e+15"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
            (-f64::NAN, "NaN"),
        ] {
            assert_eq!(text(Value::Double(value)), wanted, "{value:e}");
        }
    }

    #[test]
    fn text_stands_for_what_pgbench_makes_of_it() {
        for (source, wanted) in [
            ("NULL", Some(Value::Null)),
            ("T", Some(Value::Bool(true))),
            ("yes", Some(Value::Bool(true))),
            ("on", Some(Value::Bool(true))),
            ("n", Some(Value::Bool(false))),
            ("of", Some(Value::Bool(false))),
            (" +12", Some(Value::Int(12))),
            ("-9223372036854775808", Some(Value::Int(i64::MIN))),
            ("9223372036854775808", None),
            ("1.5", Some(Value::Double(1.5))),
            ("1e3", Some(Value::Double(1000.0))),
            ("1e999", None),
            ("0x1F", Some(Value::Double(31.0))),
            ("-0X1.8p-1", Some(Value::Double(-0.75))),
            ("0x.8", Some(Value::Double(0.5))),
            ("0x", None),
            ("0x1G", None),
            ("0x1p9999", None),
            ("o", None),
            ("", None),
            ("truer", None),
            ("12abc", None),
        ] {
            assert_eq!(Value::from_text(source.as_bytes()), wanted, "{source:?}");
        }
    }

    #[test]
    fn elements_are_counted_from_1() {
        for (text, index, wanted) in [
            ("{5,17,3}", 1, Some(Value::Int(5))),
            ("{5,17,3}", 3, Some(Value::Int(3))),
            ("{5,17,3}", 4, Some(Value::Null)),
            ("{5,17,3}", 0, Some(Value::Null)),
            ("{5,17,3}", i64::MIN, Some(Value::Null)),
            ("{}", 1, Some(Value::Null)),
            ("{NULL,t,1.5}", 1, Some(Value::Null)),
            ("{NULL,t,1.5}", 2, Some(Value::Bool(true))),
            ("{NULL,t,1.5}", 3, Some(Value::Double(1.5))),
            ("{word}", 1, None),
            ("5", 1, None),
            ("{5", 1, None),
            ("", 1, None),
        ] {
            assert_eq!(
                Value::element(text.as_bytes(), index),
                wanted,
                "{text} {index}"
            );
        }
    }

    #[test]
    fn timestamps_are_of_the_calendar() {
        for (seconds, wanted) in [
            (Value::Int(0), "1970-01-01 00:00:00+00"),
            (Value::Int(951_782_400), "2000-02-29 00:00:00+00"),
            (Value::Int(1_795_426_200), "2026-11-23 09:30:00+00"),
            (Value::Int(-1), "1969-12-31 23:59:59+00"),
            (Value::Double(0.25), "1970-01-01 00:00:00.250000+00"),
            (Value::Int(-62_135_596_800), "0001-01-01 00:00:00+00"),
            (Value::Int(253_402_300_799), "9999-12-31 23:59:59+00"),
        ] {
            let found = Value::timestamp(seconds).expect("in range");
            assert_eq!(text(found), wanted);
        }
        for seconds in [
            Value::Int(253_402_300_800),
            Value::Int(-62_135_596_801),
            Value::Int(i64::MAX),
            Value::Double(f64::NAN),
            Value::Double(1e300),
            Value::Bool(true),
        ] {
            assert!(Value::timestamp(seconds).is_err(), "{seconds:?}");
        }
    }

    #[test]
    fn doubles_round_half_to_even_and_overflow() {
        assert_eq!(Value::Double(2.5).to_int(), Ok(2));
        assert_eq!(Value::Double(-3.5).to_int(), Ok(-4));
        assert_eq!(
            Value::Double(-9_223_372_036_854_775_808.0).to_int(),
            Ok(i64::MIN)
        );
        assert!(Value::Double(9_223_372_036_854_775_808.0).to_int().is_err());
        assert!(Value::Double(f64::NAN).to_int().is_err());
    }

    proptest! {
        #[test]
        fn ints_round_trip(value: i64) {
            prop_assert_eq!(text(Value::Int(value)), value.to_string());
            prop_assert_eq!(Value::from_text(value.to_string().as_bytes()), Some(Value::Int(value)));
        }

        #[test]
        fn doubles_keep_15_digits(value in proptest::num::f64::NORMAL) {
            let back: f64 = text(Value::Double(value)).parse().expect("a number");
            prop_assert!(back == value || ((back - value) / value).abs() < 1e-14);
        }

        #[test]
        fn what_was_written_is_found(values in prop::collection::vec(any::<i64>(), 0..40), at in 0_usize..50) {
            let texts: Vec<String> = values.iter().map(i64::to_string).collect();
            let text = format!("{{{}}}", texts.join(","));
            let wanted = values.get(at).map_or(Value::Null, |&value| Value::Int(value));
            let index = i64::try_from(at).expect("small") + 1;
            prop_assert_eq!(Value::element(text.as_bytes(), index), Some(wanted));
        }

        #[test]
        fn texts_have_their_length_and_are_the_same_again(seed: u64, length: u16) {
            let value = Value::Text { seed, length };
            let found = text(value);
            prop_assert_eq!(found.len(), usize::from(length));
            prop_assert!(found.bytes().all(|byte| byte.is_ascii_alphanumeric()));
            prop_assert_eq!(found, text(value));
        }

        #[test]
        fn timestamps_are_ordered_as_their_texts(a in TIMESTAMPS_US, b in TIMESTAMPS_US) {
            let (a, b) = (a / 1_000_000 * 1_000_000, b / 1_000_000 * 1_000_000);
            let texts = (text(Value::Timestamp(a)), text(Value::Timestamp(b)));
            prop_assert_eq!(a.cmp(&b), texts.0.cmp(&texts.1), "{:?}", texts);
        }

        #[test]
        fn uuids_have_the_standard_shape(bytes: [u8; 16]) {
            let text = text(Value::Uuid(bytes));
            let groups: Vec<usize> = text.split('-').map(str::len).collect();
            prop_assert_eq!(groups, vec![8, 4, 4, 4, 12]);
        }
    }
}
