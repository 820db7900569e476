//! All decoders of a response, for [`crate::parsers`].

use std::time::SystemTime;

use super::api::{AutoscaleSetting, ScaleSet, Size, VirtualMachine};
use super::decode::{self, RawAutoscaleSetting, RawMachine, RawSet, RawSize};
use super::errors::{ErrorContext, classify};
use super::lro::{self, PollMethod};
use super::operations;
use crate::clouds::azure::http::HttpResponse;

/// Reads a response as each kind of page, as an operation and as an error.
pub(in crate::clouds::azure) fn parse_page(response: HttpResponse, now: SystemTime) {
    let context = ErrorContext { operation: operations::LIST_SCALE_SETS, name: "rg" };
    let _error = classify(context, &response).to_string();
    let _next = decode::next_link(context, &response);
    for method in [PollMethod::AsyncOperation, PollMethod::Location, PollMethod::Resource] {
        let _progress = lro::progress(method, context, Ok(response.clone()), now);
    }
    for item in decode::items(context, &response).unwrap_or_default() {
        let _set = decode::item::<ScaleSet, RawSet>(item.clone());
        let _machine = (decode::lacks_id(&item), decode::item::<VirtualMachine, RawMachine>(item.clone()));
        let _size = decode::is_size(&item).then(|| decode::item::<Size, RawSize>(item.clone()));
        let _setting = decode::item::<AutoscaleSetting, RawAutoscaleSetting>(item);
    }
}
