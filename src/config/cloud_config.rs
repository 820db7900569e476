//! The configuration of the in-tree Azure provider: a JSON file and environment variables. Neither belongs to
//! Headcount, so keys that it does not use are warnings, not errors.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::Deserializer;
use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};

use super::error::{ConfigError, Located, Place, read_file};
use super::scalar;
use super::source::SourceContext;
use super::yaml::kind_of;

/// A value of the in-tree configuration that Headcount uses.
struct Key {
    /// Its key in the file.
    name: &'static str,
    /// An older key in the file, which takes precedence.
    legacy: Option<&'static str>,
    /// Its environment variables; the first one that is set is used.
    variables: &'static [&'static str],
    value_type: ValueType,
}

#[derive(Clone, Copy, PartialEq)]
enum ValueType {
    Text,
    Switch,
}

const fn text(name: &'static str, variables: &'static [&'static str]) -> Key {
    Key { name, legacy: None, variables, value_type: ValueType::Text }
}

const fn switch(name: &'static str, variables: &'static [&'static str]) -> Key {
    Key { name, legacy: None, variables, value_type: ValueType::Switch }
}

const KEYS: [Key; 19] = [
    text("cloud", &["ARM_CLOUD"]),
    text("location", &["LOCATION"]),
    text("resourceGroup", &["ARM_RESOURCE_GROUP"]),
    text("subscriptionId", &["ARM_SUBSCRIPTION_ID"]),
    text("vmType", &["ARM_VM_TYPE"]),
    text("authMethod", &[]),
    text("tenantId", &["AZURE_TENANT_ID", "ARM_TENANT_ID"]),
    text("aadClientId", &["AZURE_CLIENT_ID", "ARM_CLIENT_ID"]),
    text("aadClientSecret", &["ARM_CLIENT_SECRET"]),
    text("aadClientCertPath", &["ARM_CLIENT_CERT_PATH"]),
    text("aadClientCertPassword", &["ARM_CLIENT_CERT_PASSWORD"]),
    text("aadFederatedTokenFile", &["AZURE_FEDERATED_TOKEN_FILE"]),
    switch("useManagedIdentityExtension", &["ARM_USE_MANAGED_IDENTITY_EXTENSION"]),
    text("userAssignedIdentityID", &["ARM_USER_ASSIGNED_IDENTITY_ID"]),
    Key {
        name: "useFederatedWorkloadIdentityExtension",
        legacy: Some("useWorkloadIdentityExtension"),
        variables: &["ARM_USE_WORKLOAD_IDENTITY_EXTENSION", "ARM_USE_FEDERATED_WORKLOAD_IDENTITY_EXTENSION"],
        value_type: ValueType::Switch,
    },
    switch("enableForceDelete", &["AZURE_ENABLE_FORCE_DELETE"]),
    switch("enableDetailedCSEMessage", &["AZURE_ENABLE_DETAILED_CSE_MESSAGE"]),
    switch("enableLabelPredictionsOnTemplate", &["AZURE_ENABLE_LABEL_PREDICTIONS_ON_TEMPLATE"]),
    text("resourceManagerEndpoint", &[]),
];

/// Variables that the in-tree provider reads and Headcount does not use: caches, retries and rate limits that it does
/// not have, switches for what it always does, and virtual machines outside of scale sets, which it does not serve.
const UNUSED_VARIABLES: [&str; 31] = [
    "ARM_BASE_URL_FOR_AP_CLIENT",
    "ARM_CLUSTER_RESOURCE_GROUP",
    "ARM_DEPLOYMENT",
    "AZURE_ENABLE_DYNAMIC_INSTANCE_LIST",
    "AZURE_ENABLE_FAST_DELETE_ON_FAILED_PROVISIONING",
    "AZURE_ENABLE_VMSS_ETAG",
    "AZURE_ENABLE_VMSS_FLEX",
    "AZURE_ENABLE_VMSS_FLEX_NODES",
    "AZURE_ENABLE_VMS_AGENT_POOLS",
    "AZURE_GET_VMSS_SIZE_REFRESH_PERIOD",
    "AZURE_MAX_DEPLOYMENT_COUNT",
    "AZURE_STRICT_CACHE_UPDATES",
    "AZURE_VMSS_CACHE_TTL",
    "AZURE_VMSS_CACHE_TTL_IN_SECONDS",
    "AZURE_VMSS_VMS_CACHE_JITTER",
    "AZURE_VMSS_VMS_CACHE_TTL",
    "AZURE_VMSS_VMS_CACHE_TTL_IN_SECONDS",
    "BACKOFF_DURATION",
    "BACKOFF_EXPONENT",
    "BACKOFF_JITTER",
    "BACKOFF_RETRIES",
    "CLOUD_PROVIDER_RATE_LIMIT",
    "CLUSTER_NAME",
    "ENABLE_BACKOFF",
    "HOSTED_RESOURCE_GROUP",
    "HOSTED_RESOURCE_PROXY_URL",
    "HOSTED_SUBSCRIPTION_ID",
    "RATE_LIMIT_READ_BUCKETS",
    "RATE_LIMIT_READ_QPS",
    "RATE_LIMIT_WRITE_BUCKETS",
    "RATE_LIMIT_WRITE_QPS",
];

/// Values by their key in the file. Booleans are `true` or `false`.
pub(super) type Layer = BTreeMap<&'static str, Located<String>>;

/// Reads the values in the environment. Blank variables are ignored.
pub(super) fn from_environment(context: &mut SourceContext<'_>) -> Result<Layer, ConfigError> {
    let set = |variable: &str| (context.environment)(variable).filter(|value| !value.trim().is_empty());
    let mut layer = Layer::new();
    for key in &KEYS {
        let Some((variable, value)) = key.variables.iter().find_map(|name| Some((*name, set(name)?))) else { continue };
        let place = Place::Variable(variable);
        let mut value = value.trim().to_owned();
        if key.value_type == ValueType::Switch {
            value = scalar::switch(&value).map_err(|message| ConfigError::at(&place, message))?.to_string();
        }
        layer.insert(key.name, Located { value, place });
    }
    let unused = UNUSED_VARIABLES.into_iter().filter(|variable| set(variable).is_some()).collect::<Vec<_>>();
    if !unused.is_empty() {
        context
            .warnings
            .push(format!("these environment variables have no effect in Headcount: {}", unused.join(", ")));
    }
    Ok(layer)
}

/// Reads the values in the file. `place` is where the file is named.
pub(super) fn from_file(path: &Path, place: &Place, context: &mut SourceContext<'_>) -> Result<Layer, ConfigError> {
    parse(&read_file(path, place)?, path, context)
}

/// Reads the values in a text. Errors name `path`.
pub(super) fn parse(text: &str, path: &Path, context: &mut SourceContext<'_>) -> Result<Layer, ConfigError> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let parsed = deserializer.deserialize_map(FileVisitor).and_then(|found| deserializer.end().map(|()| found));
    let (values, unused) = parsed.map_err(|error| {
        let (line, column) = (error.line() as u64, error.column() as u64);
        let message = error.to_string();
        let message = message.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&message);
        ConfigError::at(&Place::Text { file: path.to_owned(), line, column }, message)
    })?;
    if !unused.is_empty() {
        context.warnings.push(format!(
            "{}: these keys have no effect in Headcount: {}",
            path.display(),
            unused.join(", ")
        ));
    }
    let located = |(key, value)| (key, Located { value, place: Place::Key { file: path.to_owned(), key } });
    Ok(values.into_iter().map(located).collect())
}

/// Takes the value out of an error: it may be a secret under the wrong key. The parser quotes it between what it found
/// and what it expected.
fn without_value(error: &str) -> String {
    match error.rsplit_once(", expected ") {
        Some((found, expected)) => format!("{}, expected {expected}", kind_of(found)),
        None => error.to_owned(),
    }
}

/// Collects the values that Headcount uses, and the keys that it does not.
struct FileVisitor;

impl<'de> Visitor<'de> for FileVisitor {
    type Value = (BTreeMap<&'static str, String>, Vec<String>);

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the in-tree Azure provider's configuration, a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut values, mut legacy, mut unused) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        while let Some(name) = map.next_key::<String>()? {
            // Go's JSON parser, for which the file was written, ignores the case of keys.
            let same = |key: &str| key.eq_ignore_ascii_case(&name);
            let Some(key) = KEYS.iter().find(|key| same(key.name) || key.legacy.is_some_and(same)) else {
                map.next_value::<IgnoredAny>()?;
                unused.push(name);
                continue;
            };
            let value = match key.value_type {
                ValueType::Text => map.next_value::<Option<String>>(),
                ValueType::Switch => map.next_value::<Option<bool>>().map(|value| value.map(|value| value.to_string())),
            };
            // serde_json appends the place to the message.
            let value = value
                .map_err(|error| A::Error::custom(format_args!("{name}: {}", without_value(&error.to_string()))))?;
            if let Some(value) = value {
                if key.legacy.is_some_and(same) { &mut legacy } else { &mut values }.insert(key.name, value);
            }
        }
        values.append(&mut legacy);
        Ok((values, unused))
    }
}
