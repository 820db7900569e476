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
    let (found, missing) = lacks(&is_set)?;
    let what = format!(
        "{found} is set, but {missing} is not: the webhook of the cloud identity did not run for this container"
    );
    Some((what, "check the annotations and labels of the pod and its ServiceAccount, then delete the pod"))
}

/// A variable of a webhook that is set, and the one beside it that is not.
fn lacks(is_set: &dyn Fn(&'static str) -> bool) -> Option<(&'static str, &'static str)> {
    let pairs: [(&str, &str, &[&str]); 2] = [
        ("AZURE_FEDERATED_TOKEN_FILE", "AZURE_CLIENT_ID", &AZURE_CREDENTIALS),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN", &[]),
    ];
    pairs.into_iter().find_map(|(file, id, others)| match (is_set(file), is_set(id)) {
        (true, false) => Some((file, id)),
        (false, true) if !others.iter().any(|other| is_set(other)) => Some((id, file)),
        _ => None,
    })
}

/// The variables of other credentials of Azure, which need the client's ID as well.
const AZURE_CREDENTIALS: [&str; 4] =
    ["ARM_CLIENT_SECRET", "ARM_CLIENT_CERT_PATH", "AZURE_CLIENT_SECRET", "ARM_USE_MANAGED_IDENTITY_EXTENSION"];

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

#[cfg(test)]
mod tests {
    use super::lacks;

    fn found(set: &[&str]) -> Option<(&'static str, &'static str)> {
        lacks(&|name| set.contains(&name))
    }

    #[test]
    fn half_of_what_a_webhook_injects_shows_that_it_did_not_run() {
        let (azure_file, azure_id) = ("AZURE_FEDERATED_TOKEN_FILE", "AZURE_CLIENT_ID");
        assert_eq!(found(&[azure_file]), Some((azure_file, azure_id)));
        assert_eq!(found(&[azure_id]), Some((azure_id, azure_file)));
        assert_eq!(found(&["AWS_ROLE_ARN"]), Some(("AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE")));
        for complete in [&[azure_file, azure_id][..], &[]] {
            assert_eq!(found(complete), None, "{complete:?}");
        }
    }

    #[test]
    fn a_service_principal_and_a_managed_identity_have_an_id_without_a_token_file() {
        for other in ["ARM_CLIENT_SECRET", "ARM_CLIENT_CERT_PATH", "ARM_USE_MANAGED_IDENTITY_EXTENSION"] {
            assert_eq!(found(&["AZURE_CLIENT_ID", other]), None, "{other}");
        }
    }
}
