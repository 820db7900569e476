//! Responses that send the client to another server. Redirects are never followed, whichever server returns them, so no
//! token is sent.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::sync::Arc;

use headcount::clouds::simulated::{GroupPlan, Simulated};
use serde_json::json;

use crate::emulators::aws::Aws;
use crate::emulators::{Emulator, HttpResponse};
use crate::peers::headcount::{ConfigFile, Server};
use crate::sign_in::Office;

const REDIRECTS: [u16; 5] = [301, 302, 303, 307, 308];

/// A server that must not be called.
struct Elsewhere(TcpListener);

impl Elsewhere {
    fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("set");
        Self(listener)
    }

    /// A response that leads there.
    fn redirect(&self, status: u16, scheme: &str) -> HttpResponse {
        let address = self.0.local_addr().expect("bound");
        HttpResponse::new(status).header("location", format!("{scheme}://{address}/taken"))
    }

    fn was_never_called(&self, what: &str) {
        let called = self.0.accept().map_err(|error| error.kind());
        assert!(matches!(called, Err(ErrorKind::WouldBlock)), "{what}: {called:?}");
    }
}

#[test]
fn a_redirect_of_azure_or_its_sign_in_service_is_not_followed() {
    let principal = json!({"tenantId": "tenant-1", "aadClientId": "client-1", "aadClientSecret": "secret-of-the-file"});
    for (method, path) in [("POST", "/oauth2/v2.0/token"), ("GET", "/virtualMachineScaleSets")] {
        for status in REDIRECTS {
            let (office, elsewhere) = (Office::open(), Elsewhere::open());
            office.arm.script(method, path, 10_000, elsewhere.redirect(status, "https"));
            let server = office.serve(principal.clone(), &[]);
            server.logged("source cannot be listed");
            elsewhere.was_never_called(&format!("{status} for {path}"));
        }
    }
}

#[tokio::test]
async fn a_redirect_of_aws_is_not_followed() {
    for status in REDIRECTS {
        let (aws, elsewhere) = (
            Aws::start(Arc::new(Simulated::with_groups(1, [GroupPlan::aws("web").sized(0, 5, 1)]))),
            Elsewhere::open(),
        );
        aws.script("POST", "Action=DescribeAutoScalingGroups", 10_000, elsewhere.redirect(status, "http"));
        let config = ConfigFile::new(&format!(
            "sources: [{{name: here, aws: {{region: us-east-1, endpoint: \"{}\", nodeGroups: [\"0:5:web\"]}}}}]\n",
            aws.url()
        ));
        let server = Server::with_config(&config);
        server.logged("source cannot be listed");
        elsewhere.was_never_called(&status.to_string());
    }
}

#[tokio::test]
async fn a_redirect_of_the_kubernetes_api_is_not_followed() {
    for status in REDIRECTS {
        // Any server that can be scripted will do as an API server.
        let (api, elsewhere) = (Aws::start(Arc::new(Simulated::with_groups(1, []))), Elsewhere::open());
        api.script("GET", "/api/v1", 10_000, elsewhere.redirect(status, "http"));
        let kubeconfig = json!({
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "clusters": [{"name": "test", "cluster": {"server": api.url()}}],
            "users": [{"name": "test", "user": {}}],
        });
        let config = ConfigFile::new(
            "learn: {kubernetes: true, kubeconfig: kubeconfig}\nsources: [{name: demo, simulated: {}}]\n",
        );
        let config = config.beside("kubeconfig", &kubeconfig.to_string());
        let server = Server::with_config(&config);
        server.logged("nodes cannot be watched");
        assert!(!api.requests_with("GET", "/api/v1/nodes").is_empty());
        elsewhere.was_never_called(&status.to_string());
    }
}
