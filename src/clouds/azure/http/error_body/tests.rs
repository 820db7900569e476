use hyper::header::{HeaderName, HeaderValue};
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::properties::{config, pieces};

const WAIT: [&str; 10] =
    ["-", ".", "120", "Fri, 31 Dec 9999 23:59:59 GMT", "Sat, 01 Jan 0000 00:00:00 GMT", "GMT", ":", ",", "Feb 30", " "];

fn map(headers: &[(&'static str, &str)]) -> HeaderMap {
    let header =
        |(name, value): &(&'static str, &str)| (HeaderName::from_static(name), value.parse().expect("a value"));
    headers.iter().map(header).collect()
}

fn headers() -> impl Strategy<Value = HeaderMap> {
    let value = option::of(prop_oneof![3 => pieces(&WAIT), 1 => any::<u64>().prop_map(|wait| wait.to_string())]);
    [value.clone(), value.clone(), value.clone(), value].prop_map(|values| {
        let names = ["retry-after", "retry-after-ms", "x-ms-retry-after-ms", "date"].map(HeaderName::from_static);
        let values = values.map(|value| HeaderValue::from_str(&value?).ok());
        names.into_iter().zip(values).filter_map(|(name, value)| Some((name, value?))).collect()
    })
}

#[test]
fn retry_after_is_read_in_every_form() {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777); // Sun, 06 Nov 1994 08:49:37 GMT
    for (headers, expected) in [
        (vec![("retry-after", "120")], Some(120_000)),
        (vec![("retry-after", "Sun, 06 Nov 1994 08:50:37 GMT")], Some(60_000)),
        (vec![("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT")], None),
        (vec![("retry-after", "0")], None),
        (vec![("retry-after", "120"), ("retry-after-ms", "1500")], Some(1500)),
        (vec![("x-ms-retry-after-ms", "250")], Some(250)),
        (vec![("retry-after", "999999999")], Some(1_800_000)),
        // Our clock is ahead of the server's, and behind it.
        (
            vec![("date", "Sun, 06 Nov 1994 08:00:00 GMT"), ("retry-after", "Sun, 06 Nov 1994 08:02:00 GMT")],
            Some(120_000),
        ),
        (
            vec![("date", "Sun, 06 Nov 1994 09:49:37 GMT"), ("retry-after", "Sun, 06 Nov 1994 09:50:37 GMT")],
            Some(60_000),
        ),
        (vec![("date", "soon"), ("retry-after", "Sun, 06 Nov 1994 08:50:37 GMT")], Some(60_000)),
        (vec![("retry-after", "soon")], None),
        (vec![], None),
    ] {
        let wait = retry_after(&map(&headers), now);
        assert_eq!(wait, expected.map(Duration::from_millis), "{headers:?}");
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_wait_is_longer_than_half_an_hour(headers in headers()) {
        let wait = retry_after(&headers, SystemTime::now());
        prop_assert!(wait.is_none_or(|wait| wait <= RETRY_AFTER_MAX), "{:?}", wait);
    }
}
