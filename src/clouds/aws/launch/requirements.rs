//! Attribute-based instance type selection: requirements instead of instance types. EC2 Auto Scaling, launch templates
//! and the EC2 request each have their own type for them. Every field is copied: with one left out, EC2 would return
//! types that the group never launches, and the template would be wrong.

use aws_sdk_autoscaling::types::InstanceRequirements as GroupRequirements;
use aws_sdk_ec2::types as ec2;
use aws_sdk_ec2::types::{InstanceRequirements as TemplateRequirements, InstanceRequirementsRequest};

/// A range of a request type from any type with `min` and `max`.
macro_rules! range {
    ($request:ident, $range:expr) => {
        $range.as_ref().map(|range| ec2::$request::builder().set_min(range.min).set_max(range.max).build())
    };
}

/// Enumerations of EC2 from those of another API; their texts are the same.
macro_rules! texts {
    ($kind:ident, $values:expr) => {
        $values.as_ref().map(|values| values.iter().map(|value| ec2::$kind::from(value.as_str())).collect())
    };
}

/// Copies the fields that all three types have.
macro_rules! shared {
    ($from:expr) => {{
        let from = $from;
        InstanceRequirementsRequest::builder()
            .set_v_cpu_count(range!(VCpuCountRangeRequest, from.v_cpu_count))
            .set_memory_mib(range!(MemoryMiBRequest, from.memory_mib))
            .set_cpu_manufacturers(texts!(CpuManufacturer, from.cpu_manufacturers))
            .set_memory_gib_per_v_cpu(range!(MemoryGiBPerVCpuRequest, from.memory_gib_per_v_cpu))
            .set_excluded_instance_types(from.excluded_instance_types.clone())
            .set_instance_generations(texts!(InstanceGeneration, from.instance_generations))
            .set_spot_max_price_percentage_over_lowest_price(from.spot_max_price_percentage_over_lowest_price)
            .set_max_spot_price_as_percentage_of_optimal_on_demand_price(
                from.max_spot_price_as_percentage_of_optimal_on_demand_price,
            )
            .set_on_demand_max_price_percentage_over_lowest_price(from.on_demand_max_price_percentage_over_lowest_price)
            .set_bare_metal(from.bare_metal.as_ref().map(|value| ec2::BareMetal::from(value.as_str())))
            .set_burstable_performance(
                from.burstable_performance.as_ref().map(|value| ec2::BurstablePerformance::from(value.as_str())),
            )
            .set_require_hibernate_support(from.require_hibernate_support)
            .set_network_interface_count(range!(NetworkInterfaceCountRequest, from.network_interface_count))
            .set_local_storage(from.local_storage.as_ref().map(|value| ec2::LocalStorage::from(value.as_str())))
            .set_local_storage_types(texts!(LocalStorageType, from.local_storage_types))
            .set_total_local_storage_gb(range!(TotalLocalStorageGbRequest, from.total_local_storage_gb))
            .set_baseline_ebs_bandwidth_mbps(range!(BaselineEbsBandwidthMbpsRequest, from.baseline_ebs_bandwidth_mbps))
            .set_accelerator_types(texts!(AcceleratorType, from.accelerator_types))
            .set_accelerator_count(range!(AcceleratorCountRequest, from.accelerator_count))
            .set_accelerator_manufacturers(texts!(AcceleratorManufacturer, from.accelerator_manufacturers))
            .set_accelerator_names(texts!(AcceleratorName, from.accelerator_names))
            .set_accelerator_total_memory_mib(range!(
                AcceleratorTotalMemoryMiBRequest,
                from.accelerator_total_memory_mib
            ))
            .set_network_bandwidth_gbps(range!(NetworkBandwidthGbpsRequest, from.network_bandwidth_gbps))
            .set_allowed_instance_types(from.allowed_instance_types.clone())
    }};
}

