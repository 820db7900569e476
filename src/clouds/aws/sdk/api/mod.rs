//! The AWS calls that Headcount makes: a trait for each service, and its implementation through the SDK.

mod actions;
mod auto_scaling;
mod ec2;
mod eks;
mod pricing;
mod zonal_shift;

pub(super) use actions::call_names;
pub use actions::{
    CHECK_ACTIONS, FLEET_ACTIONS, LAUNCH_ACTIONS, PRICE_ACTIONS, READ_ACTIONS, WRITE_ACTIONS, ZONE_ACTIONS,
};
pub(in crate::clouds::aws) use auto_scaling::{AutoScaling, AutoScalingApi, BrokenGroup, GroupQuery, GroupsPage};
pub(in crate::clouds::aws) use ec2::{Ec2, Ec2Api, TemplateKey};
pub(in crate::clouds::aws) use eks::{Eks, EksApi};
pub(in crate::clouds::aws) use pricing::{Hardware, Pricing, PricingApi};
pub(in crate::clouds::aws) use zonal_shift::{ZonalShift, ZonalShiftApi};

/// The most group names in one DescribeAutoScalingGroups, the most records of its pages, the most instance types in one
/// DescribeInstanceTypes, and the most instances in one TerminateInstanceInAutoScalingGroup.
pub(in crate::clouds::aws) const BATCH: usize = 100;
/// The most launch templates in one DescribeLaunchTemplates: the most records of its pages.
pub(in crate::clouds::aws) const TEMPLATES: usize = 200;
/// [`BATCH`] in the type that the APIs take.
const PAGE_RECORDS: i32 = 100;
