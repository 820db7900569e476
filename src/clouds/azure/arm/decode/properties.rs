use hyper::{HeaderMap, StatusCode};
use proptest::prelude::*;
use serde_json::json;

use super::super::api::Size;
use super::super::operations;
use super::*;
use crate::cloud::text::MESSAGE_CHARS_MAX;
use crate::properties::{Written, config, slipped, spoiled};

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_machine_size_is_read_or_skipped(
        item in spoiled(json!({
            "resourceType": "virtualMachines", "name": "Standard_D2s_v5", "family": "standardDSv5Family",
            "capabilities": [{ "name": "vCPUs", "value": "2" }, { "name": "MemoryGB", "value": "8" }]
        })),
    ) {
        if is_size(&item) && let Ok(size) = super::item::<Size, RawSize>(item) {
            prop_assert!(!size.name.is_empty());
        }
    }

    #[test]
    fn a_page_is_all_of_its_items_or_an_error(page in slipped(json!({ "value": [{ "name": "a" }, { "name": "b" }] }).to_string())) {
        let Written(bytes) = page;
        let subject = ErrorContext { operation: operations::LIST_SCALE_SETS, name: "RG" };
        let told = serde_json::from_slice::<Value>(&bytes).ok();
        let told = told.as_ref().and_then(|page| page["value"].as_array()).map(Vec::len);
        let page = HttpResponse { status: StatusCode::OK, headers: HeaderMap::new(), body: bytes.into() };
        match items(subject, &page) {
            Ok(items) => prop_assert_eq!(Some(items.len()), told),
            Err(error) => prop_assert!(error.to_string().chars().count() < MESSAGE_CHARS_MAX + 100, "{}", error),
        }
    }
}
