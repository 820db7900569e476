//! `kubernetes:`, how to call the Kubernetes API, and `learn:`, what is learned from the cluster's own nodes.

use std::path::Path;

use super::error::{ConfigError, check_file};
use super::file;
use super::source::SourceContext;
use super::validate::beside;
use super::yaml::{checked, optional, place};
use crate::kubernetes::{CONFIG_MAP_DEFAULT, Settings};

/// The longest names that Kubernetes takes.
const NAMESPACE_LETTERS_MAX: usize = 63;
const CONFIG_MAP_LETTERS_MAX: usize = 253;

/// What the Kubernetes API is called for.
pub(super) struct Access {
    /// To learn from nodes.
    pub(super) learn: Option<Settings>,
    /// To write Events.
    pub(super) events: Option<Settings>,
    /// To follow the Cluster Autoscaler's taints.
    pub(super) taints: Option<Settings>,
}

/// Checks `kubernetes:` and `learn:`.
pub(super) fn settings(
    kubernetes: &file::Kubernetes,
    learn: &file::Learn,
    path: &Path,
    context: &mut SourceContext<'_>,
) -> Result<Access, ConfigError> {
    if let (Some(_), Some(twice)) = (&kubernetes.kubeconfig, &learn.kubeconfig) {
        checked(twice, path, |_| Err::<(), _>("kubernetes.kubeconfig is set too; remove learn.kubeconfig".to_owned()))?;
    }
    let kubeconfig = match kubernetes.kubeconfig.as_ref().or(learn.kubeconfig.as_ref()) {
        None => None,
        Some(name) => {
            let file = beside(path, &name.value);
            check_file(&file, &place(name, path))?;
            Some(file)
        }
    };
    let namespace = optional(learn.namespace.as_ref(), path, |text| {
        name(text, "a namespace", NAMESPACE_LETTERS_MAX, "kube-system", false)
    })?;
    let config_map = optional(learn.config_map.as_ref(), path, |text| {
        name(text, "a ConfigMap's name", CONFIG_MAP_LETTERS_MAX, CONFIG_MAP_DEFAULT, true)
    })?;
    let allow_exec = kubernetes.allow_exec.as_ref().is_some_and(|allow| allow.value);
    // Learning watches the nodes anyway.
    let follows_taints = kubernetes.taints.unwrap_or(learn.kubernetes);
    if !learn.kubernetes && !kubernetes.events && !follows_taints {
        let unused = [&learn.kubeconfig, &learn.namespace, &learn.config_map].into_iter().flatten().next();
        let unused = unused.map(|unused| (place(unused, path), "nothing is learned; set learn.kubernetes to true"));
        let unused = unused.or_else(|| {
            let kubeconfig = kubernetes.kubeconfig.as_ref().map(|unused| place(unused, path));
            let place = kubeconfig.or_else(|| kubernetes.allow_exec.as_ref().map(|unused| place(unused, path)));
            let what = "the Kubernetes API is not called; set learn.kubernetes, kubernetes.events or \
                kubernetes.taints to true";
            place.map(|place| (place, what))
        });
        let warning = unused.map(|(place, what)| format!("{place}: {what}"));
        context.warnings.extend(warning);
        return Ok(Access { learn: None, events: None, taints: None });
    }
    if allow_exec && kubeconfig.is_none() {
        let place = kubernetes.allow_exec.as_ref().map(|allow| place(allow, path));
        let warning = place.map(|place| format!("{place}: allowExec has no effect without kubernetes.kubeconfig"));
        context.warnings.extend(warning);
    }
    let config_map = config_map.unwrap_or_else(|| CONFIG_MAP_DEFAULT.to_owned());
    let settings = Settings { kubeconfig, allow_exec, namespace, config_map };
    let wanted = |is_wanted: bool| is_wanted.then(|| settings.clone());
    Ok(Access { learn: wanted(learn.kubernetes), events: wanted(kubernetes.events), taints: wanted(follows_taints) })
}

/// A name as Kubernetes takes it (RFC 1123).
fn name(text: &str, what: &str, letters_max: usize, example: &str, dots: bool) -> Result<String, String> {
    let allowed = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let parts_are_good = |part: &str| {
        let ends = [part.bytes().next(), part.bytes().last()];
        ends.into_iter().all(|end| end.is_some_and(allowed))
            && part.bytes().all(|letter| allowed(letter) || letter == b'-')
    };
    let good = if dots { text.split('.').all(parts_are_good) } else { parts_are_good(text) };
    if good && text.len() <= letters_max {
        return Ok(text.to_owned());
    }
    let dots = if dots { ", '.'" } else { "" };
    Err(format!("{text:?} is not {what}; write a-z, 0-9{dots} and '-', at most {letters_max}, such as {example}"))
}
