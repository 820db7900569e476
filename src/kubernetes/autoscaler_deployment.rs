//! The Deployment of the Cluster Autoscaler, from a manifest or from the API server.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::ListParams;
use serde::Deserialize;
use serde_json::Value;

use super::client::Client;
use super::{KubernetesError, Operation};

/// What Headcount must be allowed to do with Deployments in the Cluster Autoscaler's namespace. Its Deployment may have
/// any name.
pub const DEPLOYMENT_VERBS: [&str; 1] = ["list"];

/// Deployments read at most. A namespace has some dozens.
const DEPLOYMENTS_MAX: u32 = 500;

/// The container of a Cluster Autoscaler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AutoscalerContainer {
    /// The Deployment's name; empty in a manifest without one.
    pub deployment: String,
    /// Its command and arguments, the program included. `$(NAME)` is replaced as Kubernetes does, where the environment
    /// has a literal value.
    pub arguments: Vec<String>,
    /// Its environment. `None` for a variable whose value comes from elsewhere, such as a Secret.
    pub environment: BTreeMap<String, Option<String>>,
    /// What the rest of its environment comes from, such as `Secret azure`.
    pub environment_from: Vec<String>,
    /// The tag of its image, such as `v1.34.2`.
    pub tag: Option<String>,
}

/// What is used of a container. A key may have no value: `envFrom:`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Container {
    image: Option<String>,
    command: Option<Vec<String>>,
    args: Option<Vec<String>>,
    env: Option<Vec<Variable>>,
    env_from: Option<Vec<Value>>,
}

#[derive(Debug, Deserialize)]
struct Variable {
    name: String,
    value: Option<String>,
}

/// The deepest that a list of manifests, a pod's template and its containers can be.
const DEPTH_MAX: usize = 12;

impl AutoscalerContainer {
    /// Reads a manifest: one or several documents, or a List, with the container anywhere below. `None` if no container
    /// runs the Cluster Autoscaler.
    ///
    /// # Errors
    ///
    /// If the text is not YAML.
    pub fn from_manifest(text: &str) -> Result<Option<Self>, String> {
        // A snippet would show the lines around the fault, and a manifest may hold secrets.
        let options = serde_saphyr::options! { with_snippet: false };
        let documents: Vec<Value> =
            serde_saphyr::from_multiple_with_options(text, options).map_err(|error| error.to_string())?;
        Ok(Self::find(&documents))
    }

    /// The container that runs the Cluster Autoscaler: by its image or program, or else by its flags, which Headcount takes
    /// as well. One that runs, and calls Headcount, comes before an old one that is kept for a roll-back.
    fn find(documents: &[Value]) -> Option<Self> {
        let mut found = Vec::new();
        for document in documents {
            collect(document, Owner { name: "", is_off: false }, DEPTH_MAX, &mut found);
        }
        let containers = found.into_iter().filter_map(|(owner, value)| {
            let (is_named, container) = read(owner.name, value)?;
            let provider = container.provider();
            let calls_headcount = provider == Some("externalgrpc") && !owner.is_off;
            let has_flags = provider.is_some();
            (is_named || has_flags)
                .then_some(((calls_headcount, is_named && !owner.is_off, is_named, has_flags), container))
        });
        // The first one of those that fit best.
        let best = containers.reduce(|best, other| if other.0 > best.0 { other } else { best });
        best.map(|(_, container)| container)
    }

    /// The value of `--cloud-provider`, which may be an argument of its own.
    fn provider(&self) -> Option<&str> {
        let mut words = self.arguments.iter().map(String::as_str);
        let flag = words.find_map(|word| word.trim_start_matches('-').strip_prefix("cloud-provider"))?;
        Some(flag.strip_prefix('=').or_else(|| words.next()).unwrap_or_default())
    }
}

/// The object that has a container.
#[derive(Clone, Copy, Debug)]
struct Owner<'a> {
    name: &'a str,
    /// Whether it is scaled to zero.
    is_off: bool,
}

