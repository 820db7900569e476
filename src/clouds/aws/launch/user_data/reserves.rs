//! What user data tells the kubelet to reserve: its flags, nodeadm's `spec.kubelet.config`, and Bottlerocket's
//! settings.
//!
//! nodeadm merges its configuration into its defaults key by key, and so does Bottlerocket with `kube-reserved`. A
//! flag, and Bottlerocket's `eviction-hard`, replace all keys of their setting. The keys that they drop count as kept,
//! which is never high.

use std::collections::BTreeMap;

use super::settings::settings;
use super::{expressions, toml, yaml};
use crate::cloud::{KubeletReserves, ReserveFigures};

/// Most flags of one name that are read.
const FLAGS_MAX: usize = 16;
/// The longest figure that is kept. Real ones are shorter than `1073741824Ki`.
const FIGURE_MAX: usize = 32;

const RESOURCES: &[&str] = &["cpu", "ephemeral-storage", "memory"];
/// The signals that reduce what is allocatable.
const SIGNALS: &[&str] = &["memory.available", "nodefs.available"];

/// One of the kubelet's settings.
struct Setting {
    in_config: &'static str,
    flag: &'static str,
    /// What is between a name and its figure in the flag.
    separator: char,
    in_bottlerocket: &'static str,
    names: &'static [&'static str],
}

const KUBE: Setting = Setting {
    in_config: "kubeReserved",
    flag: "--kube-reserved",
    separator: '=',
    in_bottlerocket: "kube-reserved",
    names: RESOURCES,
};
const SYSTEM: Setting = Setting {
    in_config: "systemReserved",
    flag: "--system-reserved",
    separator: '=',
    in_bottlerocket: "system-reserved",
    names: RESOURCES,
};
const EVICTION: Setting = Setting {
    in_config: "evictionHard",
    flag: "--eviction-hard",
    separator: '<',
    in_bottlerocket: "eviction-hard",
    names: SIGNALS,
};

/// What the node reserves by its user data.
pub(super) fn reserves(text: &str) -> KubeletReserves {
    let mut kube = KUBE.read(text);
    if let Some(written) = by_pods_of_bottlerocket(text).filter(|_| !kube.figures.contains_key("memory")) {
        kube.add("memory", &written);
    }
    // nodeadm reserves memory by what this expression computes, even where `maxPods` is the limit (its doc/api.md).
    if !kube.figures.contains_key("memory") {
        for pods in expressions(text).take(FLAGS_MAX) {
            kube.add("memory", &pods.map(memory_of).unwrap_or_default());
        }
    }
    let mut system = SYSTEM.read(text);
    // The kubelet reserves these CPUs instead of the two figures for cpu.
    let sets = settings(text, "reservedSystemCPUs").chain(settings(text, "--reserved-cpus"));
    let of_bottlerocket = toml::entries(text, &["settings", "kubernetes"]).into_iter();
    let of_bottlerocket = of_bottlerocket.filter(|(key, _)| key == "reserved-cpus");
    let of_bottlerocket = of_bottlerocket.map(|(_, values)| values.first().and_then(|set| cpus_in(set)));
    for cpus in sets.map(cpus_in).chain(of_bottlerocket).take(FLAGS_MAX) {
        kube.add("cpu", if cpus.is_some() { "0" } else { "" });
        system.add("cpu", &cpus.map(|count| count.to_string()).unwrap_or_default());
    }
    KubeletReserves { kube: kube.figures, system: system.figures, eviction: EVICTION.read(text).figures }
}

/// How many CPUs a set like `0,2-3` has.
fn cpus_in(set: &str) -> Option<u32> {
    let cpus = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse::<u32>().ok()?, last.trim().parse::<u32>().ok()?);
        last.checked_sub(first)?.checked_add(1)
    };
    set.split(',').map(cpus).try_fold(0, |sum: u32, cpus| sum.checked_add(cpus?))
}

/// Bottlerocket reserves memory by the kubelet's pod limit, not by the pods that the network interfaces serve.
fn by_pods_of_bottlerocket(text: &str) -> Option<String> {
    let limits = toml::entries(text, &["settings", "kubernetes"]).into_iter().filter(|(key, _)| key == "max-pods");
    let limits = limits.filter_map(|(_, values)| values.first()?.parse::<u32>().ok());
    limits.max().map(memory_of)
}

/// The memory that a node of EKS reserves for as many pods.
fn memory_of(pods: u32) -> String {
    format!("{}Mi", 255 + 11 * u64::from(pods))
}

