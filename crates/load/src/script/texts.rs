//! Texts of numbers, letters and times.

use std::io::Write as _;

use super::random::splitmix64;

/// Microseconds from 1970 to the start of the year 1, and to that of 10000.
pub(super) const TIMESTAMPS_US: std::ops::Range<i64> =
    -62_135_596_800_000_000..253_402_300_800_000_000;

pub(super) fn write_int(value: i64, out: &mut Vec<u8>) {
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

/// Letters and digits, none of which means anything in a literal, in COPY or in an array.
pub(super) fn write_letters(seed: u64, length: u16, out: &mut Vec<u8>) {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz012345";
    const PER_WORD: usize = 12;
    let mut state = seed;
    let mut left = usize::from(length);
    while left > 0 {
        let mut word = splitmix64(&mut state);
        let count = left.min(PER_WORD);
        for _ in 0..count {
            out.push(LETTERS[(word & 31) as usize]);
            word >>= 5;
        }
        left -= count;
    }
}

/// `2026-11-23 09:30:00.5+00`, as SQL reads it whatever DateStyle says.
pub(super) fn write_timestamp(value: i64, out: &mut Vec<u8>) {
    const DAY_US: i64 = 86_400_000_000;
    let (year, month, day) = civil(value.div_euclid(DAY_US));
    let us = value.rem_euclid(DAY_US);
    let seconds = us / 1_000_000;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let seconds = seconds % 60;
    // A Vec can always be written to.
    let _ = write!(
        out,
        "{year:04}-{month:02}-{day:02} {hours:02}:{minutes:02}:{seconds:02}"
    );
    if us % 1_000_000 > 0 {
        let _ = write!(out, ".{:06}", us % 1_000_000);
    }
    out.extend_from_slice(b"+00");
}

/// Year, month and day of a day after 1970-01-01, in the Gregorian calendar. Howard Hinnant,
/// "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    (year + era * 400 + i64::from(month <= 2), month, day)
}
