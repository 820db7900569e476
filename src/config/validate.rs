//! Validates the structure of headcount.yaml and converts it to a [`Config`].

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::{ConfigError, Place, check_file, read_file};
use super::file::{self, Text};
use super::source::{self, SourceContext};
use super::yaml::{checked, optional, place};
use super::{Admin, Config, Environment, Grpc, groups, learn, scalar};
use crate::admin::statusz::Audience;
use crate::cloud::is_label_key;
use crate::fleet::Policies;
use crate::grpc::Listen;
use crate::grpc::dialect::SendPolicy;
use crate::grpc::tls::TlsSettings;
use crate::instance_types::Table;

/// The read limits of the clouds do not allow more than one read per second. After more than ten minutes, the data is
/// too old for the Cluster Autoscaler.
const REFRESH_INTERVAL: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(600);

/// One or two loops of the Cluster Autoscaler, which take 10 s or more.
pub(super) const DEFAULT_REFRESH_INTERVAL: Duration = Duration::from_secs(15);

/// Kubernetes kills a pod 30 s after SIGTERM by default. Zero would end writes that are being sent.
const DRAIN_TIMEOUT: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(600);

/// Shorter than Kubernetes' default of 30 s, and longer than a call of the Cluster Autoscaler and a write of its own
/// take together.
pub(super) const DEFAULT_DRAIN_TIMEOUT: Duration = Duration::from_secs(20);

/// Validates the whole file.
pub(super) fn config(file: file::File, path: &Path, environment: Environment<'_>) -> Result<Config, ConfigError> {
    let grpc = grpc(&file.grpc, path)?;
    let admin = admin(&file, &grpc, path)?;
    let refresh_interval =
        optional(file.refresh_interval.as_ref(), path, |text| scalar::duration_within(text, &REFRESH_INTERVAL))?;
    let shortest = refresh_interval.unwrap_or(DEFAULT_REFRESH_INTERVAL);
    let idle_refresh_interval = optional(file.idle_refresh_interval.as_ref(), path, |text| {
        scalar::duration_within(text, &(shortest..=*REFRESH_INTERVAL.end()))
    })?;
    let drain_timeout =
        optional(file.drain_timeout.as_ref(), path, |text| scalar::duration_within(text, &DRAIN_TIMEOUT))?;
    let gpu_label = optional(file.gpu_label.as_ref(), path, |text| match text.trim() {
        "" => Err("the label is empty; write a label's key, or leave gpuLabel out".to_owned()),
        label if !is_label_key(label) => Err(format!(
            "{label:?} is not a label's key; write one such as k8s.amazonaws.com/accelerator or accelerator"
        )),
        label => Ok(label.to_owned()),
    })?;
    let instance_types = file.instance_types.iter().map(|table| {
        let table_path = beside(path, &table.value);
        let text = read_file(&table_path, &place(table, path))?;
        Table::parse(&text, &table_path.display().to_string()).map_err(ConfigError::from)
    });
    let instance_types = instance_types.collect::<Result<_, _>>()?;
    let mut context = SourceContext { environment, warnings: Vec::new() };
    let learn::Access { learn, events, taints } = learn::settings(&file.kubernetes, &file.learn, path, &mut context)?;
    let sources = source::all(file.sources, path, &mut context)?;
    let groups =
        file.groups.into_iter().map(|group| groups::policy(group, path)).collect::<Result<_, _>>().map(Policies)?;
    Ok(Config {
        grpc,
        admin,
        refresh_interval: shortest,
        idle_refresh_interval,
        read_only: file.read_only,
        drain_timeout: drain_timeout.unwrap_or(DEFAULT_DRAIN_TIMEOUT),
        gpu_label,
        instance_types,
        learn,
        events,
        taints,
        live_prices: file.prices.live.unwrap_or(true),
        sources,
        groups,
        warnings: context.into_warnings(),
    })
}

