//! What CA asked for and was promised: nothing is launched that nobody asked for, or twice, and nothing is lost.

use super::cloud::{View, ZONES};
use super::laws::Broken;
use super::world::World;
use crate::cloud::{GroupReading, InstanceState, ZoneName};
use crate::group::Group;
use crate::group::cluster_nodes::ClusterNodes;

/// What CA asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Asked {
    Increase(u8, Option<ZoneName>),
    Delete(u8),
    DeleteUnregistered(u8),
    Placeholder,
    Decrease,
}

/// What was asked for and promised in a group that grows by launches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Promises {
    /// The capacity at the start, and what other clients have added.
    given: u8,
    /// How many instances CA asked for, without the requests that got an error: in the group or its first zone, and in
    /// the second one.
    asked: [u8; 2],
    /// How many were launched for that.
    made: [u8; 2],
    /// How far the target does not fall: nobody has lowered anything since, and nothing has changed the group that the
    /// machine does not know.
    least: u8,
    /// The capacity and the live instances when the last launch was sent.
    sent_on: (u8, u8),
    /// Whether the last read lags in another way than that it is from before the last launch.
    is_lagging: bool,
    /// Whether CA has deleted an instance or given something back.
    is_lowered: bool,
}

impl Promises {
    pub(super) fn new(capacity: u8) -> Self {
        Self { given: capacity, ..Self::default() }
    }

    pub(super) fn asks(&mut self, asked: &Asked) {
        if let Asked::Increase(number, zone) = asked {
            self.asked[place(zone.as_ref())] += number;
        } else {
            self.is_lowered = true;
            self.gives_up(1);
        }
    }

    /// A request got an error. A capacity that was written for it may take effect all the same.
    pub(super) fn refused(&mut self, asked: &Asked, group: &Group) -> Result<(), Broken> {
        let Asked::Increase(number, zone) = asked else { return Ok(()) };
        self.gives_up(*number);
        if is_withheld(group) {
            return Ok(());
        }
        self.asked[place(zone.as_ref())] -= number;
        self.made(0, zone.as_ref())
    }

    /// The target may fall by as many.
    pub(super) fn gives_up(&mut self, number: u8) {
        self.least = self.least.saturating_sub(number);
    }

    /// Another client set the capacity, or has deleted an instance.
    pub(super) fn change(&mut self, raised_by: u8) {
        self.given += raised_by;
        self.least = 0;
    }

    /// A read was answered.
    pub(super) fn read(&mut self, read: &View, now: &View) {
        let is_from_before_launch = (read.desired, read.live()) == self.sent_on && read.foreign == now.foreign;
        self.is_lagging = read != now && !is_from_before_launch;
    }

    /// As many instances are launched, in this zone if each is served.
    pub(super) fn made(&mut self, number: u8, zone: Option<&ZoneName>) -> Result<(), Broken> {
        let place = place(zone);
        self.made[place] += number;
        let (made, asked) = (self.made[place], self.asked[place]);
        if made > asked {
            return Err(Broken(format!("law 7: {made} are launched in {zone:?}, and {asked} were asked for")));
        }
        Ok(())
    }

    /// A launch is being sent. `now` is what the cloud knows, unless the read that it is for does not show all that
    /// others did.
    pub(super) fn launches(
        &mut self,
        group: &Group,
        basis: &GroupReading,
        (number, zone): (u8, Option<&ZoneName>),
        now: Option<&View>,
    ) -> Result<(), Broken> {
        let state = group.state();
        let in_zone = state.status_in(zone, &ClusterNodes::Unwatched);
        if zone.is_some() && in_zone.target < in_zone.live + u32::from(number) {
            return Err(Broken(format!(
                "law 4: {number} are launched in {zone:?}, whose target is {}",
                in_zone.target
            )));
        }
        let status = state.status();
        let left_out = state.cancelled() + status.in_state(InstanceState::Deleting);
        if status.target + left_out < basis.desired + u32::from(number) {
            return Err(Broken(format!("law 4: {number} are launched, and the target is {}", status.target)));
        }
        self.least = if now.is_some() { u8::try_from(status.target).expect("few") } else { 0 };
        self.sent_on = now.map(|view| (view.desired, view.live())).unwrap_or_default();
        Ok(())
    }

    /// What holds in every state.
    pub(super) fn check(&self, world: &World) -> Result<(), Broken> {
        let (most, target) =
            (u32::from(self.given + self.asked.iter().sum::<u8>()), world.group.state().status().target);
        if target < u32::from(self.least) && !self.is_lagging {
            return Err(Broken(format!("law 4: the target is {target}, and {} were promised", self.least)));
        }
        let capacity = u32::from(world.cloud.view.desired + world.unraised());
        if target > most || capacity > most {
            return Err(Broken(format!(
                "law 11: the target is {target}, the capacity {capacity}, and {most} is the most"
            )));
        }
        Ok(())
    }

    /// A capacity is being written.
    pub(super) fn sets_capacity(&self, world: &World, to: u8) -> Result<(), Broken> {
        if self.is_lowered || is_withheld(&world.group) {
            return Ok(());
        }
        Err(Broken(format!("law 1: a capacity of {to} is written for a launch: it undoes what others wrote")))
    }
}

fn place(zone: Option<&ZoneName>) -> usize {
    usize::from(zone.is_some_and(|zone| **zone != *ZONES[0]))
}

/// Whether the cloud does not offer launches, so that capacities are written.
fn is_withheld(group: &Group) -> bool {
    group.withheld.is_some()
}
