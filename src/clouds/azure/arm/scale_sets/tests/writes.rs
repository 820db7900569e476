//! Capacities, deletions and the operations that follow.

use super::*;

#[tokio::test]
async fn a_capacity_is_set_by_one_request_that_changes_nothing_else() {
    let server =
        Loopback::start([Reply::json(set("one", 5)).header("azure-asyncoperation", &format!("{{base}}{OPERATION}"))])
            .await;
    let handle = server.arm().set_capacity("one", Some("\"7\""), 5).await.expect("accepted").expect("a handle");
    assert_eq!(handle.0, format!("async {}{OPERATION}", server.base()));
    let [received] = &server.received()[..] else { panic!("one request") };
    assert_eq!(
        (&received.method, received.target.as_str()),
        (&Method::PATCH, format!("{SETS}/one?api-version=2024-07-01").as_str())
    );
    assert_eq!(received.body, r#"{"sku":{"capacity":5}}"#);
    assert_eq!(received.headers["if-match"], "\"7\"");
    assert_eq!(received.headers["content-type"], "application/json");
}

#[tokio::test]
async fn without_an_etag_a_capacity_is_set_without_a_precondition() {
    let server = Loopback::start([Reply::json(set("one", 5))]).await;
    server.arm().set_capacity("one", None, 5).await.expect("accepted");
    assert!(!server.received()[0].headers.contains_key("if-match"));
}

#[tokio::test]
async fn a_write_is_sent_once_with_any_response() {
    let responses = [
        (202, ""),
        (200, "{}"),
        (201, r#"{"properties":{"provisioningState":"Updating"}}"#),
        (500, "oops"),
        (503, ""),
        (429, ""),
    ];
    for (status, body) in responses {
        let server = Loopback::start([Reply::new(status, body), Reply::new(200, "{}"), Reply::new(200, "{}")]).await;
        let result = server.arm().set_capacity("one", Some("\"7\""), 5).await;
        assert_eq!(result.is_ok(), status < 300, "{status}: {result:?}");
        assert_eq!(result.is_err_and(|error| error.outcome_unknown()), matches!(status, 500 | 503), "{status}");
        assert_eq!(server.received().len(), 1, "{status}");
    }
}

#[tokio::test]
async fn the_page_of_a_proxy_is_no_acceptance() {
    for body in ["<!doctype html><p>Sign in</p>", r#"{"error":{"code":"Conflict","message":"no"}}"#] {
        let server = Loopback::start([Reply::new(200, body), Reply::new(202, body)]).await;
        let written = server.arm().set_capacity("one", Some("\"7\""), 5).await;
        assert!(written.is_err_and(|error| error.outcome_unknown()), "{body}");
        let deleted = server.arm().delete_machines("one", &["0".into()], false).await;
        assert!(deleted.is_err_and(|error| error.outcome_unknown()), "{body}");
    }
}

/// The scale set's state would be that of other writes.
#[tokio::test]
async fn without_an_address_a_capacity_is_polled_by_the_scale_set_and_a_deletion_not_at_all() {
    let server = Loopback::start([Reply::new(202, ""), Reply::new(202, "")]).await;
    let written = server.arm().set_capacity("one", Some("\"7\""), 5).await.expect("accepted");
    assert!(written.is_some_and(|handle| handle.0.starts_with("resource ")));
    assert_eq!(server.arm().delete_machines("one", &["0".into()], false).await.expect("accepted"), None);
}

#[tokio::test]
async fn a_url_on_the_endpoint_is_polled_where_the_other_one_is_not() {
    let accepted = Reply::new(202, "").header("azure-asyncoperation", "https://elsewhere.invalid/operation");
    let server = Loopback::start([accepted.header("location", &format!("{{base}}{OPERATION}"))]).await;
    let handle = server.arm().set_capacity("one", Some("\"7\""), 5).await.expect("accepted").expect("a handle");
    assert_eq!(handle.0, format!("location {}{OPERATION}", server.base()));
}

#[tokio::test]
async fn even_an_awaited_builder_cannot_send_a_write_twice() {
    let updating = json!({ "properties": { "provisioningState": "Updating" } });
    let server = Loopback::start((0..3).map(|_| Reply::new(202, &updating).header("retry-after", "0"))).await;
    let arm = server.arm();
    let sdk_call = SdkCall::new(&arm.client, ArmCall::new(operations::UPDATE_SCALE_SET, "one", Bucket::Update));
    let sets = sdk_call.sdk_client().virtual_machine_scale_sets_client();
    let awaited = sets.update("rg", "one", VirtualMachineScaleSetUpdate::default(), "sub").await;
    awaited.expect_err("the second sending");
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn a_precondition_that_fails_is_a_conflict() {
    let server = Loopback::start([Reply::new(412, error("PreconditionFailed", "the etag is another"))]).await;
    let conflict = server.arm().set_capacity("one", Some("\"7\""), 5).await.expect_err("a conflict");
    assert!(matches!(conflict, CloudError::Conflict(_)), "{conflict}");
}

#[tokio::test]
async fn machines_are_deleted_by_name_and_never_all() {
    let accepted = || Reply::new(202, "").header("location", &format!("{{base}}{OPERATION}?monitor=true"));
    let server = Loopback::start([accepted(), accepted()]).await;
    let arm = server.arm();
    for force in [false, true] {
        let handle = arm.delete_machines("one", &["0".into(), "3".into()], force).await.expect("accepted");
        assert_eq!(handle.expect("a handle").0, format!("location {}{OPERATION}?monitor=true", server.base()));
        let received = server.received().pop().expect("a request");
        assert_eq!(received.target, format!("{SETS}/one/delete?api-version=2024-07-01&forceDeletion={force}"));
        assert_eq!((received.method, received.body.as_str()), (Method::POST, r#"{"instanceIds":["0","3"]}"#));
    }
    for nobody in [vec![], vec!["*".to_owned()], vec![String::new()]] {
        assert!(matches!(arm.delete_machines("one", &nobody, false).await, Err(CloudError::Refused(_))));
    }
    for name in ["", "..", "a/b", "a?b", "a%2fb"] {
        assert!(matches!(arm.set_capacity(name, Some("1"), 1).await, Err(CloudError::Refused(_))), "{name}");
    }
    assert!(matches!(arm.set_capacity("one", Some(""), 1).await, Err(CloudError::Refused(_))), "no condition");
    assert_eq!(server.received().len(), 2);
}

#[tokio::test]
async fn an_operation_is_followed_to_its_end() {
    let server = Loopback::start([
        Reply::json(json!({ "status": "InProgress" })).header("retry-after", "7"),
        Reply::json(json!({ "status": "Failed", "error": { "code": "AllocationFailed", "message": "no room" } })),
        Reply::json(json!({ "status": "Failed", "error": { "code": "OperationPreempted", "message": "newer" } })),
        Reply::new(404, error("NotFound", "no such operation")),
        Reply::new(202, "").header("retry-after", "3"),
        Reply::new(204, ""),
        Reply::new(409, error("OverconstrainedAllocationRequest", "no")),
        Reply::new(409, error("Conflict", "no")),
    ])
    .await;
    let arm = server.arm();
    let ask = |kind: &'static str| {
        let handle = OperationHandle(format!("{kind} {}{OPERATION}", server.base()));
        let arm = &arm;
        async move { arm.poll(&handle).await }
    };
    let seconds = |seconds| Progress::Running { ask_after: Some(Duration::from_secs(seconds)) };
    assert_eq!(ask("async").await.expect("running"), seconds(7));
    let Ok(Progress::Failed(failure)) = ask("async").await else { panic!("failed") };
    assert_eq!(
        (failure.class, failure.code.as_str()),
        (crate::cloud::FailureClass::OutOfResources, "AllocationFailed")
    );
    assert_eq!(ask("async").await.expect("an end"), Progress::Preempted);
    assert!(matches!(ask("async").await, Err(CloudError::NotFound(_))));
    assert_eq!(ask("location").await.expect("running"), seconds(3));
    assert_eq!(ask("location").await.expect("an end"), Progress::Succeeded);
    let Ok(Progress::Failed(failure)) = ask("location").await else { panic!("failed") };
    assert_eq!(failure.class, crate::cloud::FailureClass::OutOfResources);
    assert!(matches!(ask("location").await, Ok(Progress::Failed(_))));
    for foreign in ["async https://evil.example/op", "location http://127.0.0.1:1/op", "async nonsense", "x", ""] {
        let refused = arm.poll(&OperationHandle(foreign.to_owned())).await;
        assert!(matches!(refused, Err(CloudError::Refused(_))), "{foreign}: {refused:?}");
    }
    assert_eq!(server.received().len(), 8);
}