fn grpc(grpc: &file::Grpc, path: &Path) -> Result<Grpc, ConfigError> {
    let default = Grpc::default();
    let policy = |text: Option<&file::Text>| {
        optional(text, path, |text| match text.as_str() {
            "send" => Ok(SendPolicy::Send),
            "suppress" => Ok(SendPolicy::Suppress),
            other => Err(format!("{other:?} is not a policy; write send or suppress")),
        })
    };
    let lists_new_at_once = optional(grpc.new_instances.as_ref(), path, |text| match text.as_str() {
        "delay" => Ok(false),
        "list" => Ok(true),
        other => Err(format!("{other:?} is not delay or list")),
    })?;
    Ok(Grpc {
        listen: optional(grpc.listen.as_ref(), path, |text| scalar::listen(text))?.unwrap_or(default.listen),
        socket_mode: optional(grpc.socket_mode.as_ref(), path, |text| scalar::file_mode(text))?
            .unwrap_or(default.socket_mode),
        tls: grpc.tls.as_ref().map(|tls| self::tls(tls, path)).transpose()?,
        options_since_135: policy(grpc.options_since_135.as_ref())?.unwrap_or(default.options_since_135),
        zero_or_max_node_scaling: policy(grpc.zero_or_max_node_scaling.as_ref())?
            .unwrap_or(default.zero_or_max_node_scaling),
        resource_slices: policy(grpc.resource_slices.as_ref())?.unwrap_or(default.resource_slices),
        lists_new_at_once: lists_new_at_once.unwrap_or(default.lists_new_at_once),
    })
}

/// The admin port must differ from the gRPC port. Port 0 means any free port, so both may be 0.
fn admin(file: &file::File, grpc: &Grpc, path: &Path) -> Result<Admin, ConfigError> {
    let listen = optional(file.admin.listen.as_ref(), path, |text| scalar::address(text))?;
    let statusz = optional(file.admin.statusz.as_ref(), path, |text| match text.as_str() {
        "loopback" => Ok(Audience::Loopback),
        "everywhere" => Ok(Audience::Everywhere),
        other => Err(format!("{other:?} is not an audience; write loopback or everywhere")),
    })?;
    let default = Admin::default();
    let admin = Admin { listen: listen.unwrap_or(default.listen), statusz: statusz.unwrap_or(default.statusz) };
    if Listen::Tcp(admin.listen) == grpc.listen && admin.listen.port() != 0 {
        // At least one of the two is in the file, because the defaults differ.
        let written = file.admin.listen.as_ref().or(file.grpc.listen.as_ref());
        let place = written.map_or_else(|| Place::File(path.to_owned()), |text| place(text, path));
        let message = format!("grpc.listen and admin.listen are both {}; write another port here", admin.listen);
        return Err(ConfigError::at(&place, message));
    }
    Ok(admin)
}

fn tls(tls: &file::Tls, path: &Path) -> Result<TlsSettings, ConfigError> {
    let existing = |name: &Text| -> Result<PathBuf, ConfigError> {
        let file = beside(path, &name.value);
        check_file(&file, &place(name, path))?;
        Ok(file)
    };
    let (cert, key) = (existing(&tls.cert)?, existing(&tls.key)?);
    let client_ca = tls.client_ca.as_ref().map(existing).transpose()?;
    let allowed_clients = optional(tls.allowed_clients.as_ref(), path, |names| match &client_ca {
        // Without clientCa, clients present no certificate, and the list would allow everyone.
        None if !names.is_empty() => {
            Err("allowedClients needs clientCa, the CA that signs clients' certificates".to_owned())
        }
        _ => Ok(names.as_slice()),
    })?;
    let client_name = |name: &Text| {
        checked(name, path, |name| match name.trim() {
            "" => Err("the name is empty; write a common or alternative name of a client's certificate".to_owned()),
            name => Ok(name.to_owned()),
        })
    };
    let allowed_clients = allowed_clients.unwrap_or_default().iter().map(client_name).collect::<Result<_, _>>()?;
    Ok(TlsSettings { cert, key, client_ca, allowed_clients })
}

/// Returns the path of a file that headcount.yaml names. Relative names are relative to headcount.yaml.
pub(super) fn beside(path: &Path, name: &str) -> PathBuf {
    path.parent().map_or_else(|| PathBuf::from(name), |directory| directory.join(name))
}