/// Collects everything that is listed as a container, with the object that has it.
fn collect<'a>(value: &'a Value, owner: Owner<'a>, depth: usize, found: &mut Vec<(Owner<'a>, &'a Value)>) {
    if depth == 0 {
        return;
    }
    match value {
        Value::Object(fields) => {
            let own = fields.get("metadata").and_then(|metadata| metadata["name"].as_str());
            let is_off = fields.get("spec").is_some_and(|spec| spec["replicas"] == 0);
            let owner = Owner { name: own.unwrap_or(owner.name), is_off: owner.is_off || is_off };
            for (key, field) in fields {
                match (key.as_str(), field) {
                    ("containers", Value::Array(containers)) => {
                        found.extend(containers.iter().map(|container| (owner, container)));
                    }
                    _ => collect(field, owner, depth - 1, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, owner, depth - 1, found)),
        _ => {}
    }
}

/// Replaces `$(NAME)` as Kubernetes does in a command line. A name without a literal value stays; `$$` is a `$`.
fn expand(text: &str, environment: &BTreeMap<String, Option<String>>) -> String {
    let (mut expanded, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        if let Some(after) = after.strip_prefix('$') {
            expanded.push('$');
            rest = after;
            continue;
        }
        let reference = after.strip_prefix('(').and_then(|inner| inner.split_once(')'));
        let known = reference.and_then(|(name, after)| Some((environment.get(name)?.as_deref()?, after)));
        match known {
            Some((value, after)) => {
                expanded.push_str(value);
                rest = after;
            }
            None => {
                expanded.push('$');
                rest = after;
            }
        }
    }
    expanded.push_str(rest);
    expanded
}

/// The program.
const PROGRAM: &str = "cluster-autoscaler";

fn is_program(word: &str) -> bool {
    word.rsplit('/').next() == Some(PROGRAM) && !word.starts_with('-')
}

/// What a shell replaces by the arguments that follow its script.
fn is_passed_on(word: &str) -> bool {
    matches!(word, "$@" | "$*")
}

/// The commands of a line: the words up to a pipe, a redirection or a semicolon.
fn commands(line: Vec<String>) -> Vec<Vec<String>> {
    let is_operator = |word: &str| {
        let word = word.trim_start_matches(|letter: char| letter.is_ascii_digit());
        word.starts_with(['|', '&', ';', '<', '>'])
    };
    let mut commands = vec![Vec::new()];
    for word in line {
        let bare = word.trim_end_matches(';');
        let ends = bare.len() < word.len() || is_operator(&word);
        if !is_operator(&word) {
            commands.iter_mut().last().into_iter().for_each(|command| command.push(bare.to_owned()));
        }
        if ends {
            commands.push(Vec::new());
        }
    }
    commands
}

/// The words of the command in a shell's script that runs the Cluster Autoscaler. Others may name it, such as
/// `test -x cluster-autoscaler`: the first one that gives it arguments is taken.
fn command_in(script: &str) -> Option<Vec<String>> {
    let script = script.replace("\\\n", " ");
    let lines = script.lines().filter(|line| line.contains(char::is_whitespace)).filter_map(shlex::split);
    let from_program = |words: Vec<String>| {
        let at = words.iter().position(|word| is_program(word))?;
        Some(words[at..].to_vec())
    };
    let runs: Vec<_> = lines.flat_map(commands).filter_map(from_program).collect();
    let has_arguments = |words: &&Vec<String>| words.iter().any(|word| word.starts_with('-') || is_passed_on(word));
    runs.iter().find(has_arguments).or_else(|| runs.first()).cloned()
}

/// The program and its arguments, which may be in a shell's script.
fn without_shell(words: Vec<String>) -> Vec<String> {
    // A shell's script is one argument. What comes before it are arguments of the shell.
    let mut scripts = words.iter().enumerate().filter(|(_, word)| !word.starts_with('-'));
    let Some((at, command)) = scripts.find_map(|(at, word)| Some((at, command_in(word)?))) else { return words };
    // The first argument after a script is the shell's own name.
    let passed_on = words.get(at + 2..).unwrap_or_default();
    let replaced =
        command.into_iter().flat_map(|word| if is_passed_on(&word) { passed_on.to_vec() } else { vec![word] });
    replaced.collect()
}

/// Reads a container, and whether its image or program is the Cluster Autoscaler.
fn read(deployment: &str, container: &Value) -> Option<(bool, AutoscalerContainer)> {
    let container = Container::deserialize(container).ok()?;
    let variables = container.env.into_iter().flatten();
    let environment = variables.map(|variable| (variable.name, variable.value)).collect();
    let words = container.command.into_iter().flatten().chain(container.args.into_iter().flatten());
    let arguments = without_shell(words.map(|word| expand(&word, &environment)).collect());
    // A registry with a port has a colon too: registry:5000/cluster-autoscaler
    let image = container.image.unwrap_or_default();
    let image = image.split('@').next().unwrap_or_default();
    let (folder, image) = image.rsplit_once('/').map_or(("", image), |(folder, image)| (folder, image));
    let (image, tag) = image.split_once(':').map_or((image, None), |(image, tag)| (image, Some(tag)));
    let is_named = (image.contains(PROGRAM) && !image.contains("exporter"))
        || folder.ends_with(PROGRAM)
        || arguments.iter().any(|word| is_program(word));
    let (deployment, tag) = (deployment.to_owned(), tag.map(str::to_owned));
    let named = |from: &Value, kind: &str, key: &str| Some(format!("{kind} {}", from[key]["name"].as_str()?));
    let source = |from| named(from, "Secret", "secretRef").or_else(|| named(from, "ConfigMap", "configMapRef"));
    let environment_from = container.env_from.iter().flatten().filter_map(source).collect();
    Some((is_named, AutoscalerContainer { deployment, arguments, environment, environment_from, tag }))
}

impl Client {
    /// The container of the Cluster Autoscaler in a namespace; `None` if no Deployment there runs it.
    ///
    /// # Errors
    ///
    /// If the API server cannot be reached or does not permit it.
    pub async fn autoscaler_container(&self, namespace: &str) -> Result<Option<AutoscalerContainer>, KubernetesError> {
        let deployments: Api<Deployment> = Api::namespaced(self.kube(), namespace);
        let listed = deployments.list(&ListParams::default().limit(DEPLOYMENTS_MAX)).await;
        let listed = listed.map_err(|error| KubernetesError::of_call(Operation::ListDeployments, error))?;
        let documents: Vec<Value> =
            listed.items.iter().filter_map(|deployment| serde_json::to_value(deployment).ok()).collect();
        Ok(AutoscalerContainer::find(&documents))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(manifest: &str) -> Option<AutoscalerContainer> {
        AutoscalerContainer::from_manifest(manifest).expect("YAML")
    }

    #[test]
    fn the_container_of_the_autoscaler_is_found_beside_headcount_and_other_manifests() {
        let manifest = "
kind: ServiceAccount
metadata: {name: cluster-autoscaler}
---
kind: Deployment
metadata: {name: external-cluster-autoscaler, namespace: kube-system}
spec: {template: {spec: {containers: [
  {image: 'headcount:0.1.0', args: [serve, --cloud-provider=aws,
    '--node-group-auto-discovery=asg:tag=k8s.io/cluster-autoscaler/enabled']},
  {image: 'registry:5000/autoscaling/cluster-autoscaler:v1.34.2@sha256:00', command: [./cluster-autoscaler, --v=4]}]}}}
";
        let container = found(manifest).expect("a container");
        assert_eq!(
            (container.deployment.as_str(), container.tag.as_deref()),
            ("external-cluster-autoscaler", Some("v1.34.2"))
        );
        assert_eq!(container.arguments, ["./cluster-autoscaler", "--v=4"]);
    }

    #[test]
    fn a_renamed_image_is_known_by_its_program_or_its_flags() {
        let of = |container: &str| found(&format!("spec: {{template: {{spec: {{containers: [{container}]}}}}}}"));
        assert!(of("{image: mine, command: [sh, -c, '/bin/cluster-autoscaler --v=4']}").is_some());
        assert!(
            of("{image: 'registry:5000/mine', args: [--cloud-provider=externalgrpc]}")
                .is_some_and(|found| found.tag.is_none())
        );
        assert_eq!(of("{image: proxy, args: [--listen=1]}"), None);
    }

    #[test]
    fn the_command_of_a_shell_is_found_in_its_script() {
        for script in [
            r#"./cluster-autoscaler --v=4 --nodes="1:10:my asg" --balance-similar-node-groups 2>&1 | tee /dev/termination-log"#,
            r#"exec ./cluster-autoscaler --v=4 '--nodes=1:10:my asg' --balance-similar-node-groups; sleep 5"#,
            "chmod +x /cluster-autoscaler && ./cluster-autoscaler --v=4 '--nodes=1:10:my asg' --balance-similar-node-groups",
            "test -x cluster-autoscaler\nset -e\n./cluster-autoscaler \\\n  --v=4 \\\n  --nodes='1:10:my asg' \\\n  --balance-similar-node-groups\necho done\n",
        ] {
            let container = serde_json::json!({"image": "mine", "command": ["/bin/sh", "-c", script]});
            let (is_named, container) = read("ca", &container).expect("a container");
            let words = ["./cluster-autoscaler", "--v=4", "--nodes=1:10:my asg", "--balance-similar-node-groups"];
            assert!(is_named && container.arguments == words, "{script}: {:?}", container.arguments);
        }
    }

    #[test]
    fn arguments_after_a_script_are_those_of_the_program_that_the_shell_passes_them_to() {
        let script = r#"exec ./cluster-autoscaler --v=4 "$@" 2>&1 | tee /dev/termination-log"#;
        let container = serde_json::json!({"command": ["/bin/sh", "-c", script, "--"], "args": ["--nodes=1:10:a"],
            "env": null, "envFrom": null});
        let (is_named, container) = read("ca", &container).expect("a container");
        assert!(is_named);
        assert_eq!(container.arguments, ["./cluster-autoscaler", "--v=4", "--nodes=1:10:a"]);
    }

    #[test]
    fn what_the_environment_comes_from_is_named() {
        let container = serde_json::json!({"image": "cluster-autoscaler", "envFrom": [
            {"secretRef": {"name": "azure"}}, {"configMapRef": {"name": "settings"}}, {"prefix": "x"}]});
        assert_eq!(
            read("ca", &container).expect("a container").1.environment_from,
            ["Secret azure", "ConfigMap settings"]
        );
    }

    #[test]
    fn an_error_in_a_manifest_shows_none_of_its_lines() {
        let error =
            AutoscalerContainer::from_manifest("env:\n- name: A\n  value: \"secret\n- name: B\n").expect_err("a quote");
        assert!(error.contains("line") && !error.contains("secret"), "{error}");
    }

    #[test]
    fn the_one_that_runs_and_calls_headcount_comes_first() {
        let manifest = "
kind: List
items:
- {kind: Deployment, metadata: {name: cluster-autoscaler-status-exporter}, spec: {template: {spec: {containers: [
    {image: cluster-autoscaler-status-exporter}]}}}}
- {kind: Deployment, metadata: {name: cluster-autoscaler}, spec: {replicas: 0, template: {spec: {containers: [
    {image: cluster-autoscaler, args: [--cloud-provider=aws]}]}}}}
- {kind: Deployment, metadata: {name: old}, spec: {replicas: 0, template: {spec: {containers: [
    {image: cluster-autoscaler, args: [--cloud-provider, externalgrpc]}]}}}}
- {kind: Deployment, metadata: {name: new}, spec: {replicas: 1, template: {spec: {containers: [
    {image: cluster-autoscaler, args: [--cloud-provider, externalgrpc]}]}}}}
";
        assert_eq!(found(manifest).expect("a container").deployment, "new");
        let before = manifest.split("- {kind: Deployment, metadata: {name: new}").next().expect("the first three");
        assert_eq!(found(before).expect("a container").deployment, "cluster-autoscaler");
    }

    #[test]
    fn variables_are_replaced_as_kubernetes_does() {
        let manifest = "
spec: {template: {spec: {containers: [{image: cluster-autoscaler, env: [{name: CLUSTER, value: prod},
  {name: SECRET, valueFrom: {secretKeyRef: {name: a, key: b}}}],
  args: ['--cloud-provider=$(PROVIDER)', '--nodes=1:2:$(CLUSTER)-a', '--nodes=1:2:$(SECRET)', '--x=$$(CLUSTER) $5 $(']}]}}}
";
        assert_eq!(
            found(manifest).expect("a container").arguments,
            ["--cloud-provider=$(PROVIDER)", "--nodes=1:2:prod-a", "--nodes=1:2:$(SECRET)", "--x=$(CLUSTER) $5 $("]
        );
    }
}
