//! Zones that a zonal shift moves a group away from: Auto Scaling launches nothing there until it ends.
//!
//! Only groups whose AvailabilityZoneImpairmentPolicy enables zonal shifts are asked for. Both calls are optional:
//! where they fail, what was known last is used for as long, and without the permissions no zone is withdrawn.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_sdk_autoscaling::types::AutoScalingGroup;
use futures_util::StreamExt as _;
use futures_util::stream;
use tokio::time::timeout;

use super::super::sdk::api::{Ec2Api, ZonalShiftApi};
use super::super::sdk::cache::{Cache, FAILED_TTL, IMMUTABLE_TTL};
use super::super::sdk::errors::refuses_caller;
use crate::cloud::text::shell_word;
use crate::cloud::{CloudError, GroupReading, Permit};

/// How often a group is asked for.
const EVERY: Duration = Duration::from_secs(60);
/// How long a page of a listing waits for this at most.
const LIMIT: Duration = Duration::from_secs(2);
/// Calls at a time.
const AT_ONCE: usize = 8;

/// The zonal shifts of a source's groups.
pub(in crate::clouds::aws) struct ZonalShifts {
    shifts: Arc<dyn ZonalShiftApi>,
    ec2: Arc<dyn Ec2Api>,
    /// The IDs of the zones that a group is moved away from, by its ARN.
    shifted: Cache<String, Vec<String>>,
    /// The names of the region's zones by their IDs.
    names: Cache<(), Arc<HashMap<String, String>>>,
    /// A group that zonal shifts are enabled for.
    any: Mutex<Option<String>>,
}

impl ZonalShifts {
    /// Makes no call yet.
    pub(super) fn new(shifts: Arc<dyn ZonalShiftApi>, ec2: Arc<dyn Ec2Api>) -> Self {
        Self { shifts, ec2, shifted: Cache::default(), names: Cache::default(), any: Mutex::default() }
    }

    /// Asks for those of these groups that have not been asked for lately.
    pub(super) async fn refresh(&self, groups: &[AutoScalingGroup]) {
        let due = groups.iter().filter_map(enabled).filter(|arn| self.shifted.get(arn).is_none());
        let due: Vec<String> = due.collect();
        let Some(any) = due.first() else { return };
        *self.any.lock().unwrap_or_else(PoisonError::into_inner) = Some(any.clone());
        let asked = async {
            stream::iter(&due).for_each_concurrent(AT_ONCE, |arn| self.ask(arn)).await;
            let is_any_shifted = due.iter().any(|arn| self.shifted.get(arn).is_some_and(|zones| !zones.is_empty()));
            if is_any_shifted && self.names.get(&()).is_none() {
                match self.ec2.zone_names().await {
                    Ok(names) => self.names.put((), Arc::new(names), IMMUTABLE_TTL),
                    Err(_) => self.names.put((), self.names.get_expired(&()).unwrap_or_default(), FAILED_TTL),
                }
            }
        };
        if timeout(LIMIT, asked).await.is_err() {
            // What got no response is not asked for in each listing.
            due.iter().filter(|arn| self.shifted.get(arn).is_none()).for_each(|arn| self.keep(arn, FAILED_TTL));
        }
    }

    async fn ask(&self, arn: &String) {
        match self.shifts.shifted_zones(arn).await {
            Ok(zones) => self.shifted.put(arn.clone(), zones, EVERY),
            Err(error @ CloudError::Denied(_)) if !refuses_caller(&error) => {
                self.shifted.put(arn.clone(), Vec::new(), IMMUTABLE_TTL);
            }
            // The resource, and any shift of it, is gone.
            Err(CloudError::NotFound(_)) => self.shifted.put(arn.clone(), Vec::new(), EVERY),
            Err(_) => self.keep(arn, FAILED_TTL),
        }
    }

    fn keep(&self, arn: &String, ttl: Duration) {
        self.shifted.put(arn.clone(), self.shifted.get_expired(arn).unwrap_or_default(), ttl);
    }

    /// Adds what is known to the reading of a group. One whose zones are all withdrawn cannot grow.
    pub(super) fn apply(&self, group: &AutoScalingGroup, reading: &mut GroupReading) {
        let Some(arn) = enabled(group) else { return };
        let shifted = self.shifted.get_expired(&arn).unwrap_or_default();
        let names = self.names.get_expired(&()).unwrap_or_default();
        let is_shifted = |zone: &&String| shifted.iter().any(|id| id == *zone || names.get(id) == Some(*zone));
        let withdrawn = reading.zones.names.iter().filter(is_shifted);
        let withdrawn: BTreeMap<_, _> = withdrawn.map(|zone| (zone.clone(), reason(zone, &arn))).collect();
        if withdrawn.len() == reading.zones.names.len()
            && reading.growth == Permit::Granted
            && let Some(reason) = withdrawn.values().next()
        {
            reading.growth = Permit::Withheld(reason.clone());
        }
        reading.zones.withdrawn = withdrawn;
    }

