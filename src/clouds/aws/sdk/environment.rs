//! The variables that the SDK panics on, or whose bad values it reports without their names.

use thiserror::Error;

use crate::cloud::parse_endpoint;

/// How often a read is attempted: the SDK's own default.
const ATTEMPTS: u32 = 3;
/// The most attempts. They all have to fit into the time of one read.
const ATTEMPTS_MAX: u32 = 10;

/// An environment variable that cannot be used.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum VariableError {
    /// The number of attempts of a read.
    #[error("AWS_MAX_ATTEMPTS={0:?} is not a number of attempts; write 1 or more")]
    Attempts(String),
    /// The address of a service.
    #[error("{name}: {reason}")]
    Endpoint {
        /// The variable.
        name: String,
        /// What is wrong, and what to write.
        reason: String,
    },
}

/// The variables that set the address of all services, or of one that is called.
const ENDPOINTS: [&str; 9] = [
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_ARC_ZONAL_SHIFT",
    "AWS_ENDPOINT_URL_AUTO_SCALING",
    "AWS_ENDPOINT_URL_EC2",
    "AWS_ENDPOINT_URL_EKS",
    "AWS_ENDPOINT_URL_PRICING",
    "AWS_ENDPOINT_URL_SSO",
    "AWS_ENDPOINT_URL_SSO_OIDC",
    "AWS_ENDPOINT_URL_STS",
];

/// Checks the variables before the SDK reads them.
pub(super) fn check() -> Result<(), VariableError> {
    let variable = |name: &str| std::env::var(name).ok();
    attempts_in(variable("AWS_MAX_ATTEMPTS").as_deref())?;
    check_endpoints(variable)
}

/// How often a read is attempted, as AWS_MAX_ATTEMPTS sets it.
pub(super) fn attempts() -> u32 {
    attempts_in(std::env::var("AWS_MAX_ATTEMPTS").ok().as_deref()).unwrap_or(ATTEMPTS)
}

fn attempts_in(variable: Option<&str>) -> Result<u32, VariableError> {
    let Some(text) = variable.map(str::trim).filter(|text| !text.is_empty()) else { return Ok(ATTEMPTS) };
    let attempts = text.parse::<u32>().ok().filter(|attempts| *attempts > 0);
    attempts.map(|attempts| attempts.min(ATTEMPTS_MAX)).ok_or_else(|| VariableError::Attempts(text.to_owned()))
}

fn check_endpoints(variable: impl Fn(&str) -> Option<String>) -> Result<(), VariableError> {
    let is_ignored = variable("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS");
    if is_ignored.is_some_and(|ignored| ignored.trim().eq_ignore_ascii_case("true")) {
        return Ok(());
    }
    for name in ENDPOINTS {
        let Some(value) = variable(name).filter(|value| !value.trim().is_empty()) else { continue };
        parse_endpoint(&value).map_err(|reason| VariableError::Endpoint { name: name.to_owned(), reason })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_a_small_number() {
        assert_eq!([None, Some(""), Some("5"), Some("20")].map(attempts_in), [Ok(3), Ok(3), Ok(5), Ok(10)]);
        for bad in ["0", "x", "-1"] {
            assert_eq!(attempts_in(Some(bad)), Err(VariableError::Attempts(bad.to_owned())));
        }
    }

    #[test]
    fn the_variable_of_a_bad_endpoint_is_named() {
        let of = |name: &str, value: &str| check_endpoints(|asked| (asked == name).then(|| value.to_owned()));
        assert_eq!(of("AWS_ENDPOINT_URL_EC2", "http://127.0.0.1:1"), Ok(()));
        assert_eq!(of("AWS_ENDPOINT_URL", " "), Ok(()));
        assert_eq!(of("AWS_ENDPOINT_URL_S3", "minio:9000"), Ok(()), "S3 is not called");
        let ignored = check_endpoints(|asked| {
            Some(if asked == "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS" { "true" } else { "minio:9000" }.to_owned())
        });
        assert_eq!(ignored, Ok(()));
        let error = of("AWS_ENDPOINT_URL_EC2", "127.0.0.1:1").expect_err("no scheme");
        assert!(error.to_string().starts_with("AWS_ENDPOINT_URL_EC2: \"127.0.0.1:1\" is not an endpoint"), "{error}");
    }
}
