//! Decodes what Resource Manager returns, item by item: an item that cannot be decoded does not affect the others.

mod agent_pool;
mod autoscale;
mod machine;
mod own_changes;
mod set;
mod size;
mod usage;

use std::fmt;

use serde::de::{DeserializeOwned, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::api::BadItem;
use super::errors::ErrorContext;
use crate::cloud::CloudError;
use crate::cloud::text::{MESSAGE_CHARS_MAX, shorten};
use crate::clouds::azure::http::HttpResponse;
use crate::clouds::listing_size::AZURE_LIST_ITEMS_MAX;

pub(in crate::clouds::azure) use agent_pool::RawAgentPool;
pub(in crate::clouds::azure) use autoscale::RawAutoscaleSetting;
pub(in crate::clouds::azure) use machine::{RawMachine, is_in_scale_set, lacks_id};
pub(in crate::clouds::azure) use set::RawSet;
pub(in crate::clouds::azure) use size::{RawSize, is_size};
pub(in crate::clouds::azure) use usage::RawUsage;

/// The items of a page, undecoded.
pub(in crate::clouds::azure) fn items(
    context: ErrorContext<'_>,
    page: &HttpResponse,
) -> Result<Vec<Value>, CloudError> {
    #[derive(Deserialize)]
    struct Page {
        value: Items,
        // A link that cannot be read does not end the list.
        #[serde(rename = "nextLink")]
        _next_link: Option<String>,
    }
    let page: Page = serde_json::from_slice(&page.body).map_err(|error| context.unintelligible(&error.to_string()))?;
    Ok(page.value.0)
}

/// No more items than a list may have: each takes memory however short it is.
struct Items(Vec<Value>);

impl<'de> Deserialize<'de> for Items {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Counted;

        impl<'de> Visitor<'de> for Counted {
            type Value = Items;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, "a list of at most {AZURE_LIST_ITEMS_MAX} items")
            }

            fn visit_seq<S: SeqAccess<'de>>(self, mut list: S) -> Result<Items, S::Error> {
                let mut items = Vec::new();
                while let Some(item) = list.next_element()? {
                    if items.len() >= AZURE_LIST_ITEMS_MAX {
                        return Err(S::Error::invalid_length(items.len() + 1, &self));
                    }
                    items.push(item);
                }
                Ok(Items(items))
            }
        }

        deserializer.deserialize_seq(Counted)
    }
}

/// The URL of the next page; `None` on the last one.
pub(in crate::clouds::azure) fn next_link(
    context: ErrorContext<'_>,
    page: &HttpResponse,
) -> Result<Option<String>, CloudError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Page {
        next_link: Option<String>,
    }
    let page: Page = serde_json::from_slice(&page.body).map_err(|error| context.unintelligible(&error.to_string()))?;
    Ok(page.next_link.filter(|link| !link.is_empty()))
}

/// Decodes one item.
pub(in crate::clouds::azure) fn item<T: TryFrom<R, Error = String>, R: DeserializeOwned>(
    item: Value,
) -> Result<T, BadItem> {
    let name = item.get("name").or_else(|| item.get("id")).and_then(Value::as_str);
    let name = name.map(|name| name.rsplit('/').next().unwrap_or(name).to_owned());
    let read = serde_json::from_value::<R>(item).map_err(|error| error.to_string()).and_then(T::try_from);
    read.map_err(|reason| BadItem { name, reason: shorten(&reason, MESSAGE_CHARS_MAX) })
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
