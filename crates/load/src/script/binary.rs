//! Values in the binary form of the server's types, where that says the same as their text.
//!
//! A value that does not fit the type is sent as text, so that the server's error is the same: an
//! integer out of range is 22003. A double is sent with all its digits, while its text has 15.

use super::value::{Datum, Value};

/// A type whose binary form is known here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinaryType {
    /// `boolean`.
    Bool,
    /// `smallint`.
    Int2,
    /// `integer`.
    Int4,
    /// `bigint`.
    Int8,
    /// `oid`.
    Oid,
    /// `real`.
    Float4,
    /// `double precision`.
    Float8,
    /// `uuid`.
    Uuid,
    /// `text`, `varchar`, whose binary form is the text.
    Text,
}

impl BinaryType {
    /// The type of this OID; `None` if its values go as text.
    #[must_use]
    pub fn of(oid: u32) -> Option<Self> {
        Some(match oid {
            16 => Self::Bool,
            20 => Self::Int8,
            21 => Self::Int2,
            23 => Self::Int4,
            25 | 1043 => Self::Text,
            26 => Self::Oid,
            700 => Self::Float4,
            701 => Self::Float8,
            2950 => Self::Uuid,
            _ => return None,
        })
    }

    /// Appends a value in binary; false, and nothing appended, if it has to go as text.
    pub fn write(self, datum: Datum<'_>, out: &mut Vec<u8>) -> bool {
        let value = match (self, datum) {
            (Self::Text, datum) => {
                datum.write_text(out);
                return true;
            }
            (_, Datum::Text(_)) => return false,
            (_, Datum::Value(value)) => value,
        };
        match (self, value) {
            (Self::Bool, Value::Bool(value)) => out.push(u8::from(value)),
            (Self::Int8, Value::Int(value)) => out.extend_from_slice(&value.to_be_bytes()),
            (Self::Int4, Value::Int(value)) => {
                return put(i32::try_from(value).ok().map(i32::to_be_bytes), out);
            }
            (Self::Int2, Value::Int(value)) => {
                return put(i16::try_from(value).ok().map(i16::to_be_bytes), out);
            }
            (Self::Oid, Value::Int(value)) => {
                return put(u32::try_from(value).ok().map(u32::to_be_bytes), out);
            }
            (Self::Float8, Value::Double(value)) => out.extend_from_slice(&value.to_be_bytes()),
            #[allow(clippy::cast_precision_loss)]
            // the nearest double, as the server reads the text
            (Self::Float8, Value::Int(value)) => {
                out.extend_from_slice(&(value as f64).to_be_bytes());
            }
            (Self::Float4, Value::Double(value)) => return put(real(value), out),
            (Self::Uuid, Value::Uuid(value)) => out.extend_from_slice(&value),
            _ => return false,
        }
        true
    }
}

fn put<const N: usize>(bytes: Option<[u8; N]>, out: &mut Vec<u8>) -> bool {
    bytes.is_some_and(|bytes| {
        out.extend_from_slice(&bytes);
        true
    })
}

/// A real, unless the number is too large or too small for one.
fn real(value: f64) -> Option<[u8; 4]> {
    #[allow(clippy::cast_possible_truncation)] // rounded, and checked below
    let real = value as f32;
    let fits = real.is_finite() == value.is_finite() && (real != 0.0 || value == 0.0);
    fits.then(|| real.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(oid: u32, datum: Datum<'_>) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let binary = BinaryType::of(oid)?.write(datum, &mut out);
        assert!(binary || out.is_empty());
        binary.then_some(out)
    }

    #[test]
    fn what_fits_is_binary() {
        let value = Datum::Value;
        assert_eq!(written(16, value(Value::Bool(true))), Some(vec![1]));
        assert_eq!(written(21, value(Value::Int(-2))), Some(vec![0xff, 0xfe]));
        assert_eq!(written(23, value(Value::Int(258))), Some(vec![0, 0, 1, 2]));
        assert_eq!(
            written(26, value(Value::Int(0xffff_ffff))),
            Some(vec![0xff; 4])
        );
        assert_eq!(written(20, value(Value::Int(-1))), Some(vec![0xff; 8]));
        assert_eq!(
            written(701, value(Value::Int(3))),
            Some(3.0_f64.to_be_bytes().to_vec())
        );
        assert_eq!(
            written(700, value(Value::Double(0.1))),
            Some(0.1_f32.to_be_bytes().to_vec())
        );
        assert_eq!(
            written(2950, value(Value::Uuid([7; 16]))),
            Some(vec![7; 16])
        );
        assert_eq!(written(25, Datum::Text(b"some")), Some(b"some".to_vec()));
        assert_eq!(written(1043, value(Value::Int(12))), Some(b"12".to_vec()));
    }

    #[test]
    fn what_does_not_fit_goes_as_text() {
        let value = Datum::Value;
        for (oid, datum) in [
            (16, value(Value::Int(1))),
            (21, value(Value::Int(32768))),
            (23, value(Value::Int(1 << 31))),
            (26, value(Value::Int(-1))),
            (20, value(Value::Double(1.0))),
            (23, Datum::Text(b"007")),
            (700, value(Value::Double(1e300))),
            (700, value(Value::Double(1e-300))),
            (2950, Datum::Text(b"x")),
            (1700, value(Value::Int(1))),
        ] {
            assert_eq!(written(oid, datum), None, "{oid} {datum:?}");
        }
    }
}
