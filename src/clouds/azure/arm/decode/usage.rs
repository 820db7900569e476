//! Decodes the usage of quotas.

use serde::Deserialize;

use super::super::api::Usage;

/// A quota as returned.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in crate::clouds::azure) struct RawUsage {
    current_value: Option<i64>,
    limit: Option<i64>,
    name: Option<RawUsageName>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawUsageName {
    value: Option<String>,
}

impl TryFrom<RawUsage> for Usage {
    type Error = String;

    fn try_from(raw: RawUsage) -> Result<Self, String> {
        let number = |number: Option<i64>, what: &str| {
            number.and_then(|number| u64::try_from(number).ok()).ok_or_else(|| format!("its {what} is not known"))
        };
        let name = raw.name.and_then(|name| name.value).filter(|name| !name.is_empty()).ok_or("it has no name")?;
        Ok(Self { used: number(raw.current_value, "usage")?, limit: number(raw.limit, "limit")?, name })
    }
}
