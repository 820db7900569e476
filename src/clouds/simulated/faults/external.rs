//! Changes of the world that do not come through the API of the caller.

use std::time::Duration;

use crate::cloud::{GroupReading, ProviderId};
use crate::clouds::simulated::lifecycle::instances;
use crate::clouds::simulated::{ActivityKind, ActivityStatus, Author, Group, GroupStyle, Phase, Refusal, World};

impl World {
    /// Hides a group: the cloud reports that it does not exist. Returns whether there was one.
    pub fn remove_group(&mut self, now: Duration, name: &str) -> bool {
        self.set_hidden(now, name, true)
    }

    /// Shows a hidden group again, as it has developed since. Returns whether there is one.
    pub fn restore_group(&mut self, now: Duration, name: &str) -> bool {
        self.set_hidden(now, name, false)
    }

    /// Ends all deletions of a group that are under way now, each as it would have ended later.
    pub fn end_deletions(&mut self, now: Duration, group: &str) -> Result<(), Refusal> {
        self.edit(now, group, Group::end_deletions)?;
        self.advance(now);
        Ok(())
    }

    /// Launches what is missing at once, as a group does that replaces an unhealthy instance.
    pub fn launch_replacement(&mut self, now: Duration, group: &str) -> Result<(), Refusal> {
        self.edit(now, group, |group, at| group.reconcile(at))
    }

    /// Puts an instance into standby, and lowers the capacity by it.
    pub fn enter_standby(&mut self, now: Duration, group: &str, id: &str) -> Result<(), Refusal> {
        self.edit(now, group, |group, at| {
            let Some(serial) = group.find(id) else { return };
            if let Some(member) = group.members.get_mut(&serial) {
                member.phase = Phase::Standby;
            }
            group.take_capacity(at, group.capacity.saturating_sub(1), Author::External);
        })
    }

    /// A warm pool returns an instance under its ID, for a capacity that is higher by one (Auto Scaling groups only).
    pub fn take_back(&mut self, now: Duration, group: &str, provider_id: &ProviderId) -> Result<(), Refusal> {
        self.edit(now, group, |group, at| group.take_back(at, provider_id))
    }

    /// Adds this many running instances, and raises the capacity by their number.
    pub fn add_instances(&mut self, now: Duration, group: &str, count: u32) -> Result<(), Refusal> {
        self.edit(now, group, |group, at| group.attach(at, count))
    }

    /// Sets the capacity as another client of the same API.
    pub fn set_desired_externally(&mut self, now: Duration, group: &str, to: u32) -> Result<(), Refusal> {
        self.edit(now, group, |group, at| match group.plan.style {
            GroupStyle::AutoScaling => group.set_desired(at, to, Author::External),
            GroupStyle::ScaleSet => group.resize(at, to, None, Author::External).map(|_| ()),
        })?
    }

    /// Keeps readings of every group from now on, for this long.
    pub fn keep_past_readings(&mut self, now: Duration, horizon: Duration) {
        self.advance(now);
        self.past_readings.keep_for(horizon);
        for group in self.groups.values() {
            self.past_readings.record(self.now, group);
        }
    }

    /// The reading of a group this long ago, as far as readings are kept. `None` if the group did not exist then.
    pub fn reading_ago(&self, group: &str, ago: Duration) -> Option<GroupReading> {
        match self.past_readings.at(group, self.now.saturating_sub(ago)) {
            Some(then) => then,
            None => self.group(group).map(Group::reading),
        }
    }

    fn set_hidden(&mut self, now: Duration, name: &str, hidden: bool) -> bool {
        self.advance(now);
        let Some(group) = self.groups.get_mut(name) else { return false };
        let at = self.now;
        if group.hidden != hidden {
            group.hidden = hidden;
            group.narrate(at, if hidden { "the group was removed" } else { "the group is back" }.to_owned());
        }
        self.settle(name);
        true
    }
}

impl Group {
    fn end_deletions(&mut self, at: Duration) {
        let deleting = self.members.iter().filter(|(_, member)| member.phase == Phase::Deleting);
        let ends: Vec<_> =
            deleting.filter_map(|(serial, member)| Some((*serial, member.transition.clone()?.1))).collect();
        for (serial, end) in ends {
            self.schedule_transition(serial, at, end);
        }
    }

    fn take_back(&mut self, at: Duration, provider_id: &ProviderId) {
        self.attach(at, 1);
        let id = provider_id.instance().to_owned();
        if let Some(member) = self.members.values_mut().last() {
            // aws:///ZONE/ID
            let zone = provider_id.as_str().rsplit('/').nth(1).unwrap_or_default();
            (member.id, member.zone, member.provider_id) = (id.clone(), zone.to_owned(), provider_id.clone());
        }
        let activity = self.open_activity(at, ActivityKind::Launch, Some(id));
        self.close_activity(Some(activity), at, ActivityStatus::Successful);
    }

    /// Adds running instances for another client, and raises the capacity by their number.
    fn attach(&mut self, at: Duration, count: u32) {
        for _ in 0..count {
            self.add_member(at, Phase::Running);
        }
        self.capacity = self.capacity.saturating_add(count);
        self.changed();
        self.narrate(at, format!("{} attached from outside, capacity {}", instances(count), self.capacity));
    }
}
