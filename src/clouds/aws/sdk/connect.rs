//! The SDK's clients, and the time limits of their calls.

use std::sync::Arc;
use std::time::Duration;

use aws_config::profile::ProfileFileCredentialsProvider;
use aws_config::provider_config::ProviderConfig;
use aws_config::retry::RetryConfig;
use aws_config::stalled_stream_protection::StalledStreamProtectionConfig;
use aws_config::sts::AssumeRoleProvider;
use aws_config::timeout::TimeoutConfig;
use aws_config::{AppName, BehaviorVersion, Region, SdkConfig};
use aws_sdk_autoscaling::config::{IdentityCache, SharedCredentialsProvider};
use aws_smithy_runtime_api::client::interceptors::SharedInterceptor;
use thiserror::Error;

use super::api::{AutoScaling, AutoScalingApi, Ec2, Ec2Api, Eks, EksApi, PricingApi, ZonalShift, ZonalShiftApi};
use super::clock::{CloudClock, SigningTime};
use super::credentials::{CredentialsAside, ReloadedCredentials, SecretCredentials};
use super::environment::{self, VariableError};
use super::http;
use super::identity::{Sts, StsApi};
use super::metering::Metering;
use super::price_list;
use super::responses::Responses;
use super::shared_files::{self, SharedFileError};
use crate::cloud::CallMeter;
use crate::clouds::roots::{self, NoRoots};
use crate::config::settings::aws::{AssumeRole, Settings, is_region};

/// Long enough for a TLS handshake across a continent.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// One group with many instances takes several seconds.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);
/// Limit of a read with its retries. A keeper waits no longer than this for one response.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(20);
/// Limit of one page of a listing, with its retries. Pages of large groups can take 11 s, and no caller waits for one.
const PAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// Limit of a launch: AWS waits for EC2, and the limit of every write is 30 s.
const LAUNCH_TIMEOUT: Duration = Duration::from_secs(28);

