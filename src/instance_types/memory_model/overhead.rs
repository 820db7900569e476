//! `memoryOverhead:`, the configured share of nominal memory that is kept.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::instance_types::Quantity;

/// A hundred percent, in thousandths of a percent.
const WHOLE: u32 = 100_000;
const MIB: u64 = 1 << 20;
/// Karpenter subtracts this on Graviton before it takes the share, for the memory that Linux keeps for devices there.
const GRAVITON_MIB: u64 = 64;

/// The share of an instance's nominal memory that the hypervisor and the kernel keep, below 100 %.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overhead {
    /// In thousandths of a percent.
    share: u32,
}

/// Why a text is not an [`Overhead`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OverheadError {
    /// Not a percentage, or one with too many decimal places.
    #[error("{0:?} is not a percentage; write a number with a percent sign, such as 7.5%")]
    Malformed(String),
    /// No memory would be left.
    #[error("{0:?} leaves nodes no memory; write less than 100%, such as 7.5%")]
    Whole(String),
}

impl FromStr for Overhead {
    type Err = OverheadError;

    fn from_str(text: &str) -> Result<Self, OverheadError> {
        let malformed = || OverheadError::Malformed(text.to_owned());
        let number = text.trim().strip_suffix('%').ok_or_else(malformed)?;
        let (units, thousandths) = number.split_once('.').unwrap_or((number, "0"));
        let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !all_digits(units) || !all_digits(thousandths) || thousandths.len() > 3 {
            return Err(malformed());
        }
        let share: Result<u32, _> = format!("{units}{thousandths:0<3}").parse();
        match share {
            Ok(share) if share < WHOLE => Ok(Self { share }),
            _ => Err(OverheadError::Whole(text.to_owned())),
        }
    }
}

impl fmt::Display for Overhead {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let thousandths = format!("{:03}", self.share % 1000);
        let thousandths = thousandths.trim_end_matches('0');
        let point = if thousandths.is_empty() { "" } else { "." };
        write!(formatter, "{}{point}{thousandths}%", self.share / 1000)
    }
}

impl Overhead {
    /// The rest of `nominal` bytes, by Karpenter's formula: in whole MiB, with the share rounded up. On Graviton, 64
    /// MiB are subtracted first.
    pub(super) fn left_of(self, nominal: Quantity, graviton: bool) -> Quantity {
        let nominal_mib = nominal.whole() / MIB;
        let nominal_mib = if graviton { nominal_mib.saturating_sub(GRAVITON_MIB) } else { nominal_mib };
        let kept_mib = nominal_mib.saturating_mul(u64::from(self.share)).div_ceil(u64::from(WHOLE));
        Quantity::bytes(nominal_mib.saturating_sub(kept_mib) * MIB)
    }
}
