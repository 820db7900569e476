//! Every way to sign in to Azure, with the real server and the real azure_identity: which request a token endpoint
//! gets, and that its token, and no other, is sent to Azure Resource Manager. Everything runs over TLS, because
//! azure_identity accepts no other endpoint, and because Headcount sends no token over plain HTTP.

use std::process::Command;
use std::sync::Arc;

use aws_lc_rs::signature::{RSA_PSS_2048_8192_SHA256, UnparsedPublicKey};
use azure_core::base64::decode_url_safe;
use headcount::clouds::simulated::{GroupPlan, RESOURCE_GROUP, SUBSCRIPTION, Simulated};
use rcgen::{CertificateParams, KeyPair, PKCS_RSA_SHA256, PublicKeyData, RsaKeySize};
use serde_json::{Value, json};
use tonic::Code;

use crate::emulators::arm::{Arm, Issued, error};
use crate::emulators::certificate_authority::CertificateAuthority;
use crate::emulators::{Emulator, HttpResponse, Request};
use crate::peers::headcount::{AUTOSCALER_TIMEOUT, ConfigFile, Server, command, refused_in_time};

/// An emulator with TLS, and the files that a server needs for it.
pub(crate) struct Office {
    pub(crate) arm: Arm,
    files: ConfigFile,
}

impl Office {
    pub(crate) fn open() -> Self {
        let authority = CertificateAuthority::new();
        let simulated = Simulated::with_groups(1, [GroupPlan::azure("pool").sized(0, 10, 2)]);
        let arm = Arm::start_secure(Arc::new(simulated), &authority);
        Self { arm, files: ConfigFile::new("").beside("ca.pem", &authority.pem()) }
    }

    /// Starts Headcount like the in-tree provider: with flags, a cloud-config file, and the environment.
    pub(crate) fn serve(&self, cloud_config: Value, variables: &[(&str, &str)]) -> Server {
        let file = self.write_cloud_config(cloud_config);
        self.start(&["--cloud-provider=azure", &format!("--cloud-config={file}"), "--nodes=0:10:pool"], variables)
    }

    /// Runs `check` on a configuration. Returns what it prints.
    pub(crate) fn check(&self, config: &str, variables: &[(&str, &str)]) -> String {
        let mut check = self.command(&["check", "--config", config]);
        let output = check.envs(variables.iter().copied()).output().expect("the binary runs");
        String::from_utf8(output.stdout).expect("UTF-8").split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// A command that finds this office.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command(arguments);
        command.env("SSL_CERT_FILE", self.files.path_of("ca.pem")).env("AZURE_AUTHORITY_HOST", self.arm.url());
        command
    }

    /// Starts Headcount with these arguments.
    pub(crate) fn start(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Server {
        let (authorities, directory) = (self.files.path_of("ca.pem"), self.arm.url());
        let mut all = vec![("SSL_CERT_FILE", authorities.as_str()), ("AZURE_AUTHORITY_HOST", directory.as_str())];
        all.extend(variables);
        Server::in_environment(arguments, &all)
    }

    /// Replaces the cloud-config file. Returns its path.
    pub(crate) fn write_cloud_config(&self, cloud_config: Value) -> String {
        let mut keys = json!({
            "resourceManagerEndpoint": self.arm.url(), "subscriptionId": SUBSCRIPTION, "resourceGroup": RESOURCE_GROUP,
        });
        let more = cloud_config.as_object().expect("keys").clone();
        keys.as_object_mut().expect("keys").extend(more);
        self.write("azure.json", &keys.to_string())
    }

    /// Replaces a configuration of Headcount that has this cloud-config file, and reads often. Returns its path.
    pub(crate) fn write_config(&self, cloud_config: Value) -> String {
        let file = self.write_cloud_config(cloud_config);
        let azure = format!("{{cloudConfig: \"{file}\", nodeGroups: [\"0:10:pool\"]}}");
        self.write("headcount.yaml", &format!("refreshInterval: 1s\nsources: [{{name: here, azure: {azure}}}]\n"))
    }

    /// Replaces a file, as the kubelet does: it is complete at any time. Returns its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let (path, new) = (self.files.path_of(name), self.files.path_of("new"));
        std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &path)).expect("written");
        path
    }

    /// The calls to Resource Manager, each with the issued token that it carried.
    fn calls(&self) -> Vec<(Request, Issued)> {
        let issued = self.arm.issued();
        let calls = self.arm.requests().into_iter().filter(|request| request.path.starts_with("/subscriptions/"));
        let with_token = |request: Request| {
            let held = request.header("authorization").and_then(|held| held.strip_prefix("Bearer "));
            let token = issued.iter().find(|issued| Some(issued.token.as_str()) == held).cloned();
            let token = token.unwrap_or_else(|| panic!("{} {} with {held:?}", request.method, request.path));
            (request, token)
        };
        calls.map(with_token).collect()
    }

    /// Reads and writes with one token for all calls. Returns the request for that token.
    async fn use_one_token(&self, server: &Server) -> Request {
        let mut client = server.client().await;
        assert_eq!(client.target("pool").await, 2);
        client.increase("pool", 1).await.expect("signed in");
        assert_eq!(client.target("pool").await, 3);
        let calls = self.calls();
        assert!(calls.iter().any(|(request, _)| request.method == "PATCH"));
        for (request, _) in &calls {
            assert!(request.status.is_none_or(|status| status < 400), "{} {:?}", request.path, request.status);
        }
        let [issued] = &self.arm.issued()[..] else { panic!("not one token") };
        issued.asked.clone()
    }
}

