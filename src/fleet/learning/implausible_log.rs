//! Logs figures that cannot be true, each once.

use std::collections::HashSet;

use crate::instance_types::Implausible;

/// Figures remembered as logged. Further ones are not logged.
const LOGGED_MAX: usize = 1000;

/// The figures that were logged, by node and resource.
#[derive(Debug, Default)]
pub(super) struct ImplausibleLog {
    logged: HashSet<(String, String)>,
}

impl ImplausibleLog {
    /// Logs a figure that a node reports now.
    pub(super) fn reported(&mut self, node: &str, type_name: &str, figure: &Implausible) {
        if self.is_new(node, figure) {
            tracing::warn!(
                node,
                type_name,
                %figure,
                "a node reports a figure that its instance type cannot have; the figure is not learned"
            );
        }
    }

    /// Logs a figure that was saved.
    pub(super) fn saved(&mut self, node: &str, figure: &Implausible) {
        if self.is_new(node, figure) {
            tracing::warn!(
                node,
                %figure,
                "the ConfigMap has a figure that the instance type cannot have; the figure is ignored and will be \
                    removed"
            );
        }
    }

    fn is_new(&mut self, node: &str, figure: &Implausible) -> bool {
        self.logged.len() < LOGGED_MAX && self.logged.insert((node.to_owned(), figure.resource.clone()))
    }
}
