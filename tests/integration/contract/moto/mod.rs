//! `headcount` with a source in moto, called over gRPC and from the command line.

mod failures;
mod groups;
mod templates;

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use k8s_pb::api::core::v1::Node;
use k8s_pb::apimachinery::pkg::api::resource::Quantity;
use prost::Message;
use serde_json::Value;
use tokio::task::JoinSet;
use tonic::Code;

use crate::peers::headcount::{
    AUTOSCALER_TIMEOUT, Client, ConfigFile, PATIENCE, Server, command, refused, refused_in_time,
};
use crate::peers::moto::Moto;

const TAGS: [(&str, &str); 2] =
    [("k8s.io/cluster-autoscaler/enabled", "true"), ("k8s.io/cluster-autoscaler/prod", "owned")];

/// A source with two discovery specs and one group by name.
fn config(moto: &Moto, more: &str) -> ConfigFile {
    ConfigFile::new(&format!(
        r#"
refreshInterval: 1s
{more}
sources:
  - name: us
    aws:
      region: us-east-1
      endpoint: {}
      nodeGroups: ["0:10:by-name"]
      autoDiscovery:
        - asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/prod
        - asg:tag=team=data
"#,
        moto.url()
    ))
}

/// The JSON that a command prints.
fn json(arguments: &[&str]) -> Value {
    let output = command(arguments).output().expect("the binary runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let output_text = || format!("{text}\n{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {}", output_text()))
}