#[tokio::test]
async fn a_service_account_signs_in_with_the_current_content_of_its_token_file() {
    let office = Office::open();
    // azure_identity renews a token five minutes before it expires: this one is used for two seconds.
    office.arm.behavior(|behavior| behavior.token_life = std::time::Duration::from_secs(302));
    let file = office.write("token", "first.of.kubelet\n");
    let webhook = [
        ("AZURE_TENANT_ID", "tenant-1"),
        ("AZURE_CLIENT_ID", "client-1"),
        ("AZURE_FEDERATED_TOKEN_FILE", file.as_str()),
    ];
    let server = office.serve(json!({"useFederatedWorkloadIdentityExtension": true}), &webhook);
    let mut client = server.client().await;
    assert_eq!(client.target("pool").await, 2);
    let asked = office.calls().remove(0).1.asked;
    assert_eq!(asked.path, "/tenant-1/oauth2/v2.0/token");
    for (field, expected) in [
        ("grant_type", "client_credentials"),
        ("client_id", "client-1"),
        ("client_assertion", "first.of.kubelet"),
        ("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"),
        ("scope", "https://management.azure.com/.default"),
    ] {
        assert_eq!(asked.field(field).as_deref(), Some(expected), "{field}");
    }

    office.write("token", "second.of.kubelet");
    let assertion = |issued: &Issued| issued.asked.field("client_assertion").expect("an assertion");
    let renewed = async |client: &mut crate::peers::headcount::Client| {
        // The call is refused because of the maximum, but only after a fresh read of the group.
        let _refused = client.increase("pool", 100).await;
        office.calls().iter().any(|(_, token)| assertion(token) == "second.of.kubelet")
    };
    client.until("the new token is used", renewed).await;
    let assertions: Vec<_> = office.arm.issued().iter().map(assertion).collect();
    assert!(assertions.is_sorted(), "the old content is not used after the change: {assertions:?}");
    assert!(office.calls().iter().all(|(request, _)| request.status.is_none_or(|status| status < 400)));
}

#[tokio::test]
async fn a_managed_identity_signs_in_at_its_endpoint() {
    let office = Office::open();
    let service = format!("{}/msi/token", office.arm.url());
    let app_service = [("IDENTITY_ENDPOINT", service.as_str()), ("IDENTITY_HEADER", "shared-with-the-service")];
    let identity = json!({"useManagedIdentityExtension": true, "userAssignedIdentityID": "client-7"});
    let server = office.serve(identity, &app_service);
    let asked = office.use_one_token(&server).await;
    assert_eq!((asked.method.as_str(), asked.path.as_str()), ("GET", "/msi/token"));
    assert_eq!(asked.header("x-identity-header"), Some("shared-with-the-service"));
    assert_eq!(asked.parameter("client_id").as_deref(), Some("client-7"));
    assert_eq!(asked.parameter("resource").as_deref(), Some("https://management.azure.com"));
}

#[tokio::test]
async fn a_service_principal_signs_in_with_its_secret() {
    let office = Office::open();
    let principal = json!({"tenantId": "tenant-1", "aadClientId": "client-1", "aadClientSecret": "of-the-file"});
    let server = office.serve(principal, &[("ARM_CLIENT_SECRET", "of-the-environment")]);
    let asked = office.use_one_token(&server).await;
    assert_eq!(asked.path, "/tenant-1/oauth2/v2.0/token");
    assert_eq!(asked.field("client_id").as_deref(), Some("client-1"));
    assert_eq!(asked.field("client_secret").as_deref(), Some("of-the-environment"));
}

