//! The HTTP client of the SDK, within limits: no response is longer than its limit, and link-local addresses are
//! never reached through a proxy.
//!
//! The credential chain uses it too. Its providers would read a response of any length.

use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore};
use aws_smithy_http_client::{Builder, Connector};
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use hyper::Uri;

use crate::clouds::listing_size::AWS_PAGE_ITEMS_MAX;
use crate::clouds::roots;
use crate::limits::{AWS_ERROR, AWS_PRICES, AWS_RESPONSE, AWS_SIGN_IN, Limit, read_beginning, read_body};

/// The path of the metadata service that returns the name of the role, which is part of the next request's path.
const ROLE_PATHS: [&str; 2] = ["/iam/security-credentials/", "/iam/security-credentials-extended/"];

/// How requests name the Price List API.
const PRICE_LIST: &str = "AWSPriceListService";

/// A client for the credential chain.
pub(super) fn for_sign_in() -> SharedHttpClient {
    client(AWS_SIGN_IN)
}

/// A client for the services.
pub(in crate::clouds::aws) fn for_services() -> SharedHttpClient {
    client(AWS_RESPONSE)
}

/// This client, with the limits of the credential chain.
pub(in crate::clouds::aws) fn bounded(client: SharedHttpClient) -> SharedHttpClient {
    SharedHttpClient::new(BoundedClient { direct: client.clone(), proxied: client, limit: AWS_SIGN_IN })
}

fn client(limit: Limit) -> SharedHttpClient {
    let direct = base(ProxyConfig::disabled());
    let proxied = base(ProxyConfig::from_env());
    SharedHttpClient::new(BoundedClient { direct, proxied, limit })
}

/// The SDK's client. It looks for root certificates at once, even where only plain HTTP is used; so it trusts nobody
/// if there are none.
fn base(proxy: ProxyConfig) -> SharedHttpClient {
    let nobody = || TlsContext::builder().with_trust_store(TrustStore::empty()).build().ok();
    let context = roots::check().err().and_then(|_| nobody());
    Builder::new().build_with_connector_fn(move |settings, components| {
        let mut connector = Connector::builder().proxy_config(proxy.clone());
        connector.set_connector_settings(settings.cloned());
        connector.set_sleep_impl(components.and_then(RuntimeComponents::sleep_impl));
        let mut connector = connector.tls_provider(Provider::Rustls(CryptoMode::AwsLc));
        if let Some(context) = context.clone() {
            connector = connector.tls_context(context);
        }
        connector.build()
    })
}

#[derive(Debug)]
struct BoundedClient {
    direct: SharedHttpClient,
    proxied: SharedHttpClient,
    limit: Limit,
}

impl HttpClient for BoundedClient {
    fn http_connector(&self, settings: &HttpConnectorSettings, components: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(BoundedConnector {
            direct: self.direct.http_connector(settings, components),
            proxied: self.proxied.http_connector(settings, components),
            limit: self.limit,
        })
    }
}

#[derive(Debug)]
struct BoundedConnector {
    direct: SharedHttpConnector,
    proxied: SharedHttpConnector,
    limit: Limit,
}

impl HttpConnector for BoundedConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let uri = request.uri().parse::<Uri>().unwrap_or_default();
        let connector = if is_link_local(uri.host().unwrap_or_default()) { &self.direct } else { &self.proxied };
        let names_a_role = ROLE_PATHS.iter().any(|path| uri.path().ends_with(path));
        let is_priced = request.headers().get("x-amz-target").is_some_and(|target| target.starts_with(PRICE_LIST));
        let limit = if is_priced { AWS_PRICES } else { self.limit };
        let response = connector.call(request);
        HttpConnectorFuture::new(async move {
            let mut response = response.await?;
            let body = std::mem::replace(response.body_mut(), SdkBody::taken());
            let read = match response.status().is_success() {
                true => read_body(body, limit).await,
                // Without the end of its body, an error still has its status.
                false => Ok(read_beginning(body, AWS_ERROR).await),
            };
            let body = read.map_err(|error| ConnectorError::io(error.into()))?;
            if names_a_role && response.status().is_success() && !is_role(&body) {
                let why = "the metadata service returned no name of a role";
                return Err(ConnectorError::other(why.into(), None));
            }
            if has_too_many_items(&body) {
                let why = format!("the response has more than {AWS_PAGE_ITEMS_MAX} items");
                return Err(ConnectorError::other(why.into(), None));
            }
            *response.body_mut() = SdkBody::from(body);
            Ok(response)
        })
    }
}

/// Whether a page of XML has more items than any page can have. The SDK decodes each to a struct of a hundred times its
/// length.
fn has_too_many_items(page: &[u8]) -> bool {
    let is_item = |tag: &&[u8]| tag.starts_with(b"member") || tag.starts_with(b"item");
    page.split(|letter| *letter == b'<').filter(is_item).nth(AWS_PAGE_ITEMS_MAX).is_some()
}

/// Whether this is the name of a role. With anything else, the SDK would panic.
fn is_role(name: &[u8]) -> bool {
    let is_letter = |letter: &u8| letter.is_ascii_alphanumeric() || b"+=,.@_-".contains(letter);
    name.trim_ascii().iter().all(is_letter)
}

/// Whether this host is on the same link: the metadata service and the agents for containers.
fn is_link_local(host: &str) -> bool {
    match host.trim_matches(['[', ']']).parse() {
        Ok(std::net::IpAddr::V4(address)) => address.is_link_local() || address.is_loopback(),
        Ok(std::net::IpAddr::V6(address)) => {
            address.is_unicast_link_local() || address.is_loopback() || address.segments()[..2] == [0xfd00, 0x0ec2]
        }
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metadata_service_and_the_agents_for_containers_are_link_local() {
        for host in
            ["169.254.169.254", "169.254.170.2", "169.254.170.23", "[fd00:ec2::254]", "[fd00:ec2::23]", "127.0.0.1"]
        {
            assert!(is_link_local(host), "{host}");
        }
        for host in ["", "sts.amazonaws.com", "10.0.0.1", "169.253.1.1", "[fd01:ec2::1]", "169.254.169.254.example"] {
            assert!(!is_link_local(host), "{host}");
        }
    }

    #[test]
    fn a_page_has_no_more_items_than_its_groups_can_have() {
        let page = |items: usize| format!("<r><l>{}</l></r>", "<member/>".repeat(items));
        assert!(!has_too_many_items(page(AWS_PAGE_ITEMS_MAX).as_bytes()));
        assert!(has_too_many_items(page(AWS_PAGE_ITEMS_MAX + 1).as_bytes()));
    }

    #[test]
    fn the_name_of_a_role_has_only_the_letters_of_names() {
        for (name, expected) in
            [("my-role_1+=,.@", true), ("role\n", true), ("a b", false), ("\u{1}", false), ("a/../b?", false)]
        {
            assert_eq!(is_role(name.as_bytes()), expected, "{name:?}");
        }
    }
}