/// The instance families that set the performance baseline.
fn baseline<'a>(families: impl Iterator<Item = Option<&'a String>>) -> ec2::BaselinePerformanceFactorsRequest {
    let reference = |family: Option<&String>| {
        ec2::PerformanceFactorReferenceRequest::builder().set_instance_family(family.cloned()).build()
    };
    let references = families.map(reference).collect();
    let cpu = ec2::CpuPerformanceFactorRequest::builder().set_references(Some(references)).build();
    ec2::BaselinePerformanceFactorsRequest::builder().cpu(cpu).build()
}

/// The requirements of an override of a group.
pub(super) fn of_group(from: &GroupRequirements) -> InstanceRequirementsRequest {
    let factors = from.baseline_performance_factors.as_ref().and_then(|factors| factors.cpu.as_ref());
    let factors = factors.map(|cpu| baseline(cpu.references().iter().map(|known| known.instance_family.as_ref())));
    shared!(from).set_baseline_performance_factors(factors).build()
}

/// The requirements of a launch template.
pub(super) fn of_template(from: &TemplateRequirements) -> InstanceRequirementsRequest {
    let factors = from.baseline_performance_factors.as_ref().and_then(|factors| factors.cpu.as_ref());
    let factors = factors.map(|cpu| baseline(cpu.references().iter().map(|known| known.instance_family.as_ref())));
    let encryption = from.require_encryption_in_transit;
    shared!(from).set_baseline_performance_factors(factors).set_require_encryption_in_transit(encryption).build()
}

#[cfg(test)]
mod tests {
    use aws_sdk_autoscaling::types as group;

    use super::*;

    #[test]
    fn every_field_is_copied() {
        let requirements = GroupRequirements::builder()
            .v_cpu_count(group::VCpuCountRequest::builder().min(4).max(8).build())
            .memory_mib(group::MemoryMiBRequest::builder().min(1024).build())
            .allowed_instance_types("m5.*")
            .accelerator_types(group::AcceleratorType::Gpu)
            .accelerator_manufacturers(group::AcceleratorManufacturer::Nvidia)
            .network_bandwidth_gbps(group::NetworkBandwidthGbpsRequest::builder().min(1.5).build())
            .max_spot_price_as_percentage_of_optimal_on_demand_price(60)
            .baseline_performance_factors(
                group::BaselinePerformanceFactorsRequest::builder()
                    .cpu(
                        group::CpuPerformanceFactorRequest::builder()
                            .references(
                                group::PerformanceFactorReferenceRequest::builder().instance_family("m6i").build(),
                            )
                            .build(),
                    )
                    .build(),
            )
            .build();
        let request = of_group(&requirements);
        assert_eq!(request.v_cpu_count().map(|range| (range.min, range.max)), Some((Some(4), Some(8))));
        assert_eq!(request.memory_mib().map(|range| (range.min, range.max)), Some((Some(1024), None)));
        assert_eq!(request.allowed_instance_types(), ["m5.*"]);
        assert_eq!(request.accelerator_types(), [ec2::AcceleratorType::Gpu]);
        assert_eq!(request.accelerator_manufacturers(), [ec2::AcceleratorManufacturer::Nvidia]);
        assert_eq!(request.network_bandwidth_gbps().and_then(|range| range.min), Some(1.5));
        assert_eq!(request.max_spot_price_as_percentage_of_optimal_on_demand_price(), Some(60));
        let cpu = request.baseline_performance_factors().and_then(|factors| factors.cpu.as_ref()).expect("carried");
        assert_eq!(cpu.references()[0].instance_family.as_deref(), Some("m6i"));
    }

    #[test]
    fn empty_requirements_give_an_empty_request() {
        let empty = InstanceRequirementsRequest::builder().build();
        assert_eq!(of_group(&GroupRequirements::builder().build()), empty);
        assert_eq!(of_template(&TemplateRequirements::builder().build()), empty);
    }
}
