use serde_json::json;

use super::super::api::{InstanceViewStatus, Orchestration, ScaleSet, VirtualMachine};
use super::super::operations;
use super::*;

fn set(value: Value) -> Result<ScaleSet, BadItem> {
    item::<_, RawSet>(value)
}

fn machine(value: Value) -> Result<VirtualMachine, BadItem> {
    item::<_, RawMachine>(value)
}

#[test]
fn a_scale_set_is_read_in_full() {
    let read = set(json!({
        "id": "/subscriptions/s/resourceGroups/RG/providers/Microsoft.Compute/virtualMachineScaleSets/one",
        "name": "one", "location": "westus", "zones": ["1", "2"], "etag": "\"3\"",
        "tags": { "min": "1", "empty": null },
        "sku": { "name": "Mix", "tier": "Standard", "capacity": 3 },
        "properties": {
            "provisioningState": "Updating", "orchestrationMode": "flexible", "overprovision": true,
            "timeCreated": "not a date", "hostGroup": { "id": "/g" }, "singlePlacementGroup": true,
            "priorityMixPolicy": { "baseRegularPriorityCount": 10 },
            "skuProfile": { "vmSizes": [{ "name": "Standard_D2s_v5" }, { "name": "Standard_D2as_v5" }] },
            "virtualMachineProfile": {
                "capacityReservation": { "capacityReservationGroup": { "id": "/r" } },
                "priority": "Spot", "osProfile": { "windowsConfiguration": {} },
                "hardwareProfile": { "vmSizeProperties": { "vCPUsAvailable": 4, "vCPUsPerCore": 1 } },
                "networkProfile": { "networkInterfaceConfigurations": [
                    { "name": "nic", "properties": { "primary": true, "ipConfigurations": [
                        { "name": "ipconfig1", "properties": { "privateIPAddressVersion": "IPv4" } },
                        { "name": "ipconfig2", "properties": {} },
                        { "name": "ipconfigv6", "properties": { "privateIPAddressVersion": "IPv6" } } ] } },
                    { "name": "other", "properties": { "ipConfigurations": [{ "name": "ipconfig1" }] } },
                    { "name": "bare" } ] },
                "securityProfile": { "securityType": "TrustedLaunch", "uefiSettings": { "vTpmEnabled": true } },
                "storageProfile": { "imageReference": { "id": "/galleries/AKSUbuntu/images/2204gen2containerd" },
                                    "osDisk": { "diskSizeGB": 128, "diffDiskSettings": { "option": "Local" },
                                                "managedDisk": { "storageAccountType": "Premium_LRS" } } }
            }
        }
    }))
    .expect("a scale set");
    let tags: Vec<_> = read.tags.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert_eq!(tags, [("empty", ""), ("min", "1")]);
    assert_eq!((read.capacity, read.etag.as_deref(), read.zones.len()), (Some(3), Some("\"3\""), 2));
    assert_eq!((read.orchestration, read.mixed_sizes.len()), (Orchestration::Flexible, 2));
    assert!(read.has_reservation && read.mixes_priorities && read.has_single_placement_group);
    assert!(read.has_host_group && read.overprovision && read.spot && read.windows && read.ephemeral_os_disk);
    assert_eq!((read.os_disk_gb, read.storage_account_type.as_deref()), (Some(128), Some("Premium_LRS")));
    assert_eq!((read.cpus_available, read.has_one_thread_per_core, read.addresses), (Some(4), true, Some(2)));
    assert_eq!(read.image.as_deref(), Some("/galleries/AKSUbuntu/images/2204gen2containerd"));
    assert_eq!(read.security_type.as_deref(), Some("TrustedLaunch"));
}

#[test]
fn an_image_is_named_by_its_gallery_or_by_its_place_on_the_market() {
    let of = |image: Value| {
        let profile = json!({ "storageProfile": { "imageReference": image } });
        let properties = json!({ "virtualMachineProfile": profile, "priorityMixPolicy": null });
        let read = set(json!({ "id": "/x/one", "location": "w", "properties": properties })).expect("a set");
        assert!(!read.mixes_priorities);
        read.image_name
    };
    let flatcar =
        json!({ "publisher": "kinvolk", "offer": "flatcar-container-linux-corevm-amd64", "sku": "stable-gen2" });
    assert_eq!(of(flatcar).as_deref(), Some("kinvolk flatcar-container-linux-corevm-amd64 stable-gen2"));
    let community = "/communityGalleries/flatcar4capi-742ef0cb/images/flatcar-stable-amd64-capi-v1.31/versions/latest";
    assert_eq!(of(json!({ "communityGalleryImageId": community })).as_deref(), Some(community));
    assert_eq!((of(json!({ "id": "/a" })), of(json!({})), of(Value::Null)), (None, None, None));
}

#[test]
fn a_set_of_a_specialized_windows_image_is_windows_without_an_os_profile() {
    let of = |os: &str| {
        let profile = json!({ "storageProfile": { "osDisk": { "osType": os } } });
        set(json!({ "id": "/x/one", "location": "w", "properties": { "virtualMachineProfile": profile } }))
            .expect("a set")
    };
    assert_eq!((of("Windows").windows, of("Linux").windows), (true, false));
}

