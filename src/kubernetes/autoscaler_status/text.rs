//! The status as releases before 1.30 write it: text for people (`clusterstate/api/utils.go`, GetReadableString).

use super::{AutoscalerGroup, AutoscalerStatus};

/// The first words of the text.
const HEADING: &str = "Cluster-autoscaler status at ";

/// Reads the text; `None` if it is not of this form.
pub(super) fn parse(text: &str) -> Option<AutoscalerStatus> {
    let (time, body) = text.trim_start().strip_prefix(HEADING)?.split_once('\n').unwrap_or_default();
    let mut status = AutoscalerStatus {
        time: time.trim().trim_end_matches(':').to_owned(),
        autoscaler_status: if body.contains("Cluster-wide:") { "Running" } else { "Initializing" }.to_owned(),
        node_groups: Vec::new(),
    };
    let groups = body.split_once("NodeGroups:\n").map_or("", |(_, groups)| groups);
    // A LastTransitionTime belongs to the condition above it.
    let mut condition = "";
    for (key, value) in groups.lines().filter_map(|line| line.trim().split_once(':')) {
        let value = value.trim();
        if key == "Name" {
            status.node_groups.push(AutoscalerGroup { name: value.to_owned(), ..AutoscalerGroup::default() });
            continue;
        }
        let Some(group) = status.node_groups.last_mut() else { continue };
        match key {
            "Health" => health(group, value),
            "ScaleUp" => group.scale_up.status = word(value),
            "LastTransitionTime" if condition == "ScaleUp" => {
                group.scale_up.last_transition_time = rfc3339(value);
            }
            _ => {}
        }
        if matches!(key, "Health" | "ScaleUp" | "ScaleDown") {
            condition = key;
        }
    }
    Some(status)
}

fn word(value: &str) -> String {
    value.split(' ').next().unwrap_or_default().to_owned()
}

/// `Healthy (ready=2 unready=0 (resourceUnready=0) … registered=2 longUnregistered=0 cloudProviderTarget=2 (minSize=1,
/// maxSize=5))`
fn health(group: &mut AutoscalerGroup, value: &str) {
    let health = &mut group.health;
    health.status = word(value);
    let pairs = value.split([' ', '(', ')', ',']).filter_map(|pair| pair.split_once('='));
    for (name, number) in pairs.filter_map(|(name, number)| Some((name, number.parse().ok()?))) {
        match name {
            "ready" => health.node_counts.registered.ready = number,
            "registered" => health.node_counts.registered.total = number,
            "longUnregistered" => health.node_counts.long_unregistered = number,
            "cloudProviderTarget" => health.cloud_provider_target = number,
            _ => {}
        }
    }
}

/// Go prints `2026-11-22 12:03:00.5 +0000 UTC m=+12.3`. CA's container has no time zone but UTC.
fn rfc3339(time: &str) -> Option<String> {
    let mut words = time.split(' ');
    let (date, time, zone) = (words.next()?, words.next()?, words.next()?);
    (zone == "+0000").then(|| format!("{date}T{time}Z"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_releases_before_1_30_is_read() {
        let text = "Cluster-autoscaler status at 2026-11-22 12:05:01.2 +0000 UTC:
Cluster-wide:
  Health:      Healthy (ready=3 unready=0 (resourceUnready=0) notStarted=0 longNotStarted=0 registered=3 longUnregistered=0)
               LastProbeTime:      2026-11-22 12:05:01 +0000 UTC m=+99.1
               LastTransitionTime: 2026-11-22 09:00:00 +0000 UTC m=+9.1
  ScaleUp:     NoActivity (ready=3 registered=3)
               LastProbeTime:      2026-11-22 12:05:01 +0000 UTC m=+99.1
               LastTransitionTime: 2026-11-22 09:00:00 +0000 UTC m=+9.1

NodeGroups:
  Name:        web
  Health:      Healthy (ready=2 unready=0 (resourceUnready=0) notStarted=0 longNotStarted=0 registered=3 longUnregistered=1 cloudProviderTarget=4 (minSize=1, maxSize=5))
               LastProbeTime:      2026-11-22 12:05:01 +0000 UTC m=+99.1
               LastTransitionTime: 2026-11-22 09:00:00 +0000 UTC m=+9.1
  ScaleUp:     Backoff (ready=2 cloudProviderTarget=4)
               LastProbeTime:      2026-11-22 12:05:01 +0000 UTC m=+99.1
               LastTransitionTime: 2026-11-22 12:03:00.25 +0000 UTC m=+90.1
  ScaleDown:   NoCandidates (candidates=0)
               LastProbeTime:      2026-11-22 12:05:01 +0000 UTC m=+99.1
               LastTransitionTime: 2026-11-22 09:00:00 +0000 UTC m=+9.1

";
        let status = parse(text).expect("a status");
        assert_eq!((status.time.as_str(), status.node_groups.len()), ("2026-11-22 12:05:01.2 +0000 UTC", 1));
        let web = &status.node_groups[0];
        let counts = &web.health.node_counts;
        assert_eq!((web.name.as_str(), web.health.cloud_provider_target), ("web", 4));
        assert_eq!((counts.registered.ready, counts.registered.total, counts.long_unregistered), (2, 3, 1));
        assert_eq!(web.scale_up.status, "Backoff");
        assert_eq!(web.scale_up.last_transition_time.as_deref(), Some("2026-11-22T12:03:00.25Z"));
        assert_eq!(parse("time: now\n"), None);
    }
}
