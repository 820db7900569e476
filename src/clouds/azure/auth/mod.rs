//! Sign-in: credentials, and the metadata service of the VM. Imports only [`super::http`].

mod certificate;
mod credential_file;
mod credentials;
mod federated;
mod in_time;
mod metadata;

pub(super) use certificate::parse_certificate;
pub(super) use credentials::{CredentialError, credential};
pub(super) use federated::parse_token;
pub(super) use metadata::subscription;