#[test]
fn a_missing_value_is_unknown_and_never_zero() {
    let bare = set(json!({ "id": "/x/one", "location": "westus", "properties": null, "tags": null })).expect("a set");
    assert_eq!(
        bare,
        ScaleSet { id: "/x/one".into(), name: "one".into(), location: "westus".into(), ..ScaleSet::default() }
    );
    assert_eq!((bare.capacity, bare.etag, bare.orchestration), (None, None, Orchestration::Uniform));
}

#[test]
fn an_item_that_cannot_be_decoded_is_named() {
    for (value, name, reason) in [
        (json!({ "id": "/x/one", "name": "one" }), Some("one"), "it has no location"),
        (json!({ "id": "/x/one", "location": "w", "sku": { "capacity": -1 } }), Some("one"), "invalid value"),
        (json!({ "id": "/x/one", "location": "w", "properties": { "orchestrationMode": "New" } }), Some("one"), "New"),
        (json!({ "name": "one", "location": "w" }), Some("one"), "it has no ID"),
        (json!("text"), None, "invalid type"),
    ] {
        let bad = set(value.clone()).expect_err("a bad item");
        assert_eq!(bad.name.as_deref(), name);
        assert!(bad.reason.contains(reason), "{value}: {}", bad.reason);
    }
}

#[test]
fn a_machine_is_read_with_its_failed_extensions() {
    let failed = json!([{ "code": "ProvisioningState/failed/7", "level": "Error", "message": "exit 7" }]);
    let fine = json!([{ "code": "ProvisioningState/succeeded", "level": "Info", "message": "ok" }]);
    let uniform = "/subscriptions/s/x/virtualMachineScaleSets/one/virtualMachines/3";
    let read = machine(json!({
        "id": uniform, "name": "one_3", "instanceId": "3",
        "properties": {
            "provisioningState": "Failed", "timeCreated": "2024-06-11T21:13:35.8110461+00:00",
            "instanceView": { "statuses": [{ "code": "PowerState/running", "time": "no date" }],
                              "extensions": [{ "name": "vmssCSE", "statuses": failed }, { "name": "fine", "statuses": fine }] }
        }
    }))
    .expect("a machine");
    assert_eq!(read.delete_by, "3");
    assert_eq!(read.statuses.expect("a view")[0].code, "PowerState/running");
    assert_eq!(read.failed_extensions, [InstanceViewStatus { code: "vmssCSE".into(), message: Some("exit 7".into()) }]);
    let since_epoch = read.created.and_then(|created| created.duration_since(std::time::UNIX_EPOCH).ok());
    assert_eq!(since_epoch.map(|time| time.as_secs()), Some(1_718_140_415));
    let undated = machine(json!({ "id": uniform, "properties": { "timeCreated": "yesterday" } })).expect("a machine");
    assert_eq!(undated.created, None);
    let bare = machine(json!({ "id": uniform, "name": "one_3" })).expect("a machine");
    assert_eq!((bare.delete_by.as_str(), bare.statuses), ("3", None), "without a view there is no state");
    let other = machine(json!({ "id": uniform, "name": "one_4", "instanceId": "4" })).expect("a machine");
    assert_eq!(other.delete_by, "3", "what the autoscaler names is the ID");
    let viewed = machine(json!({ "id": uniform, "properties": { "instanceView": {} } })).expect("a machine");
    assert_eq!(viewed.statuses, Some(vec![]));
    machine(json!({ "name": "one_3", "id": "" })).expect_err("it could not be deleted");
}

#[test]
fn a_page_whose_link_cannot_be_read_is_not_the_last_one() {
    let page = |text: &str| {
        let (headers, body) = (hyper::HeaderMap::new(), text.to_owned().into());
        let context = ErrorContext { operation: operations::LIST_SCALE_SETS, name: "RG" };
        items(context, &HttpResponse { status: hyper::StatusCode::OK, headers, body })
    };
    for good in [r#"{"value": []}"#, r#"{"value": [], "nextLink": null}"#, r#"{"value": [], "nextLink": "https://a/"}"#]
    {
        assert!(page(good).is_ok(), "{good}");
    }
    for bad in [r#"{"value": [], "nextLink": 7}"#, r#"{"value": [], "nextLink": "https://a/", "nextLink": ""}"#] {
        assert!(page(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_page_with_more_items_than_a_list_may_have_is_given_up_while_it_is_decoded() {
    let context = ErrorContext { operation: operations::LIST_SCALE_SETS, name: "rg" };
    let page = |items: usize| {
        let body = format!("{{\"value\": [{}]}}", vec!["{}"; items].join(","));
        HttpResponse { status: hyper::StatusCode::OK, headers: hyper::HeaderMap::new(), body: body.into() }
    };
    assert_eq!(
        items(context, &page(AZURE_LIST_ITEMS_MAX)).expect("as many as there may be").len(),
        AZURE_LIST_ITEMS_MAX
    );
    let error = items(context, &page(AZURE_LIST_ITEMS_MAX + 1)).expect_err("one too many");
    assert!(error.to_string().contains("at most 100000 items"), "{error}");
}

#[test]
fn a_pool_says_whether_its_kubelets_use_the_temporary_disk() {
    let pool = |properties: Value| {
        let pool =
            item::<super::super::api::AgentPool, RawAgentPool>(json!({ "name": "one", "properties": properties }));
        pool.map(|pool| pool.is_on_temporary_disk)
    };
    assert_eq!(pool(json!({ "kubeletDiskType": "Temporary" })), Ok(true));
    assert_eq!(pool(json!({ "kubeletDiskType": "OS" })), Ok(false));
    assert_eq!(pool(json!({})), Ok(false));
}
