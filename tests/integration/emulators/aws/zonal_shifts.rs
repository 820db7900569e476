//! GetManagedResource of Application Recovery Controller, and DescribeAvailabilityZones, which has its zones' names.

use serde_json::{Map, Value, json};

use super::super::http_messages::{HttpResponse, Request, decoded};
use super::errors::eks_error;
use super::router::AwsApi;
use super::xml::{element, items, text};

/// The zones of the region. The IDs are in another order than the names, as in most accounts.
const ZONES: [(&str, &str); 3] = [("us-east-1a", "use1-az4"), ("us-east-1b", "use1-az6"), ("us-east-1c", "use1-az1")];

impl AwsApi {
    pub(super) fn managed_resource(&self, request: &Request) -> HttpResponse {
        let arn = decoded(request.path.trim_start_matches("/managedresources/"));
        let name = arn.rsplit(['/', ':']).next().unwrap_or_default();
        let Some(shifted) = self.group_details(name).shifted else {
            return eks_error(404, "ResourceNotFoundException", "The resource is not a managed resource.");
        };
        let away = |zone: &str| shifted.iter().any(|one| one == zone);
        let weights = ZONES.iter().map(|(zone, id)| ((*id).to_owned(), json!(if away(zone) { 0.0 } else { 1.0 })));
        let shifts = ZONES.iter().filter(|(zone, _)| away(zone)).map(|(_, id)| {
            json!({
                "appliedStatus": "APPLIED", "awayFrom": id, "comment": "an outage", "resourceIdentifier": arn,
                "zonalShiftId": "5f9bd1ba-6bb1-4bf4-9cb9-0ea5ee4f0a1b", "shiftType": "ZONAL_SHIFT",
                "startTime": 1_764_000_000, "expiryTime": 1_764_086_400,
            })
        });
        let resource = json!({
            "arn": arn, "name": name, "appliedWeights": weights.collect::<Map<String, Value>>(),
            "zonalShifts": shifts.collect::<Vec<_>>(), "autoshifts": [], "zonalAutoshiftStatus": "DISABLED",
        });
        HttpResponse::json(200, &resource)
    }

    pub(super) fn describe_zones(&self) -> HttpResponse {
        let zones = ZONES.iter().map(|(zone, id)| {
            let state = text("zoneState", "available") + &text("regionName", "us-east-1");
            state + &text("zoneName", zone) + &text("zoneId", id)
        });
        let found = items("availabilityZoneInfo", zones);
        HttpResponse::xml(200, element("DescribeAvailabilityZonesResponse", text("requestId", "1") + &found))
    }
}
