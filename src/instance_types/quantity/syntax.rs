//! Reads and writes quantities as Kubernetes does.

use std::fmt;
use std::str::FromStr;

use super::{Format, NANOS_PER_UNIT, Quantity, QuantityError, UNITS_MAX};

/// The longest text that is parsed. No sensible quantity is longer.
pub(super) const LENGTH_MAX: usize = 64;
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// From 10⁻⁹ in steps of a thousand.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        if text.len() > LENGTH_MAX {
            return Err(QuantityError::TooLong(text.len()));
        }
        let malformed = || QuantityError::Malformed(text.to_owned());
        let (negative, rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return Err(malformed());
        }
        let Suffix { factor, tens, format } = Suffix::parse(suffix).ok_or_else(malformed)?;
        let fraction = fraction.trim_end_matches('0');
        let mut digits: i128 = 0;
        for digit in whole.bytes().chain(fraction.bytes()) {
            digits = digits
                .checked_mul(10)
                .and_then(|digits| digits.checked_add(i128::from(digit - b'0')))
                .ok_or_else(|| QuantityError::Overflow(text.to_owned()))?;
        }
        let places = i32::try_from(fraction.len()).map_err(|_| malformed())?;
        let nanos = scale(digits, factor, tens + 9 - places, text)?;
        if nanos > UNITS_MAX * NANOS_PER_UNIT {
            return Err(QuantityError::Overflow(text.to_owned()));
        }
        Ok(Self { nanos: if negative { -nanos } else { nanos }, format })
    }
}

/// `digits · factor · 10^tens`, if that is a whole number that an i128 can hold.
fn scale(digits: i128, factor: i128, tens: i32, text: &str) -> Result<i128, QuantityError> {
    if digits == 0 {
        return Ok(0);
    }
    let overflow = || QuantityError::Overflow(text.to_owned());
    let power = 10_i128.checked_pow(tens.unsigned_abs());
    let product = digits.checked_mul(factor).ok_or_else(overflow)?;
    if tens >= 0 {
        return power.and_then(|power| product.checked_mul(power)).ok_or_else(overflow);
    }
    match power {
        Some(power) if product % power == 0 => Ok(product / power),
        _ => Err(QuantityError::TooFine(text.to_owned())),
    }
}

/// What a suffix does to the number before it: `· factor · 10^tens`.
struct Suffix {
    factor: i128,
    tens: i32,
    format: Format,
}

impl Suffix {
    fn parse(suffix: &str) -> Option<Self> {
        if let Some(step) = DECIMAL.iter().position(|name| *name == suffix) {
            let tens = i32::try_from(step).ok()? * 3 - 9;
            return Some(Self { factor: 1, tens, format: Format::Decimal });
        }
        if let Some(step) = BINARY.iter().position(|name| *name == suffix) {
            return Some(Self { factor: 1 << (10 * step), tens: 0, format: Format::Binary });
        }
        let exponent = suffix.strip_prefix(['e', 'E'])?;
        let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        // An exponent of three digits is beyond any quantity.
        if digits.is_empty() || digits.len() > 3 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        Some(Self { factor: 1, tens: exponent.parse().ok()?, format: Format::Exponent })
    }
}

/// Kubernetes' canonical form: no fraction, and the largest suffix that needs none.
impl fmt::Display for Quantity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // As Kubernetes does: below 1024, or with a fraction, there is no binary suffix.
        let binary = self.format == Format::Binary
            && self.nanos % NANOS_PER_UNIT == 0
            && self.nanos.abs() >= 1024 * NANOS_PER_UNIT;
        if binary {
            let (value, steps) = reduce(self.nanos / NANOS_PER_UNIT, 1024, BINARY.len() - 1);
            return write!(formatter, "{value}{}", BINARY[steps]);
        }
        if self.is_zero() {
            return formatter.write_str("0");
        }
        let (value, steps) = reduce(self.nanos, 1000, DECIMAL.len() - 1);
        match self.format {
            Format::Exponent if DECIMAL[steps].is_empty() => write!(formatter, "{value}"),
            Format::Exponent if steps < 3 => write!(formatter, "{value}e-{}", 9 - 3 * steps),
            Format::Exponent => write!(formatter, "{value}e{}", 3 * steps - 9),
            Format::Binary | Format::Decimal => write!(formatter, "{value}{}", DECIMAL[steps]),
        }
    }
}

/// Divides by `base` as long as there is no remainder, at most `steps_max` times. Returns the quotient and how often.
fn reduce(mut value: i128, base: i128, steps_max: usize) -> (i128, usize) {
    let mut steps = 0;
    while steps < steps_max && value % base == 0 {
        value /= base;
        steps += 1;
    }
    (value, steps)
}