#[tokio::test]
async fn a_service_principal_signs_in_with_its_certificate() {
    let office = Office::open();
    let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).expect("a key");
    let certificate = CertificateParams::new(vec!["headcount".to_owned()]).and_then(|it| it.self_signed(&key));
    let pem = format!("{}{}", certificate.expect("a certificate").pem(), key.serialize_pem());
    let file = office.write("principal.pem", &pem);
    let principal = json!({"tenantId": "tenant-1", "aadClientId": "client-1", "aadClientCertPath": file});
    let server = office.serve(principal, &[]);
    let assertion = office.use_one_token(&server).await.field("client_assertion").expect("an assertion");
    let (signed, signature) = assertion.rsplit_once('.').expect("three parts");
    let public = UnparsedPublicKey::new(&RSA_PSS_2048_8192_SHA256, key.der_bytes());
    public.verify(signed.as_bytes(), &decoded(signature)).expect("signed by the certificate's key");
    let (_, claims) = signed.split_once('.').expect("a header and claims");
    let claims: Value = serde_json::from_slice(&decoded(claims)).expect("JSON");
    assert_eq!(claims["aud"], format!("{}/tenant-1/oauth2/v2.0/token", office.arm.url()));
    assert_eq!(claims["iss"], "client-1");
}

fn decoded(part: &str) -> Vec<u8> {
    decode_url_safe(format!("{part}{}", "=".repeat((4 - part.len() % 4) % 4))).expect("base64")
}

#[tokio::test]
async fn without_a_token_no_call_is_made() {
    let office = Office::open();
    let refusal = json!({
        "error": "invalid_client", "error_description": "AADSTS7000215: Invalid client secret provided.",
        "error_codes": [7000215],
    });
    office.arm.script("POST", "/oauth2/v2.0/token", 1_000, HttpResponse::json(401, &refusal));
    let principal = json!({"tenantId": "tenant-1", "aadClientId": "client-1", "aadClientSecret": "wrong"});
    let server = office.serve(principal, &[]);
    let line = server.logged("cannot be listed");
    assert!(line.contains("AADSTS7000215") && !line.contains("wrong"), "{line}");
    let mut caller = server.untimed_client(AUTOSCALER_TIMEOUT).await;
    let (code, message) = refused_in_time(async || caller.increase("pool", 1).await).await;
    assert_eq!(code, Code::Unavailable, "{message}");
    assert_eq!(office.calls().len(), 0);
}

#[tokio::test]
async fn a_scale_up_whose_token_is_refused_is_sent_again_with_a_new_one_while_its_caller_waits() {
    let office = Office::open();
    let principal = json!({"tenantId": "tenant-1", "aadClientId": "client-1", "aadClientSecret": "of-the-file"});
    let server = office.serve(principal, &[]);
    let mut client = server.client().await;
    assert_eq!(client.target("pool").await, 2);
    office.arm.script("PATCH", "/virtualMachineScaleSets/pool", 1, error(401, "ExpiredAuthenticationToken", "expired"));
    client.increase("pool", 1).await.expect("sent again");
    assert_eq!(client.target("pool").await, 3);
    let calls = office.calls();
    let tokens: Vec<_> =
        calls.iter().filter(|(request, _)| request.method == "PATCH").map(|(_, token)| token).collect();
    assert!(tokens.len() == 2 && tokens[0].token != tokens[1].token, "{tokens:?}");
}

#[tokio::test]
async fn a_token_that_lives_for_ever_is_used_like_any_other() {
    let office = Office::open();
    // The first one is unknown to Resource Manager, which refuses it.
    for lifetime in [json!(1_000_000_000_000_000_000_u64), json!("99999999999999999999"), json!(1e300)] {
        let token =
            json!({"token_type": "Bearer", "expires_in": lifetime, "access_token": "e30.e30.forever-and-a-day"});
        office.arm.script("POST", "/oauth2/v2.0/token", 1, HttpResponse::json(200, &token));
        let principal = json!({"tenantId": "tenant-1", "aadClientId": "client-1", "aadClientSecret": "of-the-file"});
        let server = office.serve(principal, &[]);
        let mut client = server.client().await;
        client.until("served", async |client| !client.node_groups().await.is_empty()).await;
        assert_eq!(server.lines_with("panicked"), Vec::<String>::new());
    }
}
