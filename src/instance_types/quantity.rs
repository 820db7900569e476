//! Kubernetes resource quantities, exactly: `16Gi`, `1930m`, `2.5`, `1e3`.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error as _, Visitor};
use thiserror::Error;

/// Kubernetes' finest suffix is `n`: values are whole numbers of billionths.
const NANOS_PER_UNIT: i128 = 1_000_000_000;
/// Kubernetes keeps a quantity's value in an int64.
const UNITS_MAX: i128 = i64::MAX as i128;
/// The longest text that is parsed. No sensible quantity is longer.
const LENGTH_MAX: usize = 64;
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// From 10⁻⁹ in steps of a thousand.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];

/// A resource quantity, as `k8s.io/apimachinery/pkg/api/resource.Quantity`: a number, and the kind of suffix it is written with.
///
/// Two quantities compare by the number alone.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

/// How a quantity is written; the suffix it was read with decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// `Ki`, `Mi`, …
    Binary,
    /// `m`, `k`, `M`, …
    Decimal,
    /// `e3`, `e6`, …
    Exponent,
}

/// Why a text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum QuantityError {
    /// Not of the form.
    #[error("{0:?} is not a quantity; write a number and a suffix, for instance 2, 500m or 16Gi")]
    Malformed(String),
    /// Longer than any quantity.
    #[error("a quantity of {0} characters is too long")]
    TooLong(usize),
    /// Beyond what Kubernetes can hold.
    #[error("{0:?} is beyond what a quantity can hold (2^63-1)")]
    Overflow(String),
    /// Finer than what Kubernetes can hold.
    #[error("{0:?} is finer than what a quantity can hold (1n)")]
    TooFine(String),
}

impl Quantity {
    /// Zero.
    pub const ZERO: Self = Self { nanos: 0, format: Format::Decimal };

    /// A whole number of something that is counted (cores, pods, devices).
    pub fn units(count: u32) -> Self {
        Self { nanos: i128::from(count) * NANOS_PER_UNIT, format: Format::Decimal }
    }

    /// Thousandths, as of a core.
    pub fn millis(count: u32) -> Self {
        Self { nanos: i128::from(count) * (NANOS_PER_UNIT / 1000), format: Format::Decimal }
    }

    /// Bytes, written with binary suffixes.
    pub fn bytes(count: u64) -> Self {
        Self { nanos: i128::from(count) * NANOS_PER_UNIT, format: Format::Binary }
    }

    /// Mebibytes, written with binary suffixes. `None` beyond 2⁶³−1 bytes.
    pub fn mebibytes(count: u64) -> Option<Self> {
        let bytes = count.checked_mul(1 << 20).filter(|bytes| i128::from(*bytes) <= UNITS_MAX)?;
        Some(Self::bytes(bytes))
    }

    /// The whole units (bytes, cores), rounded down; 0 if it is negative.
    pub fn whole(self) -> u64 {
        u64::try_from(self.nanos / NANOS_PER_UNIT).unwrap_or_default()
    }

    /// The thousandths, rounded down; 0 if it is negative, `u64::MAX` if there are more.
    pub fn whole_millis(self) -> u64 {
        u64::try_from((self.nanos / (NANOS_PER_UNIT / 1000)).max(0)).unwrap_or(u64::MAX)
    }

    /// The number as floating point: the one nearest to the decimal number, up to 9 million units.
    #[allow(clippy::cast_precision_loss)]
    pub fn as_f64(self) -> f64 {
        self.nanos as f64 / NANOS_PER_UNIT as f64
    }

    /// Whether it is zero.
    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Whether it is below zero, which no capacity can be.
    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// The difference, or zero if `other` is greater. Written as `self` is.
    #[must_use]
    pub fn less(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_sub(other.nanos).max(0), format: self.format }
    }

    /// The sum, no greater than what a quantity can hold. Written as `self` is, or as `other` where `self` is zero.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        let nanos = self.nanos.saturating_add(other.nanos).min(UNITS_MAX * NANOS_PER_UNIT);
        Self { nanos, format }
    }
}

impl Default for Quantity {
    fn default() -> Self {
        Self::ZERO
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

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
        // Three digits already are more than any quantity can hold.
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

/// From a text, or from a whole number.
impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct QuantityVisitor;
        impl Visitor<'_> for QuantityVisitor {
            type Value = Quantity;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a quantity, for instance 2, 500m or 16Gi")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Quantity, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Quantity, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Quantity, E> {
                self.visit_str(&number.to_string())
            }
        }
        // The YAML parser passes numbers on as they are written, so none is converted to a float.
        let quantity = deserializer.deserialize_str(QuantityVisitor)?;
        if quantity.is_negative() {
            return Err(D::Error::custom(format!("{quantity} is negative; a capacity cannot be")));
        }
        Ok(quantity)
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
