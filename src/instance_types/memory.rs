//! How much of the memory that a cloud sells a kubelet reports: hypervisor and kernel keep a share.
//!
//! The shares here are bounds, not fits: an estimate may be low, never high, for a template that promises more than the
//! node has makes the Cluster Autoscaler add nodes for ever. A table's `memory:` or a tag says it exactly.

use super::quantity::Quantity;
use crate::cloud::Family;

/// Karpenter's default (`VM_MEMORY_OVERHEAD_PERCENT`): 7.5 %. Of 164 nodes on AWS it is too little only for some of those
/// with 4 GiB or less; the tightest other one is a c5.xlarge (8 GiB) that keeps 596 MiB of the 614 allowed. The median
/// estimate is 4.1 % of nominal low.
const AWS_PER_MILLE: u64 = 75;
/// The worst of the small ones is a c5.large (4 GiB) on CentOS, whose kernel sets memory aside for crash dumps: 13.33 %.
const AWS_SMALL_PER_MILLE: u64 = 135;
/// 13.5 % of 4 GiB in KiB: what small types may lose at most, and so where the two shares meet without a step.
const AWS_SMALL_KIB_MAX: u64 = 4 * 1024 * 1024 * AWS_SMALL_PER_MILLE / 1000;
/// 58 nodes on Azure fit 1.667 % of nominal + 101 MiB, within −0.3 and +0.7 % of nominal. 2 % + 160 MiB is never less than
/// what one of them keeps: the tightest is a Standard_D2_v2 (7 GiB) that keeps 258 MiB of the 303 allowed. The median
/// estimate is 1.0 % of nominal low.
const AZURE_PER_MILLE: u64 = 20;
const AZURE_FIXED_KIB: u64 = 160 * 1024;

/// The capacity a kubelet will report at least, in whole KiB, of `nominal` bytes as the cloud sells them.
pub fn reported(family: Family, nominal: Quantity) -> Quantity {
    let nominal_kib = nominal.whole() / 1024;
    let share = |per_mille: u64| nominal_kib.saturating_mul(per_mille).div_ceil(1000);
    let kept_kib = match family {
        Family::Aws => share(AWS_SMALL_PER_MILLE).min(share(AWS_PER_MILLE).max(AWS_SMALL_KIB_MAX)),
        Family::Azure => share(AZURE_PER_MILLE).saturating_add(AZURE_FIXED_KIB),
    };
    Quantity::bytes(nominal_kib.saturating_sub(kept_kib) * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_is_below_what_nodes_report() {
        // Nominal MiB, and the least that a node of that type was seen to report, in KiB.
        for (family, type_name, nominal_mib, seen_kib) in [
            (Family::Aws, "c5.large, CentOS", 4096, 3_635_200),
            (Family::Aws, "c5.xlarge", 8192, 7_778_300),
            (Family::Aws, "inf1.xlarge", 8192, 7_847_964),
            (Family::Aws, "t3.small", 2048, 2_001_900),
            (Family::Aws, "g6.xlarge", 16384, 15_735_800),
            (Family::Azure, "Standard_D2_v2", 7168, 7_075_800),
            (Family::Azure, "Standard_DS1_v2", 3584, 3_500_000),
            (Family::Azure, "Standard_ND40rs_v2", 688_128, 693_505_000),
        ] {
            let estimate = reported(family, Quantity::mebibytes(nominal_mib).unwrap());
            assert!(estimate.whole() <= seen_kib * 1024, "{type_name}: {estimate}");
            assert!(estimate.whole() > seen_kib * 1024 * 4 / 5, "{type_name}: {estimate} is far too low");
        }
    }

    #[test]
    fn more_memory_never_means_a_lower_estimate() {
        for family in [Family::Aws, Family::Azure] {
            let mut last = Quantity::ZERO;
            for mebibytes in (0..65536).step_by(64) {
                let estimate = reported(family, Quantity::mebibytes(mebibytes).unwrap());
                assert!(estimate >= last, "{family:?}: {mebibytes} MiB");
                last = estimate;
            }
        }
        assert_eq!(reported(Family::Azure, "2Mi".parse().unwrap()), Quantity::ZERO);
    }
}
