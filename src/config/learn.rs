//! `learn:`, what is learned from the cluster's own nodes.

use std::path::Path;

use super::error::{ConfigError, check_file};
use super::file;
use super::source::SourceContext;
use super::validate::beside;
use super::yaml::{optional, place};
use crate::kubernetes::{CONFIG_MAP_DEFAULT, Settings};

/// The longest names that Kubernetes takes.
const NAMESPACE_LETTERS_MAX: usize = 63;
const CONFIG_MAP_LETTERS_MAX: usize = 253;

/// Checks `learn:`. `None` where nothing is to be learned.
pub(super) fn settings(
    learn: &file::Learn,
    path: &Path,
    context: &mut SourceContext<'_>,
) -> Result<Option<Settings>, ConfigError> {
    let kubeconfig = match &learn.kubeconfig {
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
    if !learn.kubernetes {
        let idle = learn.kubeconfig.as_ref().or(learn.namespace.as_ref()).or(learn.config_map.as_ref());
        let idle = idle.map(|idle| format!("{}: nothing is learned without learn.kubernetes: true", place(idle, path)));
        context.warnings.extend(idle);
        return Ok(None);
    }
    let config_map = config_map.unwrap_or_else(|| CONFIG_MAP_DEFAULT.to_owned());
    Ok(Some(Settings { kubeconfig, namespace, config_map }))
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
