use super::*;

fn exposition(metrics: &CallMetrics) -> String {
    let (mut registry, mut text) = (Registry::default(), String::new());
    metrics.register(&mut registry);
    prometheus_client::encoding::text::encode(&mut text, &registry).expect("text");
    text
}

#[test]
fn expected_operations_are_at_zero_before_the_first_call() {
    let metrics = CallMetrics::default();
    metrics.meter("us").expect(["List"]);
    let text = exposition(&metrics);
    for line in [
        "headcount_cloud_requests_total{source=\"us\",api=\"List\",status=\"success\"} 0",
        "headcount_cloud_request_errors_total{source=\"us\",api=\"List\"} 0",
        "headcount_cloud_request_duration_seconds_count{source=\"us\",api=\"List\",status=\"success\"} 0",
        "headcount_cloud_throttled_total{source=\"us\"} 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
}

#[test]
fn a_failed_call_counts_under_its_code_and_in_the_total() {
    let metrics = CallMetrics::default();
    let meter = metrics.meter("us");
    let throttled = CallStatus::Failed { code: "Throttling", is_throttled: true };
    meter.observe("List", Duration::from_millis(60), throttled);
    meter.observe("List", Duration::from_secs(1), CallStatus::NoResponse);
    let text = exposition(&metrics);
    for line in [
        "headcount_cloud_requests_total{source=\"us\",api=\"List\",status=\"Throttling\"} 1",
        "headcount_cloud_requests_total{source=\"us\",api=\"List\",status=\"error\"} 1",
        "headcount_cloud_request_errors_total{source=\"us\",api=\"List\"} 2",
        "headcount_cloud_throttled_total{source=\"us\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
}

#[test]
fn error_codes_beyond_the_limit_share_one_series() {
    let metrics = CallMetrics::default();
    let meter = metrics.meter("us");
    for number in 0..2 * CODES_MAX {
        let code = format!("Code{number}");
        meter.observe("List", Duration::ZERO, CallStatus::Failed { code: &code, is_throttled: false });
    }
    let series = exposition(&metrics).lines().filter(|line| line.starts_with("headcount_cloud_requests_total")).count();
    assert_eq!(series, CODES_MAX + 1);
}