impl Setting {
    fn read(&self, text: &str) -> Found {
        let mut found = Found { names: self.names, figures: BTreeMap::new() };
        for mapping in yaml::mappings(text, self.in_config) {
            match serde_saphyr::from_str::<Option<BTreeMap<String, Option<String>>>>(&mapping) {
                // A key without a value resets the figure to nothing, which the profile's covers.
                Ok(mapping) => mapping.into_iter().flatten().for_each(|(name, written)| {
                    written.into_iter().for_each(|written| found.add(&name, &written));
                }),
                Err(_) => found.add_unknown(),
            }
        }
        for pair in settings(text, self.flag).take(FLAGS_MAX).flat_map(|pairs| pairs.split(',')) {
            match pair.split_once(self.separator) {
                Some((name, written)) => found.add(name, written),
                None if pair.is_empty() => {}
                None => found.add_unknown(),
            }
        }
        for (name, values) in toml::entries(text, &["settings", "kubernetes", self.in_bottlerocket]) {
            found.add(&name, values.first().map(String::as_str).unwrap_or_default());
        }
        found
    }
}

/// The figures of one setting.
struct Found {
    names: &'static [&'static str],
    figures: BTreeMap<String, ReserveFigures>,
}

impl Found {
    fn add(&mut self, name: &str, written: &str) {
        // Only figures are kept: nothing that a shell or a templating engine would expand, as user data may hold
        // secrets.
        let is_of_figure = |letter: char| letter.is_ascii_alphanumeric() || ".+-%".contains(letter);
        let is_figure = written.len() <= FIGURE_MAX && written.chars().all(is_of_figure);
        let written = if is_figure { written } else { "" };
        match self.names.iter().find(|known| **known == name.trim()) {
            Some(name) => {
                self.figures.entry((*name).to_owned()).or_default().written.insert(written.to_owned());
            }
            // An expression may stand for any of the names.
            None if name.contains(['$', '{', '`']) => self.add_unknown(),
            None => {}
        }
    }