/// Why the clients of a source cannot be created.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// No region is configured, and the environment, the profile and the metadata service have none.
    #[error(
        "no AWS region: set aws.region of the source in headcount.yaml, or AWS_REGION, \
         or a region in the AWS profile; on EC2, make sure that the instance metadata service is reachable"
    )]
    NoRegion,
    /// The region can be the name of none.
    #[error(
        "the AWS region {0:?}, from AWS_REGION, AWS_DEFAULT_REGION or the AWS profile, is not the name of a region; write, \
         for example, us-east-1"
    )]
    NotARegion(String),
    /// An environment variable has a value that the SDK cannot use.
    #[error(transparent)]
    Variable(#[from] VariableError),
    /// A file that the SDK would read is none that it may read.
    #[error(transparent)]
    File(#[from] SharedFileError),
    /// The system has no root certificates.
    #[error(transparent)]
    NoRoots(#[from] NoRoots),
}

/// The clients of one account and region.
pub(in crate::clouds::aws) struct Clients {
    pub(in crate::clouds::aws) region: String,
    pub(in crate::clouds::aws) clock: Arc<CloudClock>,
    pub(in crate::clouds::aws) scaling: Arc<dyn AutoScalingApi>,
    pub(in crate::clouds::aws) ec2: Arc<dyn Ec2Api>,
    pub(in crate::clouds::aws) eks: Arc<dyn EksApi>,
    pub(in crate::clouds::aws) shifts: Arc<dyn ZonalShiftApi>,
    pub(in crate::clouds::aws) sts: Arc<dyn StsApi>,
    /// `None` where no Price List API may be called for the region.
    pub(in crate::clouds::aws) pricing: Option<Arc<dyn PricingApi>>,
    /// `None` in tests, which sign nothing.
    pub(in crate::clouds::aws) credentials: Option<ReloadedCredentials>,
}

impl Clients {
    /// Creates the clients. Makes no call, except to find the region if none is configured.
    pub(in crate::clouds::aws) async fn connect(settings: &Settings, calls: CallMeter) -> Result<Self, ConnectError> {
        if let Err(error) = roots::check()
            && !is_plain(settings)
        {
            return Err(error.into());
        }
        environment::check()?;
        shared_files::check().await?;
        let config = sdk_config(settings).await;
        let region = match config.region().map(|region| region.as_ref().trim()) {
            None | Some("") => return Err(ConnectError::NoRegion),
            Some(region) if !is_region(region) => return Err(ConnectError::NotARegion(region.to_owned())),
            Some(region) => region.to_owned(),
        };
        // The credential chain keeps its own client, whose responses are shorter.
        let builder = config.into_builder().region(Region::new(region.clone()));
        let config = builder.http_client(http::for_services()).build();
        // The region is known now, and is not looked up again with the credentials.
        let settings = Settings { region: Some(region.clone()), ..settings.clone() };
        Ok(Self::from_sdk(region, settings, config, calls))
    }

    pub(in crate::clouds::aws) fn from_sdk(
        region: String,
        settings: Settings,
        config: SdkConfig,
        calls: CallMeter,
    ) -> Self {
        let credentials = ReloadedCredentials::new(settings, config.credentials_provider(), calls.clone());
        let clock = Arc::new(CloudClock::default());
        let config = config
            .into_builder()
            .credentials_provider(SharedCredentialsProvider::new(credentials.clone()))
            .identity_cache(IdentityCache::no_cache())
            // The SDK would sign the next requests with any date that it receives, and panic where that is the year
            // 9999.
            .disable_clock_skew_correction(true)
            .time_source(SigningTime(Arc::clone(&clock)))
            // It measures by the same clock, which the date of a response can move far ahead. The client reads whole bodies,
            // and each attempt has a limit.
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
            .build();
        let sts = Sts(aws_sdk_sts::Client::new(&config));
        let shared = credentials.clone();
        let responses = SharedInterceptor::new(Responses { clock: Arc::clone(&clock), credentials });
        let metering = SharedInterceptor::new(Metering::new(calls));
        let scaling = || {
            let scaling = aws_sdk_autoscaling::config::Builder::from(&config);
            scaling.interceptor(responses.clone()).interceptor(metering.clone())
        };
        let lists = scaling().timeout_config(timeouts(PAGE_TIMEOUT, PAGE_TIMEOUT)).build();
        let launches = scaling().timeout_config(timeouts(LAUNCH_TIMEOUT, LAUNCH_TIMEOUT));
        let scaling = AutoScaling {
            launches: aws_sdk_autoscaling::Client::from_conf(launches.retry_config(RetryConfig::disabled()).build()),
            reads: aws_sdk_autoscaling::Client::from_conf(scaling().build()),
            lists: aws_sdk_autoscaling::Client::from_conf(lists),
            writes: aws_sdk_autoscaling::Client::from_conf(scaling().retry_config(RetryConfig::disabled()).build()),
        };
        let pricing = price_list::client(&region, &config, metering.clone());
        let ec2 = || {
            let ec2 = aws_sdk_ec2::config::Builder::from(&config);
            ec2.interceptor(responses.clone()).interceptor(metering.clone())
        };
        let ec2 = Ec2 {
            reads: aws_sdk_ec2::Client::from_conf(ec2().build()),
            spot_prices: aws_sdk_ec2::Client::from_conf(ec2().retry_config(RetryConfig::disabled()).build()),
        };
        let shifts = aws_sdk_arczonalshift::config::Builder::from(&config);
        let shifts = shifts.interceptor(responses.clone()).interceptor(metering.clone());
        let shifts = ZonalShift(aws_sdk_arczonalshift::Client::from_conf(shifts.build()));
        let eks = aws_sdk_eks::config::Builder::from(&config).interceptor(responses).interceptor(metering);
        let eks = Eks(aws_sdk_eks::Client::from_conf(eks.build()));
        Self {
            region,
            clock,
            scaling: Arc::new(scaling),
            ec2: Arc::new(ec2),
            eks: Arc::new(eks),
            shifts: Arc::new(shifts),
            sts: Arc::new(sts),
            pricing,
            credentials: Some(shared),
        }
    }
}

/// The configuration of the SDK, with a credentials chain that has read nothing yet.
pub(super) async fn sdk_config(settings: &Settings) -> SdkConfig {
    let mut loader = aws_config::defaults(BehaviorVersion::latest());
    // The SDK would read its retry mode from the profile as well, and panic on `legacy`, which other SDKs know.
    loader = loader.retry_config(RetryConfig::standard().with_max_attempts(environment::attempts()));
    loader = loader.timeout_config(timeouts(ATTEMPT_TIMEOUT, OPERATION_TIMEOUT));
    if let Ok(name) = AppName::new("headcount") {
        loader = loader.app_name(name);
    }
    if let Some(region) = settings.region.as_deref().map(str::trim).filter(|region| !region.is_empty()) {
        loader = loader.region(Region::new(region.to_owned()));
    }
    if let Some(endpoint) = settings.endpoint.as_deref().filter(|endpoint| !endpoint.is_empty()) {
        loader = loader.endpoint_url(endpoint);
    }
    loader = loader.http_client(http::for_sign_in());
    if let Some(profile) = &settings.profile {
        loader = loader.profile_name(profile);
    }
    let mut config = loader.load().await;
    if let Some(profile) = &settings.profile {
        config = with_profile(config, profile);
    }
    if let Some(role) = &settings.assume_role {
        config = assume(config, role).await;
    }
    let aside = config.credentials_provider().map(CredentialsAside).map(SharedCredentialsProvider::new);
    // A profile may have the key without a value, on which the SDK panics.
    let endpoint = config.endpoint_url().filter(|endpoint| !endpoint.trim().is_empty()).map(str::to_owned);
    let mut builder = config.into_builder();
    builder.set_credentials_provider(aside);
    builder.set_endpoint_url(endpoint);
    builder.build()
}

/// The same configuration with the credentials of a profile, which is named in headcount.yaml and takes precedence over
/// credentials in the environment. If the profile names a role, STS is called in the region of the configuration.
fn with_profile(config: SdkConfig, profile: &str) -> SdkConfig {
    let provider = ProviderConfig::default()
        .with_region(config.region().cloned())
        .with_http_client(http::for_sign_in())
        .with_timeout_config(timeouts(ATTEMPT_TIMEOUT, OPERATION_TIMEOUT));
    let provider = ProfileFileCredentialsProvider::builder().profile_name(profile).configure(&provider).build();
    config.into_builder().credentials_provider(SharedCredentialsProvider::new(provider)).build()
}

/// The same configuration with the credentials of a role, which the found ones may assume.
async fn assume(config: SdkConfig, role: &AssumeRole) -> SdkConfig {
    let found = config.credentials_provider().map(SecretCredentials).map(SharedCredentialsProvider::new);
    let mut builder = config.into_builder();
    builder.set_credentials_provider(found);
    let config = builder.build();
    let mut provider = AssumeRoleProvider::builder(&role.arn).session_name(&role.session_name).configure(&config);
    if let Some(id) = &role.external_id {
        provider = provider.external_id(id);
    }
    let provider = SharedCredentialsProvider::new(provider.build().await);
    config.into_builder().credentials_provider(provider).build()
}

/// Whether the configured endpoint, or that of the environment, is plain HTTP.
fn is_plain(settings: &Settings) -> bool {
    let variable =
        || ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_AUTO_SCALING"].iter().find_map(|name| std::env::var(name).ok());
    let endpoint = settings.endpoint.clone().filter(|endpoint| !endpoint.is_empty()).or_else(variable);
    endpoint.is_some_and(|endpoint| endpoint.starts_with("http://"))
}

fn timeouts(attempt: Duration, operation: Duration) -> TimeoutConfig {
    let limits = TimeoutConfig::builder().connect_timeout(CONNECT_TIMEOUT);
    limits.operation_attempt_timeout(attempt).operation_timeout(operation).build()
}
