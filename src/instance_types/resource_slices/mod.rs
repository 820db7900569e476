//! The devices that drivers publish as ResourceSlices (Dynamic Resource Allocation), for nodes that do not exist yet.
//!
//! The Cluster Autoscaler compares the names of the devices in a template with those of each real node, and takes a
//! node that lacks one, or has another, for one whose driver is still starting. So a template has all devices of the
//! newest node, not the fewest of any: only what it says about them is the least that nodes agree on.

mod learned;
mod published;
mod slice;

pub(in crate::instance_types) use learned::DriverKey;
pub use learned::{DriverReport, LearnedDriver, LearnedDrivers};
pub use published::{Published, published};
pub use slice::{
    Attribute, Capacity, Counter, CounterConsumption, CounterSet, Device, DeviceSlice, NODE, RequestPolicy,
    RequestRange,
};