    /// The setting is there, but what it sets is not literal.
    fn add_unknown(&mut self) {
        for name in self.names {
            self.figures.entry((*name).to_owned()).or_default().written.insert(String::new());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::UserData;
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let KubeletReserves { kube, system, eviction } = UserData::of(text).kubelet_reserves;
        let shown = |setting: &str, figures: BTreeMap<String, ReserveFigures>| {
            let line = |(name, figures): (String, ReserveFigures)| {
                assert!(!figures.or_profile, "{name}");
                let written: Vec<_> =
                    figures.written.iter().map(|text| if text.is_empty() { "?" } else { text }).collect();
                format!("{setting} {name} {}", written.join(" "))
            };
            figures.into_iter().map(line).collect::<Vec<_>>()
        };
        [shown("kube", kube), shown("system", system), shown("eviction", eviction)].concat()
    }

    const ALL: [&str; 6] = [
        "kube cpu 200m",
        "kube ephemeral-storage 2Gi",
        "kube memory 1Gi",
        "system memory 500Mi",
        "eviction memory.available 5%",
        "eviction nodefs.available 15%",
    ];

    #[test]
    fn reserved_cpus_replace_the_figures_for_cpu() {
        let (two, unknown) = (["kube cpu 0", "system cpu 2"], ["kube cpu ?", "system cpu ?"]);
        for (text, expected) in [
            ("kubelet:\n  config:\n    reservedSystemCPUs: \"0-1\"\n", two),
            (r#"{"config": {"reservedSystemCPUs": "0,4", "x": 1}}"#, two),
            ("bootstrap.sh c --kubelet-extra-args '--reserved-cpus=0-1 --v=2'", two),
            ("kubelet:\n  config:\n    reservedSystemCPUs: ${cpus}\n", unknown),
            ("--reserved-cpus=3-1", unknown),
            ("[settings.kubernetes]\nreserved-cpus = \"0-1\"\n", two),
            ("[settings.kubernetes]\nreserved-cpus = {{ x }}\n", unknown),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
        let both = "config:\n  kubeReserved: {cpu: 200m}\n  reservedSystemCPUs: 0-3\n";
        assert_eq!(shown(both), ["kube cpu 0 200m", "system cpu 4"], "the higher one counts");
    }

    #[test]
    fn reserves_are_found_in_every_format() {
        for text in [
            "spec:\n  kubelet:\n    config:\n      kubeReserved: # ours\n        cpu: 200m\n        memory: 1Gi\n        \
             ephemeral-storage: 2Gi\n        pid: 1000\n      systemReserved: {memory: 500Mi}\n      evictionHard:\n        \
             memory.available: \"5%\"\n        nodefs.available: 15%\n        nodefs.inodesFree: 5%\n      \
             kubeReservedCgroup: /runtime\n",
            "{\"config\": {\"kubeReserved\": {\"cpu\": \"200m\", \"memory\": \"1Gi\", \"ephemeral-storage\": \"2Gi\"},\n\
             \"systemReserved\": {\"memory\": \"500Mi\"}, \"systemReservedCgroup\": \"/system\",\n\"evictionHard\": \
             {\"memory.available\": \"5%\", \"nodefs.available\": \"15%\"}}}",
            "  kubelet:\n    flags:\n    - --kube-reserved=cpu=200m,memory=1Gi,ephemeral-storage=2Gi\n    \
             - \"--system-reserved=memory=500Mi\"\n    - --eviction-hard=memory.available<5%,nodefs.available<15%\n",
            "/etc/eks/bootstrap.sh c --kubelet-extra-args '--kube-reserved=cpu=200m,memory=1Gi,ephemeral-storage=2Gi \
             --system-reserved memory=500Mi --eviction-hard=memory.available<5%,nodefs.available<15%'\n",
            "[settings.kubernetes.kube-reserved]\ncpu = \"200m\"\nmemory = \"1Gi\"\nephemeral-storage = \"2Gi\"\n\
             [settings.kubernetes]\nsystem-reserved = {memory = \"500Mi\"}\nmax-pods = 110\n\
             [settings.kubernetes.eviction-hard]\n\"memory.available\" = \"5%\"\n\"nodefs.available\" = \"15%\"\n\
             [settings.kubernetes.eviction-soft]\n\"memory.available\" = \"20%\"\n",
        ] {
            assert_eq!(shown(text), ALL, "{text}");
        }
    }

    #[test]
    fn each_figure_of_a_resource_is_kept_and_those_that_are_not_literal_are_unknown() {
        for (text, expected) in [
            (
                "kubeReserved:\n  memory: 1Gi\n  cpu: 1\n--kube-reserved=memory=2Gi",
                &["kube cpu 1", "kube memory 1Gi 2Gi"][..],
            ),
            ("kubeReserved:\n  memory: 1Gi\nkubeReserved:\n  memory: $X\n", &["kube memory ? 1Gi"]),
            ("--system-reserved=memory=${M}Mi,cpu=100m", &["system cpu 100m", "system memory ?"]),
            ("--kube-reserved=${NAME}=1", &["kube cpu ?", "kube ephemeral-storage ?", "kube memory ?"]),
            (r"--eviction-hard=memory.available\u003c1Gi", &["eviction memory.available 1Gi"]),
            ("--eviction-hard=$HARD", &["eviction memory.available ?", "eviction nodefs.available ?"]),
            ("evictionHard: {{ .Hard }}", &["eviction memory.available ?", "eviction nodefs.available ?"]),
            ("evictionHard: $HARD\nother: 1\n", &["eviction memory.available ?", "eviction nodefs.available ?"]),
            ("evictionHard:\n  - memory.available\n", &["eviction memory.available ?", "eviction nodefs.available ?"]),
            ("[settings.kubernetes.kube-reserved]\nmemory = \"{{ x }}\"\n", &["kube memory ?"]),
            ("kubeReserved:\n  memory:\n", &[]),
            ("kubeReserved: null\n", &[]),
            ("kubeReserved:\nmemory: 1Gi\n", &[]),
            ("kubeReserved: {", &[]),
            ("kubeReserved", &[]),
            ("--kube-reserved-cgroup=/runtime --eviction-minimum-reclaim=memory.available=1Gi", &[]),
            ("# kubeReserved: {memory: 1Gi}", &[]),
        ] {
            let text = text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
            assert_eq!(shown(&text), expected, "{text}");
        }
    }

    #[test]
    fn nodeadm_reserves_memory_by_what_its_expression_computes() {
        for (text, expected) in [
            ("kubelet:\n  maxPodsExpression: \"110\"\n", &["kube memory 1465Mi"][..]),
            ("kubelet:\n  maxPodsExpression: \"110\"\n  config:\n    maxPods: 58\n", &["kube memory 1465Mi"]),
            ("kubelet:\n  maxPodsExpression: max_pods - 10\n", &["kube memory ?"]),
            ("maxPodsExpression: 110\nkubeReserved: {memory: 1Gi}\n", &["kube memory 1Gi"]),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn bottlerocket_reserves_memory_by_its_pod_limit() {
        assert_eq!(shown("[settings.kubernetes]\nmax-pods = 110\n"), ["kube memory 1465Mi"]);
        assert_eq!(shown("settings.kubernetes.max-pods = 29\n"), ["kube memory 574Mi"]);
        for text in
            ["[settings.kubernetes]\nmax-pods = {{ x }}\n", "maxPods: 110\n", "--max-pods=110", "max-pods = 110\n"]
        {
            assert_eq!(shown(text), [""; 0], "{text}");
        }
    }
}
