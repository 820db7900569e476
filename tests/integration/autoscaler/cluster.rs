//! A control plane: etcd, the API server and the scheduler, without controllers and without kubelets.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::api::Api;
use super::process::Process;
use crate::emulators::certificate_authority::CertificateAuthority;
use crate::peers::free_address;

const TOKEN: &str = "a-cluster-administrator";

/// The token of the service account that deploy/kubernetes-rbac.yaml names.
const HEADCOUNT_TOKEN: &str = "headcounts-service-account";

/// The token of the service account of deploy/kubernetes, which both containers of the pod have.
pub(super) const POD_TOKEN: &str = "the-pods-service-account";

/// What Headcount may do.
const HEADCOUNT_RIGHTS: &str = include_str!("../../../deploy/kubernetes-rbac.yaml");

/// The kubeconfig of Headcount's service account, in the control plane's folder.
pub(super) const HEADCOUNT_KUBECONFIG: &str = "headcount.kubeconfig";

/// A running control plane.
pub(super) struct Cluster {
    pub(super) api: Api,
    _processes: [Process; 3],
}

impl Cluster {
    /// Starts one, with its files and logs in this folder, and waits until it is ready. The folder's `kubeconfig`
    /// points to it.
    pub(super) async fn start(binaries: &Path, folder: &Path) -> Self {
        let (etcd, peers, api) = (free_address(), free_address(), free_address());
        let file = |name: &str| folder.join(name).display().to_string();
        let etcd_process = Process::start("etcd", folder, &mut etcd_command(binaries, folder, etcd, peers));

        let authority = CertificateAuthority::new();
        let (certificate, key) = authority.server_pems();
        let signing_key = rcgen::KeyPair::generate().expect("a key");
        let [headcount, pod] =
            ["headcount", "cluster-autoscaler"].map(|name| format!("system:serviceaccount:kube-system:{name}"));
        let files = [
            ("apiserver.crt", certificate),
            ("apiserver.key", key),
            ("ca.crt", authority.pem()),
            ("accounts.key", signing_key.serialize_pem()),
            ("accounts.pub", signing_key.public_key_pem()),
            (
                "tokens.csv",
                format!(
                    "{TOKEN},admin,admin,system:masters\n{HEADCOUNT_TOKEN},{headcount},{headcount},\n{POD_TOKEN},{pod},{pod},\n"
                ),
            ),
            ("kubeconfig", kubeconfig(api, TOKEN)),
            (HEADCOUNT_KUBECONFIG, kubeconfig(api, HEADCOUNT_TOKEN)),
        ];
        for (name, text) in files {
            std::fs::write(folder.join(name), text).expect("written");
        }
        let api_process = Process::start("kube-apiserver", folder, &mut api_command(binaries, &file, etcd, api));
        let client = Api::new(api, TOKEN, &authority.pem());
        wait_until_ready(&client).await;
        let mut scheduler = Command::new(binaries.join("kube-scheduler"));
        scheduler.args(["--kubeconfig", &file("kubeconfig"), "--leader-elect=false", "--secure-port=0"]);
        let scheduler = Process::start("kube-scheduler", folder, &mut scheduler);
        Self { api: client, _processes: [scheduler, api_process, etcd_process] }
    }

    /// Writes the kubeconfig of an account of `kube-system` under this name, in the control plane's folder.
    pub(super) fn write_kubeconfig(&self, folder: &Path, name: &str, token: &str) {
        std::fs::write(folder.join(name), kubeconfig(self.api.address(), token)).expect("written");
    }

    /// Gives Headcount's service account the rights of deploy/kubernetes-rbac.yaml.
    pub(super) async fn admit_headcount(&self) {
        for document in HEADCOUNT_RIGHTS.split("\n---\n") {
            let object: Value = serde_saphyr::from_str(document).expect("YAML");
            self.api.create(&object).await;
        }
    }
}

fn etcd_command(binaries: &Path, folder: &Path, clients: SocketAddr, peers: SocketAddr) -> Command {
    let mut command = Command::new(binaries.join("etcd"));
    command.arg("--data-dir").arg(folder.join("etcd"));
    command.arg(format!("--listen-client-urls=http://{clients}"));
    command.arg(format!("--advertise-client-urls=http://{clients}"));
    command.arg(format!("--listen-peer-urls=http://{peers}"));
    command.arg(format!("--initial-advertise-peer-urls=http://{peers}"));
    command.arg(format!("--initial-cluster=default=http://{peers}"));
    command.arg("--unsafe-no-fsync");
    command
}

/// Admission of service accounts needs a controller, and so does the taint of nodes that are not ready.
fn api_command(binaries: &Path, file: &dyn Fn(&str) -> String, etcd: SocketAddr, api: SocketAddr) -> Command {
    let mut command = Command::new(binaries.join("kube-apiserver"));
    command.args([
        format!("--etcd-servers=http://{etcd}"),
        format!("--bind-address={}", api.ip()),
        format!("--secure-port={}", api.port()),
        format!("--tls-cert-file={}", file("apiserver.crt")),
        format!("--tls-private-key-file={}", file("apiserver.key")),
        format!("--token-auth-file={}", file("tokens.csv")),
        format!("--service-account-key-file={}", file("accounts.pub")),
        format!("--service-account-signing-key-file={}", file("accounts.key")),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
        "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition".to_owned(),
    ]);
    command
}

fn kubeconfig(api: SocketAddr, token: &str) -> String {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "clusters": [{"name": "test", "cluster": {"server": format!("https://{api}"), "certificate-authority": "ca.crt"}}],
        "users": [{"name": "test", "user": {"token": token}}],
    })
    .to_string()
}

async fn wait_until_ready(api: &Api) {
    let ready = async {
        while !matches!(api.send("GET", "/readyz", None).await, Some((200, _))) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        // The namespace is created by the API server itself, shortly after it is ready.
        while !matches!(api.send("GET", "/api/v1/namespaces/default", None).await, Some((200, _))) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), ready).await.expect("the API server becomes ready");
}
