//! AWS, replaced by one response to every request: for the parsers of [`super::parsers`].

use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use aws_config::imds::credentials::ImdsCredentialsProvider;
use aws_config::provider_config::ProviderConfig;
use aws_config::retry::RetryConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig, imds};
use aws_credential_types::Credentials;
use aws_credential_types::provider::{ProvideCredentials as _, SharedCredentialsProvider};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpClient, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::http::StatusCode;
use aws_smithy_types::body::SdkBody;
use tokio::runtime::{Builder, Runtime};

use super::sdk::connect::Clients;
use super::sdk::http;
use super::{Aws, Settings};
use crate::cloud::{CallMeter, Cloud as _, PriceExtent, Shortfall};

/// The response to every request: its status and its body.
#[derive(Clone, Debug, Default)]
struct Response(Arc<Mutex<(u16, Vec<u8>)>>);

impl HttpConnector for Response {
    fn call(&self, _: HttpRequest) -> HttpConnectorFuture {
        let (status, body) = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let status = StatusCode::try_from(status).map_err(|error| ConnectorError::other(error.into(), None));
        HttpConnectorFuture::ready(status.map(|status| HttpResponse::new(status, SdkBody::from(body))))
    }
}

/// A source of AWS, and the credential providers, over one response.
pub(super) struct Replayed {
    runtime: Runtime,
    response: Response,
    cloud: Aws,
    metadata: ImdsCredentialsProvider,
    sts: aws_sdk_sts::Client,
}

/// The one of this process; `None` if no runtime can be started.
pub(super) static REPLAYED: LazyLock<Option<Mutex<Replayed>>> = LazyLock::new(|| Replayed::new().map(Mutex::new));

impl Replayed {
    fn new() -> Option<Self> {
        let runtime = Builder::new_current_thread().enable_all().build().ok()?;
        let response = Response::default();
        let connector = SharedHttpConnector::new(response.clone());
        let client = http::bounded(http_client_fn(move |_, _| connector.clone()));
        let config = config(client.clone());
        let settings = Settings {
            node_groups: "0:9:asg".parse().into_iter().collect(),
            region: Some("us-east-1".to_owned()),
            ..Settings::default()
        };
        let clients = Clients::from_sdk("us-east-1".to_owned(), settings.clone(), config.clone(), CallMeter::default());
        let provider = ProviderConfig::without_region().with_http_client(client);
        let metadata = imds::Client::builder().configure(&provider).max_attempts(1).build();
        let metadata = ImdsCredentialsProvider::builder().configure(&provider).imds_client(metadata).build();
        let sts = aws_sdk_sts::Client::new(&config);
        Some(Self { runtime, response, cloud: Aws::over(settings, clients), metadata, sts })
    }

    /// Makes a call that gets this response. `call` chooses which.
    pub(super) fn response_of_a_service(&self, call: u8, status: u16, body: &[u8]) {
        self.set(status, body);
        let (cloud, group) = (&self.cloud, "asg".into());
        self.runtime.block_on(async {
            match call % 6 {
                0 => drop(cloud.list().await),
                1 => {
                    if let Ok(Some(reading)) = cloud.observe(&group).await {
                        drop(cloud.launch_spec(&reading).await);
                    }
                }
                2 => drop(cloud.launch_activity(&group, Shortfall { missing: 1, since: UNIX_EPOCH }).await),
                3 => drop(cloud.all_instance_types().await),
                4 => drop(cloud.price_list("us-east-1", PriceExtent::Sample).await),
                _ => drop(cloud.adverse_settings().await),
            }
        });
    }

    /// Asks the metadata service or STS for credentials, which return this response.
    pub(super) fn response_of_sign_in(&self, service: u8, status: u16, body: &[u8]) {
        self.set(status, body);
        self.runtime.block_on(async {
            match service % 3 {
                0 => drop(self.metadata.provide_credentials().await),
                1 => drop(self.sts.assume_role_with_web_identity().role_arn("r").send().await),
                _ => drop(self.sts.get_caller_identity().send().await),
            }
        });
    }

    fn set(&self, status: u16, body: &[u8]) {
        *self.response.0.lock().unwrap_or_else(PoisonError::into_inner) = (status, body.to_vec());
    }
}

fn config(client: SharedHttpClient) -> SdkConfig {
    let keys = Credentials::new("AKIAEXAMPLE", "a-key", None, None, "replayed");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("us-east-1"))
        .credentials_provider(SharedCredentialsProvider::new(keys))
        .retry_config(RetryConfig::disabled())
        .http_client(client)
        .build()
}
