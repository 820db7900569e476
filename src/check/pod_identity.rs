//! Whether the pod has the cloud identity that a webhook should have injected.

use super::CheckInput;
use super::collected::{CollectedSource, ListingFailure};
use crate::cloud::{CloudError, Family};

/// Whether the pod runs without the variables that the webhook of a cloud identity should have injected. Azure's
/// webhook can lose a race with the pod's creation (azure-workload-identity #540, #790).
pub(super) fn webhook(input: &CheckInput<'_>) -> Option<(String, &'static str)> {
    let is_set = |name| (input.environment)(name).is_some_and(|value| !value.is_empty());
    if !is_set("KUBERNETES_SERVICE_HOST") {
        return None;
    }
    let (found, missing) =
        [("AZURE_FEDERATED_TOKEN_FILE", "AZURE_CLIENT_ID"), ("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN")]
            .into_iter()
            .find_map(|(file, id)| match (is_set(file), is_set(id)) {
                (true, false) => Some((file, id)),
                (false, true) => Some((id, file)),
                _ => None,
            })?;
    let what = format!(
        "{found} is set, but {missing} is not: the webhook of the cloud identity did not run for this container"
    );
    Some((what, "check the annotations and labels of the pod and its ServiceAccount, then delete the pod"))
}

/// The variables through which a pod gets an AWS identity or other credentials.
const AWS_CREDENTIALS: [&str; 6] = [
    "AWS_ROLE_ARN",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_ACCESS_KEY_ID",
    "AWS_PROFILE",
    "AWS_SHARED_CREDENTIALS_FILE",
];

/// Whether an AWS source cannot be read from a pod that has none of these variables. For Azure, the sign-in fails
/// earlier, with its own error.
pub(super) fn no_identity(input: &CheckInput<'_>, sources: &[CollectedSource]) -> Option<(String, &'static str)> {
    let is_set = |name| (input.environment)(name).is_some_and(|value| !value.is_empty());
    let is_denied = |source: &CollectedSource| {
        let denied = matches!(&source.listed, Err(ListingFailure::Failed(CloudError::Denied(_))));
        source.family == Family::Aws && denied
    };
    let source = sources.iter().find(|source| is_denied(source))?;
    if !is_set("KUBERNETES_SERVICE_HOST") || AWS_CREDENTIALS.into_iter().any(is_set) {
        return None;
    }
    let what = format!(
        "the pod has no identity for source {}: no webhook set AWS_ROLE_ARN (IRSA) or AWS_CONTAINER_CREDENTIALS_FULL_URI (EKS Pod \
         Identity) in this container",
        source.name
    );
    Some((what, "annotate the ServiceAccount, or create the Pod Identity association, then delete the pod"))
}
