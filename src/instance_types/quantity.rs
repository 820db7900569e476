//! Kubernetes resource quantities, exactly: `16Gi`, `1930m`, `2.5`, `1e3`.

mod syntax;

use std::cmp::Ordering;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, Visitor};
use thiserror::Error;

/// Kubernetes' finest suffix is `n`: values are whole numbers of billionths.
const NANOS_PER_UNIT: i128 = 1_000_000_000;
/// Kubernetes keeps a quantity's value in an int64.
const UNITS_MAX: i128 = i64::MAX as i128;

/// A resource quantity, as `k8s.io/apimachinery/pkg/api/resource.Quantity`: a number, and the kind of suffix it is
/// written with.
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
    /// It does not have the form of a quantity.
    #[error("{0:?} is not a quantity; write a number and a suffix, for instance 2, 500m or 16Gi")]
    Malformed(String),
    /// Longer than any quantity.
    #[error("a quantity of {0} characters is too long")]
    TooLong(usize),
    /// Beyond what Kubernetes can hold.
    #[error("{0:?} is beyond what a quantity can hold (2^63-1)")]
    Overflow(String),
    /// More decimal places than Kubernetes can hold.
    #[error("{0:?} has more than nine decimal places, which a quantity cannot hold")]
    TooFine(String),
}

impl Quantity {
    /// Zero.
    pub const ZERO: Self = Self { nanos: 0, format: Format::Decimal };

    /// A whole number of something that is counted (cores, pods, devices).
    pub fn units(count: u32) -> Self {
        Self { nanos: i128::from(count) * NANOS_PER_UNIT, format: Format::Decimal }
    }

    /// Half of it, rounded down to a whole unit, but at least one.
    pub fn halved(self) -> Self {
        let units = self.nanos / NANOS_PER_UNIT / 2;
        Self { nanos: units.max(1) * NANOS_PER_UNIT, ..self }
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

    /// Whether it has no fraction.
    pub fn is_whole(self) -> bool {
        self.nanos % NANOS_PER_UNIT == 0
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

    /// The difference, or zero if `other` is greater. It has the suffix style of `self`.
    #[must_use]
    pub fn less(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_sub(other.nanos).max(0), format: self.format }
    }

    /// The sum, capped at what a quantity can hold. It has the suffix style of `self`, or of `other` if `self` is zero.
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
            return Err(D::Error::custom(format!("{quantity} is negative; give a capacity of 0 or more")));
        }
        Ok(quantity)
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
