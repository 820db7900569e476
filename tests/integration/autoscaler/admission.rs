//! A real API server admits the manifests in deploy/kubernetes and the objects of deploy/chart under the pod security
//! level "restricted".
//!
//! `tests/autoscaler/run --admission` builds every combination with kustomize and with helm, and names their folder in
//! [`MANIFESTS`].

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use super::api::collection;
use super::cluster::Cluster;
use super::fixture::binaries;

/// The variable with the folder of the combinations, one JSON file for each.
const MANIFESTS: &str = "HEADCOUNT_MANIFESTS";

/// Kinds of cert-manager and of the Prometheus operator, as far as the manifests have them: group, kind.
const FOREIGN: [(&str, &str); 4] = [
    ("cert-manager.io", "Issuer"),
    ("cert-manager.io", "Certificate"),
    ("monitoring.coreos.com", "PodMonitor"),
    ("monitoring.coreos.com", "PrometheusRule"),
];

/// The objects of each combination, by its name.
pub(super) fn combinations() -> Option<Vec<(String, Vec<Value>)>> {
    let Some(folder) = std::env::var_os(MANIFESTS).map(PathBuf::from) else {
        eprintln!("skipped: tests/autoscaler/run --admission builds the manifests and runs this");
        return None;
    };
    let files = std::fs::read_dir(folder).expect("a folder");
    let read = |file: std::io::Result<std::fs::DirEntry>| {
        let path = file.expect("an entry").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        (name, serde_json::from_slice(&std::fs::read(&path).expect("readable")).expect("JSON"))
    };
    let mut found: Vec<_> = files.map(read).collect();
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    Some(found)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_combination_of_the_manifests_is_admitted() {
    let (Some(binaries), Some(combinations)) = (binaries(), combinations()) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = Cluster::start(&binaries, folder.path()).await;
    define_foreign_kinds(&cluster).await;
    restrict(&cluster).await;
    let (chart, manifests): (Vec<_>, Vec<_>) = combinations.iter().partition(|(name, _)| name.starts_with("chart_"));
    assert!(manifests.len() >= 50, "{} combinations of the manifests", manifests.len());
    assert!(chart.len() >= 50, "{} combinations of the chart", chart.len());
    for (name, objects) in &combinations {
        for object in objects {
            submit(&cluster, name, object).await;
            // Enforcement looks at pods only, so each pod is submitted as a controller would create it.
            if let Some(pod) = pod_of(object) {
                submit(&cluster, name, &pod).await;
            }
        }
    }
    println!("admitted: {} combinations", combinations.len());
}

/// The pod of a Deployment's template.
pub(super) fn pod_of(object: &Value) -> Option<Value> {
    let template = object["spec"].get("template")?;
    let mut metadata = template["metadata"].clone();
    metadata["name"] = json!("pod");
    metadata["namespace"] = object["metadata"]["namespace"].clone();
    Some(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}))
}

/// A dry run: everything but storing it.
async fn submit(cluster: &Cluster, combination: &str, object: &Value) {
    let path = format!("{}?dryRun=All&fieldValidation=Strict", collection(object));
    let (status, response) = cluster.api.send("POST", &path, Some(object)).await.expect("the API server responds");
    let kind = &object["kind"];
    assert_eq!(status, 201, "{combination}: {kind} {}: {response}", object["metadata"]["name"]);
}

/// Enforces the level, and waits until a pod that breaks it is refused.
async fn restrict(cluster: &Cluster) {
    let labels = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
    cluster.api.ok("PATCH", "/api/v1/namespaces/kube-system", Some(&labels)).await;
    let on_the_host = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "on-the-host", "namespace": "kube-system"},
        "spec": {"hostNetwork": true, "containers": [{"name": "main", "image": "none"}]},
    });
    let path = format!("{}?dryRun=All", collection(&on_the_host));
    let mut last = None;
    for _ in 0..300 {
        last = cluster.api.send("POST", &path, Some(&on_the_host)).await;
        if matches!(&last, Some((403, refused)) if refused.to_string().contains("PodSecurity")) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    panic!("the level is not enforced: {last:?}");
}

/// Stubs of the kinds that other projects define, with any content.
pub(super) async fn define_foreign_kinds(cluster: &Cluster) {
    for (group, kind) in FOREIGN {
        let plural = format!("{}s", kind.to_lowercase());
        let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": any}}});
        let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
                "versions": [version],
            },
        });
        cluster.api.create(&definition).await;
        let path = format!("/apis/{group}/v1/namespaces/kube-system/{plural}");
        let served = async {
            while !matches!(cluster.api.send("GET", &path, None).await, Some((200, _))) {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), served).await.expect("the kind is served");
    }
}
