//! The token files that the kubelet renews on EKS, under a running server: of IAM roles for service accounts, and of
//! Pod Identity.

use std::sync::Arc;
use std::time::Duration;

use headcount::clouds::simulated::{GroupPlan, Simulated};
use tonic::Code;

use super::counted;
use crate::emulators::Emulator;
use crate::emulators::aws::Aws;
use crate::peers::headcount::{ConfigFile, Server, eventually, refused};

/// Credentials are replaced five minutes before they expire: these are used alone for two seconds.
const LIFE: Duration = Duration::from_secs(302);
const CANNOT_BE_RENEWED: &str = "AWS credentials expire soon and cannot be renewed";
const RENEWALS: &str = "headcount_cloud_credential_renewals_total{source=\"here\",result=";

/// How a pod gets credentials for its token.
#[derive(Clone, Copy)]
enum Way {
    WebIdentity,
    PodIdentity,
}

/// A server in a pod.
struct Pod {
    emulator: Aws,
    files: ConfigFile,
    server: Server,
}

impl Pod {
    /// Starts a server whose first token is accepted, with credentials that are valid for this long.
    fn start(way: Way, life: Duration) -> Self {
        let emulator = Aws::start(Arc::new(Simulated::with_groups(1, [GroupPlan::aws("web").sized(0, 10, 2)])));
        let source = "{name: here, aws: {region: us-east-1, nodeGroups: [\"0:10:web\"]}}";
        let config = format!("refreshInterval: 1s\nidleRefreshInterval: 1s\nsources: [{source}]\n");
        let files = ConfigFile::new(&config).beside("token", "first.of.kubelet");
        emulator.behavior(|behavior| {
            behavior.service_account_token = Some("first.of.kubelet".to_owned());
            behavior.credential_life = life;
        });
        let (url, token) = (emulator.url(), files.path_of("token"));
        let agent = format!("{url}/v1/credentials");
        let of_the_webhook = match way {
            Way::WebIdentity => [
                ("AWS_ROLE_ARN", "arn:aws:iam::000000000000:role/headcount"),
                ("AWS_WEB_IDENTITY_TOKEN_FILE", token.as_str()),
            ],
            Way::PodIdentity => [
                ("AWS_CONTAINER_CREDENTIALS_FULL_URI", agent.as_str()),
                ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token.as_str()),
            ],
        };
        let mut variables =
            vec![("AWS_ACCESS_KEY_ID", ""), ("AWS_SECRET_ACCESS_KEY", ""), ("AWS_ENDPOINT_URL", url.as_str())];
        variables.extend(of_the_webhook);
        let server = Server::in_environment(&["--config", &files.path()], &variables);
        Self { emulator, files, server }
    }

    /// From now on, AWS accepts only this token.
    fn accept(&self, token: &str) {
        self.emulator.behavior(|behavior| behavior.service_account_token = Some(token.to_owned()));
    }

    /// Replaces the token file as the kubelet does: it is complete at any time.
    fn write(&self, token: &str) {
        let (file, new) = (self.files.path_of("token"), self.files.path_of("new"));
        std::fs::write(&new, token).and_then(|()| std::fs::rename(&new, &file)).expect("written");
    }

    /// Waits until a call is signed with a key that was issued for this token.
    async fn signs_with(&self, token: &str) {
        let signed = || {
            let keys: Vec<_> = self.emulator.issued().into_iter().filter(|issued| issued.token == token).collect();
            let calls = self.emulator.requests_with("POST", "Action=DescribeAutoScalingGroups");
            calls.iter().filter_map(|call| call.header("authorization")).any(|by| keys.iter().any(|key| key.signed(by)))
        };
        eventually(&format!("{token} is used"), signed).await;
    }

    /// The signed calls that AWS refused.
    fn refusals(&self) -> Vec<String> {
        let signed = self.emulator.requests().into_iter();
        let signed = signed.filter(|call| call.header("authorization").is_some_and(|by| by.contains("Credential=")));
        signed.filter(|call| call.status.is_some_and(|status| status >= 400)).map(|call| call.body).collect()
    }
}

/// The kubelet writes each token after AWS has stopped accepting the previous one.
async fn rotates(way: Way) {
    let pod = Pod::start(way, LIFE);
    let mut client = pod.server.client().await;
    assert_eq!(client.target("web").await, 2);

    pod.accept("second.of.kubelet");
    let line = pod.server.logged(CANNOT_BE_RENEWED);
    assert!(!line.contains("first.of.kubelet"), "{line}");
    client.increase("web", 1).await.expect("the earlier credentials are still valid");
    assert_ne!(counted(&pod.server, &format!("{RENEWALS}\"failure\"}}")), "0");
    pod.write("second.of.kubelet");
    pod.signs_with("second.of.kubelet").await;
    assert_ne!(counted(&pod.server, &format!("{RENEWALS}\"success\"}}")), "0");
    client.increase("web", 1).await.expect("signed again");

    // SIGHUP reloads the credentials at once, even if they stay valid for long.
    pod.emulator.behavior(|behavior| behavior.credential_life = Duration::from_secs(3600));
    pod.accept("third.of.kubelet");
    pod.write("third.of.kubelet");
    pod.server.signal("HUP");
    pod.signs_with("third.of.kubelet").await;
    client.increase("web", 1).await.expect("signed again");
    assert_eq!(client.target("web").await, 5);
    assert_eq!(pod.refusals(), Vec::<String>::new(), "no call was refused meanwhile");
}

#[tokio::test]
async fn a_service_account_of_aws_signs_in_with_the_current_content_of_its_token_file() {
    rotates(Way::WebIdentity).await;
}

#[tokio::test]
async fn a_pod_identity_signs_in_with_the_current_content_of_its_token_file() {
    rotates(Way::PodIdentity).await;
}

#[tokio::test]
async fn a_new_token_ends_the_refusals_after_the_credentials_of_the_old_one_expired() {
    for way in [Way::WebIdentity, Way::PodIdentity] {
        let pod = Pod::start(way, Duration::from_secs(1));
        let mut client = pod.server.client().await;
        client.until("accepted", async |client| client.increase("web", 1).await.is_ok()).await;
        pod.accept("second.of.kubelet");
        let line = pod.server.logged("source cannot be listed");
        assert!(!line.contains("first.of.kubelet"), "{line}");
        let (code, message) = refused(client.increase("web", 1).await);
        assert!(code == Code::Unavailable && !message.contains("first.of.kubelet"), "{code:?} {message}");
        assert_eq!(client.target("web").await, 3, "reads are served");
        pod.write("second.of.kubelet");
        client.until("accepted", async |client| client.increase("web", 1).await.is_ok()).await;
        assert_eq!(client.target("web").await, 4);
        assert!(pod.server.lines_with("of.kubelet").is_empty(), "no token shows in the log");
    }
}
