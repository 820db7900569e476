//! AWS for Auto Scaling groups, their activities and launch templates: EC2 Auto Scaling and EC2 with the Query
//! protocol, EKS with REST, all at one endpoint.

mod activities;
mod behavior;
mod eks;
mod errors;
mod groups;
mod launch;
mod launch_instances;
mod launch_templates;
mod policies;
mod prices;
mod router;
mod service_accounts;
mod sts;
mod tests;
mod types;
mod writes;
mod xml;
mod zonal_shifts;

use std::sync::Arc;

use headcount::clouds::simulated::Simulated;

use super::Emulator;
use super::core::{EmulatorCore, lock};
use super::http_client::send;
use super::http_messages::Request;
use super::http_server::HttpServer;

pub(crate) use behavior::{Behavior, Busy, GroupDetails, Launch, Override, Past, Requirements};
pub(crate) use errors::error;
pub(crate) use launch_templates::template_id;
pub(crate) use prices::PRICES;
use router::AwsApi;
pub(crate) use service_accounts::IssuedKey;

/// An AWS endpoint of a simulated cloud. It stops when this is dropped.
#[derive(Debug)]
pub(crate) struct Aws {
    api: Arc<AwsApi>,
    port: HttpServer,
}

impl Aws {
    /// Starts one on a free loopback port.
    pub(crate) fn start(simulated: Arc<Simulated>) -> Self {
        let api = Arc::new(AwsApi::new(simulated));
        let port = HttpServer::open(Arc::clone(&api) as Arc<dyn super::http_server::RequestHandler>);
        Self { api, port }
    }

    /// Changes the behavior of the emulator.
    pub(crate) fn behavior(&self, change: impl FnOnce(&mut Behavior)) {
        change(&mut lock(&self.api.behavior));
    }

    /// The keys that service accounts got, oldest first.
    pub(crate) fn issued(&self) -> Vec<IssuedKey> {
        lock(&self.api.issued).clone()
    }

    /// How many responses are still to have a date that is not AWS's time.
    pub(crate) fn dates_left(&self) -> usize {
        lock(&self.api.behavior).dates.len()
    }

    /// Counts the reads of groups so far, also in a task of its own.
    pub(crate) fn reads(&self) -> impl Fn() -> usize + Send + use<> {
        let api = Arc::clone(&self.api);
        move || {
            let requests = api.core.requests();
            requests.iter().filter(|request| request.matches("POST", "Action=DescribeAutoScalingGroups")).count()
        }
    }

    /// The body of the response to this request, as it is now.
    pub(crate) async fn body_of(&self, request: &Request) -> String {
        send(self.port.address(), "POST", "/", &[], &request.body).await.expect("a response").body
    }

    /// Changes details of a group that the simulated cloud does not have.
    pub(crate) fn group_details(&self, group: &str, change: impl FnOnce(&mut GroupDetails)) {
        change(lock(&self.api.group_details).entry(group.to_owned()).or_default());
    }
}

impl Emulator for Aws {
    fn core(&self) -> &EmulatorCore {
        &self.api.core
    }

    fn url(&self) -> String {
        self.port.url()
    }

    fn cloud(&self) -> &'static str {
        "aws"
    }

    fn settings(&self) -> Vec<String> {
        vec!["region: us-east-1".to_owned(), format!("endpoint: {}", self.url())]
    }
}
