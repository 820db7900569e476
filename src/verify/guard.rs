//! Which group may be used, and what that costs.

use thiserror::Error;

use super::limits::{LAUNCHES_MAX, OWN_INSTANCES_MAX, VMS_AT_START_MAX};
use super::settle::Sizes;
use super::state::Found;
use crate::cloud::{GroupReading, Permit, SET_ASIDE_TAG, SET_ASIDE_VALUE};

/// Why a group is not used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Ineligible {
    /// Its owner did not set it aside.
    #[error("the group does not carry the tag {SET_ASIDE_TAG}={SET_ASIDE_VALUE}: it is not set aside for this")]
    NotSetAside,
    /// It cannot be emptied.
    #[error("the group's minimum is {0}: a group that is set aside has the minimum 0")]
    Minimum(u32),
    /// It has more than a few instances.
    #[error("the group has a capacity of {desired} and {live} instances: the most is {VMS_AT_START_MAX}")]
    TooLarge {
        /// Its capacity.
        desired: u32,
        /// Its live instances.
        live: u32,
    },
    /// Something is being created or deleted.
    #[error("the group is not at rest (capacity {desired}, {running} instances running of {live}): wait until it is")]
    NotAtRest {
        /// Its capacity.
        desired: u32,
        /// Its running instances.
        running: u32,
        /// Its live instances.
        live: u32,
    },
    /// The maximum leaves no room for the instances of the probes.
    #[error("the probes need room for {needed} instances: the {what} is {max}")]
    NoRoom {
        /// How many there will be.
        needed: u32,
        /// What limits it.
        what: &'static str,
        /// To how many.
        max: u32,
    },
    /// The cloud does not let it grow or shrink.
    #[error("the group cannot be written to: {0}")]
    Withheld(String),
    /// Its instances have different weights.
    #[error("the group's capacity is not counted in instances")]
    Weighted,
}

/// What is allowed on the command line.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The most instances at a time.
    pub instances_max: u32,
}

/// What would be done.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The size that is restored, and its instances.
    pub found: Found,
    /// The most instances at a time, those found included.
    pub instances_max: u32,
    /// The most launches.
    pub launches_max: u32,
}

impl Plan {
    /// With this size to restore, whatever the group looks like.
    pub fn restoring(found: Found, instances_max: u32) -> Self {
        Self { found, instances_max, launches_max: LAUNCHES_MAX }
    }
}

/// Whether a group may be used, and for what.
///
/// # Errors
///
/// If it may not.
pub fn plan(reading: &GroupReading, bounds: Bounds) -> Result<Plan, Ineligible> {
    if !reading.hints.is_set_aside {
        return Err(Ineligible::NotSetAside);
    }
    if reading.min > 0 {
        return Err(Ineligible::Minimum(reading.min));
    }
    if reading.units_per_node.is_none() {
        return Err(Ineligible::Weighted);
    }
    for permit in [&reading.growth, &reading.removal] {
        if let Permit::Withheld(reason) = permit {
            return Err(Ineligible::Withheld(reason.clone()));
        }
    }
    let sizes = Sizes::of(reading);
    let (desired, live, running) = (reading.desired, sizes.live, sizes.running);
    if desired > VMS_AT_START_MAX || live > VMS_AT_START_MAX {
        return Err(Ineligible::TooLarge { desired, live });
    }
    if sizes.going > 0 || running != desired || live != desired {
        return Err(Ineligible::NotAtRest { desired, running, live });
    }
    room(desired, reading.max, bounds.instances_max)?;
    Ok(Plan::restoring(Found::of(reading), bounds.instances_max))
}

fn room(found: u32, group_max: u32, instances_max: u32) -> Result<(), Ineligible> {
    let needed = found + OWN_INSTANCES_MAX;
    let limits = [("group's maximum", group_max), ("--max-instances", instances_max)];
    match limits.into_iter().find(|(_, max)| *max < needed) {
        Some((what, max)) => Err(Ineligible::NoRoom { needed, what, max }),
        None => Ok(()),
    }
}
