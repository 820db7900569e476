//! What a pod requests.

use std::collections::BTreeMap;

use prost::Message as _;

use super::rates::{Amounts, accelerators, gib};
use crate::instance_types;

use self::proto::{Container, Pod, Quantity, ResourceRequirements};

/// Sidecars are init containers that keep running.
const ALWAYS: &str = "Always";

mod proto {
    #![allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic, rust_2018_idioms)]

    include!(concat!(env!("OUT_DIR"), "/k8s.pod.rs"));
}

type Requests = BTreeMap<String, f64>;

/// What a v1.Pod requests, as the scheduler computes it: the sum of its containers and sidecars, or the largest init
/// container with the sidecars started before it if that is more; requests of the whole pod in place of that; plus
/// overhead.
///
/// # Errors
///
/// Fails if the bytes are not a pod.
pub(super) fn requests(bytes: &[u8]) -> Result<Amounts, prost::DecodeError> {
    let spec = Pod::decode(bytes)?.spec.unwrap_or_default();
    let (mut sidecars, mut largest) = (Requests::new(), Requests::new());
    for container in &spec.init_containers {
        // Only what this container requests can be more than before: a pod may have thousands of containers and resources.
        for (name, own) in of_container(container) {
            let started = sidecars.get(&name).copied().unwrap_or_default() + own;
            if container.restart_policy.as_deref() == Some(ALWAYS) {
                sidecars.insert(name.clone(), started);
            }
            let known = largest.entry(name).or_default();
            *known = known.max(started);
        }
    }
    let mut total = sidecars;
    for container in &spec.containers {
        add(&mut total, &of_container(container));
    }
    raise(&mut total, &largest);
    total.extend(of_requirements(spec.resources.as_ref()));
    add(&mut total, &figures(&spec.overhead));
    let amount = |name: &str| total.get(name).copied();
    Ok(Amounts {
        cores: amount("cpu").unwrap_or_default(),
        gib: gib(amount("memory").unwrap_or_default()),
        accelerators: accelerators(amount),
    })
}

fn of_container(container: &Container) -> Requests {
    of_requirements(container.resources.as_ref())
}

fn of_requirements(requirements: Option<&ResourceRequirements>) -> Requests {
    requirements.map(|requirements| figures(&requirements.requests)).unwrap_or_default()
}

/// The API server refuses negative and malformed quantities, so no pod has them.
fn figures(quantities: &BTreeMap<String, Quantity>) -> Requests {
    let parsed = quantities.iter().filter_map(|(name, quantity)| {
        let quantity: instance_types::Quantity = quantity.string.as_deref()?.parse().ok()?;
        Some((name.clone(), quantity.as_f64().max(0.0)))
    });
    parsed.collect()
}

fn add(total: &mut Requests, more: &Requests) {
    for (name, amount) in more {
        *total.entry(name.clone()).or_default() += amount;
    }
}

fn raise(total: &mut Requests, other: &Requests) {
    for (name, amount) in other {
        let known = total.entry(name.clone()).or_default();
        *known = known.max(*amount);
    }
}

#[cfg(test)]
mod tests {
    use k8s_pb::api::core::v1 as pb;
    use k8s_pb::apimachinery::pkg::api::resource::Quantity as PbQuantity;

    use super::*;

    fn requirements(requests: &[(&str, &str)]) -> pb::ResourceRequirements {
        let quantity = |text: &str| PbQuantity { string: Some(text.to_owned()) };
        let requests = requests.iter().map(|(name, text)| ((*name).to_owned(), quantity(text)));
        pb::ResourceRequirements { requests: requests.collect(), ..Default::default() }
    }

    fn container(requests: &[(&str, &str)], restarts: bool) -> pb::Container {
        let restart_policy = restarts.then(|| ALWAYS.to_owned());
        pb::Container { resources: Some(requirements(requests)), restart_policy, ..Default::default() }
    }

    fn requests_of(spec: pb::PodSpec) -> (f64, f64, f64) {
        let bytes = pb::Pod { spec: Some(spec), ..Default::default() }.encode_to_vec();
        let Amounts { cores, gib, accelerators } = requests(&bytes).expect("a pod");
        (cores, gib, accelerators)
    }

    #[test]
    fn an_init_container_is_added_to_the_sidecars_that_started_before_it() {
        let of = |init_containers| requests_of(pb::PodSpec { init_containers, ..Default::default() });
        let (sidecar, plain) = (container(&[("cpu", "1"), ("memory", "1Gi")], true), container(&[("cpu", "2")], false));
        assert_eq!(of(vec![sidecar.clone(), plain.clone()]), (3.0, 1.0, 0.0));
        assert_eq!(of(vec![plain, sidecar.clone()]), (2.0, 1.0, 0.0));
        assert_eq!(of(vec![sidecar.clone(), sidecar]), (2.0, 2.0, 0.0));
    }

    #[test]
    fn requests_are_those_that_the_scheduler_reserves() {
        let web = pb::PodSpec {
            containers: vec![
                container(&[("cpu", "500m"), ("memory", "1Gi")], false),
                container(&[("cpu", "1")], false),
            ],
            ..Default::default()
        };
        assert_eq!(requests_of(web.clone()), (1.5, 1.0, 0.0));
        let with_init = pb::PodSpec {
            init_containers: vec![container(&[("cpu", "250m")], true), container(&[("cpu", "4")], false)],
            ..web.clone()
        };
        assert_eq!(requests_of(with_init), (4.25, 1.0, 0.0));
        let overhead = requirements(&[("cpu", "100m")]).requests;
        let of_pod = pb::PodSpec { resources: Some(requirements(&[("cpu", "2")])), overhead, ..web };
        assert_eq!(requests_of(of_pod), (2.1, 1.0, 0.0));
        let gpu = container(&[("nvidia.com/gpu", "2"), ("cpu", "nonsense")], false);
        assert_eq!(requests_of(pb::PodSpec { containers: vec![gpu], ..Default::default() }), (0.0, 0.0, 2.0));
    }

    #[test]
    fn a_pod_without_requests_requests_nothing_and_garbage_is_no_pod() {
        assert_eq!(requests(&[]), Ok(Amounts::default()));
        assert!(requests(&[0xff, 0x01]).is_err());
    }
}
