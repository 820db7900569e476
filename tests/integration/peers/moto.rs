//! A moto server: an independent implementation of AWS with the real wire format.

use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use aws_sdk_autoscaling::types::{LaunchTemplateSpecification, Tag};
use aws_sdk_ec2::types::{InstanceType, RequestLaunchTemplateData};
use tokio::sync::OnceCell;

use super::free_address;
use super::headcount::{ConfigFile, PATIENCE, run};

/// moto's own server, one request at a time: moto can count two concurrent terminations as one. It writes 5 MB of
/// instance types, and takes longer on a busy machine than Headcount waits. Its response is kept, for when it is asked
/// again.
const SERVE: &str = "
import io, sys, threading
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple
from werkzeug.test import run_wsgi_app

moto, turn, types = DomainDispatcherApplication(create_backend_app), threading.Lock(), {}

def serve(environment, start_response):
    body = environment['wsgi.input'].read(int(environment.get('CONTENT_LENGTH') or 0))
    environment['wsgi.input'] = io.BytesIO(body)
    with turn:
        if b'Action=DescribeInstanceTypes&' not in body:
            return moto(environment, start_response)
        if body not in types:
            types[body] = run_wsgi_app(moto, environment, buffered=True)
        parts, status, headers = types[body]
    start_response(status, list(headers))
    return list(parts)

run_simple('127.0.0.1', int(sys.argv[1]), serve, threaded=True)
";

/// What `headcount instance-types export` prints of moto's types, asked for until moto has them.
static EXPORTED_TYPES: OnceCell<Option<String>> = OnceCell::const_new();

/// A running moto server with a launch template for each requested instance type.
pub(crate) struct Moto {
    process: Child,
    address: SocketAddr,
    autoscaling: aws_sdk_autoscaling::Client,
    ec2: aws_sdk_ec2::Client,
}

impl Moto {
    /// Starts one. Without moto, it prints why the test is skipped and returns `None`; in CI it fails.
    pub(crate) async fn start() -> Option<Self> {
        let installed = Command::new("python3").args(["-c", "import moto.server"]).stderr(Stdio::null()).status();
        if !installed.is_ok_and(|status| status.success()) {
            assert!(std::env::var_os("CI").is_none(), "CI has to have moto: pip install 'moto[server]'");
            eprintln!("skipped: moto is not installed (pip install 'moto[server]')");
            return None;
        }
        let address = free_address();
        let process = Command::new("python3")
            .args(["-c", SERVE, &address.port().to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("python3 runs");
        let config = aws_config::defaults(aws_config::BehaviorVersion::latest())
            .region("us-east-1")
            .endpoint_url(format!("http://{address}"))
            .credentials_provider(aws_sdk_ec2::config::Credentials::new("test", "test", None, None, "test"))
            .load()
            .await;
        let moto = Self {
            process,
            address,
            autoscaling: aws_sdk_autoscaling::Client::new(&config),
            ec2: aws_sdk_ec2::Client::new(&config),
        };
        moto.wait_until_it_listens().await;
        Some(moto)
    }

    /// The table of moto's instance types, as `instance-types export` prints it. `None` without moto.
    pub(crate) async fn exported_types() -> Option<&'static str> {
        let exported = async || {
            let moto = Self::start().await?;
            let aws = format!("{{region: us-east-1, endpoint: \"{}\", nodeGroups: [\"0:1:a\"]}}", moto.url());
            let config = ConfigFile::new(&format!("sources: [{{name: here, aws: {aws}}}]\n"));
            let arguments = ["instance-types", "export", "--source", "here", "--config", &config.path()];
            let began = Instant::now();
            loop {
                let output = run(&arguments);
                if output.status.success() {
                    return Some(String::from_utf8(output.stdout).expect("text"));
                }
                assert!(began.elapsed() < PATIENCE, "{}", String::from_utf8_lossy(&output.stderr));
            }
        };
        EXPORTED_TYPES.get_or_init(exported).await.as_deref()
    }

    async fn wait_until_it_listens(&self) {
        let began = Instant::now();
        while TcpStream::connect(self.address).is_err() {
            assert!(began.elapsed() < PATIENCE, "moto does not start");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Creates an Auto Scaling group of one instance type, with these tags.
    pub(crate) async fn group(
        &self,
        name: &str,
        machine: &str,
        (min, max, desired): (i32, i32, i32),
        tags: &[(&str, &str)],
    ) {
        let data =
            RequestLaunchTemplateData::builder().instance_type(InstanceType::from(machine)).image_id("ami-760aaa0f");
        let template = self.ec2.create_launch_template().launch_template_name(name);
        template.launch_template_data(data.build()).send().await.expect("a launch template");
        let tags = tags.iter().map(|(key, value)| {
            Tag::builder().key(*key).value(*value).resource_id(name).resource_type("auto-scaling-group").build()
        });
        let template = LaunchTemplateSpecification::builder().launch_template_name(name).version("$Latest").build();
        let group = self.autoscaling.create_auto_scaling_group().auto_scaling_group_name(name);
        group
            .min_size(min)
            .max_size(max)
            .desired_capacity(desired)
            .launch_template(template)
            .availability_zones("us-east-1a")
            .set_tags(Some(tags.collect()))
            .send()
            .await
            .expect("a group");
    }

    /// The desired capacity and the instance IDs of a group in moto.
    pub(crate) async fn view(&self, name: &str) -> (i32, Vec<String>) {
        let response = self.autoscaling.describe_auto_scaling_groups().auto_scaling_group_names(name).send().await;
        let response = response.expect("described");
        let group = response.auto_scaling_groups().first().expect("it exists");
        let mut ids: Vec<String> =
            group.instances().iter().filter_map(|instance| instance.instance_id()).map(str::to_owned).collect();
        ids.sort();
        (group.desired_capacity().unwrap_or_default(), ids)
    }

    /// Stops it.
    pub(crate) fn stop(&mut self) {
        let _ended_already = self.process.kill();
        let _reaped = self.process.wait();
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        self.stop();
    }
}