    /// Makes both calls, if any group needs them, and returns the errors.
    pub(in crate::clouds::aws) async fn try_calls(&self) -> Vec<CloudError> {
        let any = self.any.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(arn) = any else { return Vec::new() };
        let errors = [self.shifts.shifted_zones(&arn).await.err(), self.ec2.zone_names().await.err()];
        errors.into_iter().flatten().collect()
    }
}

/// The ARN of a group that zonal shifts are enabled for.
fn enabled(group: &AutoScalingGroup) -> Option<String> {
    let is_enabled = group.availability_zone_impairment_policy()?.zonal_shift_enabled() == Some(true);
    group.auto_scaling_group_arn().filter(|_| is_enabled).map(str::to_owned)
}

fn reason(zone: &str, arn: &str) -> String {
    format!(
        "a zonal shift moves the group away from {zone}, and Auto Scaling launches nothing there until it ends; see: \
         aws arc-zonal-shift get-managed-resource --resource-identifier {}",
        shell_word(arn)
    )
}

#[cfg(test)]
mod tests {
    use aws_sdk_autoscaling::types::AvailabilityZoneImpairmentPolicy;

    use super::super::super::Settings;
    use super::super::super::sdk::fake::{Fake, sized_group};
    use super::*;
    use crate::cloud::Cloud as _;

    const ARN: &str = "arn:aws:autoscaling:us-east-1:123456789012:autoScalingGroup:1:autoScalingGroupName/asg";

    fn fake(is_enabled: bool, zones: &[&str]) -> Fake {
        let policy = AvailabilityZoneImpairmentPolicy::builder().zonal_shift_enabled(is_enabled).build();
        let group = sized_group(0, 1, 9).auto_scaling_group_arn(ARN).availability_zone_impairment_policy(policy);
        let zones = zones.iter().map(|zone| (*zone).to_owned()).collect();
        Fake::with(vec![group.set_availability_zones(Some(zones)).build()])
    }

    async fn listed(fake: &Fake) -> (Permit, Vec<String>) {
        let settings = Settings { node_groups: "0:9:asg".parse().into_iter().collect(), ..Settings::default() };
        let aws = fake.aws(settings);
        aws.list().await.expect("listed");
        let reading = aws.list().await.expect("listed").groups.remove(0);
        (reading.growth, reading.zones.withdrawn.into_keys().collect())
    }

    fn shift(fake: &Fake, zone: &str) {
        fake.state(|state| state.shifted.insert(ARN.to_owned(), vec![zone.to_owned()]));
    }

    #[tokio::test]
    async fn a_group_confined_to_a_shifted_zone_cannot_grow() {
        let one = fake(true, &["us-east-1a"]);
        assert_eq!(listed(&one).await, (Permit::Granted, Vec::new()));
        assert_eq!(
            (one.calls("GetManagedResource"), one.calls("DescribeAvailabilityZones").len()),
            (vec![ARN.into()], 0)
        );
        shift(&one, "use1-az6");
        assert_eq!(listed(&one).await, (Permit::Granted, Vec::new()), "another zone");
        shift(&one, "use1-az4");
        let (growth, withdrawn) = listed(&one).await;
        assert!(matches!(&growth, Permit::Withheld(why) if why.contains("away from us-east-1a")), "{growth:?}");
        assert_eq!(withdrawn, ["us-east-1a"]);

        let two = fake(true, &["us-east-1a", "us-east-1b"]);
        shift(&two, "use1-az4");
        assert_eq!(listed(&two).await, (Permit::Granted, vec!["us-east-1a".to_owned()]), "the other one is left");
    }

    #[tokio::test]
    async fn nothing_is_asked_without_the_policy_and_nothing_lost_without_the_permission() {
        let without = fake(false, &["us-east-1a"]);
        shift(&without, "use1-az4");
        assert_eq!(listed(&without).await, (Permit::Granted, Vec::new()));
        assert!(without.calls("GetManagedResource").is_empty());
        let denied = fake(true, &["us-east-1a"]);
        shift(&denied, "use1-az4");
        denied.fail("GetManagedResource", "AccessDeniedException", "not allowed", 403);
        assert_eq!(listed(&denied).await, (Permit::Granted, Vec::new()));
        assert_eq!(denied.calls("GetManagedResource").len(), 1, "it is not asked again");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_known_is_kept_while_it_cannot_be_read() {
        let fake = fake(true, &["us-east-1a"]);
        shift(&fake, "use1-az4");
        let settings = Settings { node_groups: "0:9:asg".parse().into_iter().collect(), ..Settings::default() };
        let aws = fake.aws(settings);
        let later = [("InternalServerException", 500), ("ExpiredTokenException", 403), ("AccessDenied", 403)];
        for (round, (code, status)) in later.into_iter().enumerate() {
            let reading = aws.list().await.expect("listed").groups.remove(0);
            assert_ne!(reading.growth, Permit::Granted, "round {round}");
            fake.fail("GetManagedResource", code, "try again", status);
            tokio::time::advance(EVERY).await;
        }
        fake.state(|state| state.failures.clear());
        shift(&fake, "use1-az6");
        let reading = aws.list().await.expect("listed").groups.remove(0);
        assert_eq!(reading.growth, Permit::Granted, "it has ended");
    }
}
