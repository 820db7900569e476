//! DescribeInstanceTypes and GetInstanceTypesFromInstanceRequirements.

use headcount::clouds::simulated::CallKind;

use super::super::http_messages::{HandlerResult, HttpResponse, Request};
use super::errors::ec2_error;
use super::router::{AwsApi, Service};
use super::xml::{ec2_answer, element, items, perhaps, text};

/// An instance type.
struct Type {
    name: &'static str,
    cpus: u32,
    memory_mib: u32,
    architecture: &'static str,
    gpus: u32,
    /// Neuron devices, and cores of each.
    neuron: (u32, u32),
    /// Network interfaces, and addresses of each.
    network: (u32, u32),
    /// Disks of its own, in GB.
    disks_gb: u32,
}

const fn of(name: &'static str, cpus: u32, memory_gib: u32, gpus: u32, network: (u32, u32)) -> Type {
    Type {
        name,
        cpus,
        memory_mib: memory_gib * 1024,
        architecture: "x86_64",
        gpus,
        neuron: (0, 0),
        network,
        disks_gb: 0,
    }
}

const TYPES: [Type; 14] = [
    of("m5.large", 2, 8, 0, (3, 10)),
    of("m5.xlarge", 4, 16, 0, (4, 15)),
    of("m5.2xlarge", 8, 32, 0, (4, 15)),
    of("m5a.large", 2, 8, 0, (3, 10)),
    of("c5.large", 2, 4, 0, (3, 10)),
    Type { disks_gb: 50, ..of("c5d.large", 2, 4, 0, (3, 10)) },
    Type { disks_gb: 75, ..of("m5d.large", 2, 8, 0, (3, 10)) },
    of("r5.large", 2, 16, 0, (3, 10)),
    of("g4dn.xlarge", 4, 16, 1, (3, 10)),
    // Not in any table.
    of("m99.large", 6, 12, 0, (3, 10)),
    Type { disks_gb: 3800, ..of("g5.12xlarge", 48, 192, 4, (15, 50)) },
    Type { neuron: (1, 2), ..of("inf2.xlarge", 4, 16, 0, (4, 15)) },
    of("p4d.24xlarge", 96, 1152, 8, (15, 50)),
    Type { architecture: "arm64", ..of("m6g.large", 2, 8, 0, (3, 10)) },
];

impl AwsApi {
    /// One unknown name fails the call for all.
    pub(super) async fn describe_types(&self, request: &Request) -> HandlerResult {
        let names = request.fields("InstanceType");
        let kind = CallKind::InstanceTypes;
        self.call(Service::Ec2, kind, None, names.join(" "), |_, _| ()).await?;
        let unknown: Vec<&str> =
            names.iter().map(String::as_str).filter(|name| !TYPES.iter().any(|known| known.name == *name)).collect();
        if !unknown.is_empty() {
            let message = format!("The following supplied instance types do not exist: [{}]", unknown.join(", "));
            return Ok(ec2_error(400, "InvalidInstanceType", &message));
        }
        let wanted = TYPES.iter().filter(|known| names.is_empty() || names.iter().any(|name| name == known.name));
        let (page, next) = self.page(request, "MaxResults", 100, wanted.map(described).collect());
        let result = items("instanceTypeSet", page) + &perhaps("nextToken", next);
        Ok(HttpResponse::xml(200, ec2_answer("DescribeInstanceTypes", result)))
    }

    pub(super) async fn types_satisfying(&self, request: &Request) -> HandlerResult {
        self.call(Service::Ec2, CallKind::InstanceTypes, None, "requirements".to_owned(), |_, _| ()).await?;
        let number = |field: &str| {
            request.field(&format!("InstanceRequirements.{field}")).and_then(|text| text.parse::<u32>().ok())
        };
        let architectures = request.fields("ArchitectureType");
        let within = |value: u32, of: &str| {
            value >= number(&format!("{of}.Min")).unwrap_or(0)
                && value <= number(&format!("{of}.Max")).unwrap_or(u32::MAX)
        };
        let satisfying = TYPES.iter().filter(|known| {
            within(known.cpus, "VCpuCount")
                && within(known.memory_mib, "MemoryMiB")
                && architectures.iter().any(|name| name == known.architecture)
                // Without accelerator requirements, none are wanted.
                && known.gpus == 0
                && known.neuron == (0, 0)
        });
        let found = satisfying.map(|known| text("instanceType", known.name)).collect();
        let (page, next) = self.page(request, "MaxResults", 100, found);
        let result = items("instanceTypeSet", page) + &perhaps("nextToken", next);
        Ok(HttpResponse::xml(200, ec2_answer("GetInstanceTypesFromInstanceRequirements", result)))
    }
}

fn described(known: &Type) -> String {
    let (interfaces, addresses) = known.network;
    let card = text("networkCardIndex", 0) + &text("maximumNetworkInterfaces", interfaces);
    let network = [
        text("maximumNetworkInterfaces", interfaces),
        text("ipv4AddressesPerInterface", addresses),
        text("defaultNetworkCardIndex", 0),
        items("networkCards", [card]),
    ];
    let gpus = (known.gpus > 0).then(|| {
        let gpu = text("name", "A100") + &text("manufacturer", "NVIDIA") + &text("count", known.gpus);
        element("gpuInfo", items("gpus", [gpu]))
    });
    let (devices, cores) = known.neuron;
    let neuron = (devices > 0).then(|| {
        let device = text("name", "Inferentia2") + &text("count", devices) + &element("coreInfo", text("count", cores));
        element("neuronInfo", items("neuronDevices", [device]))
    });
    let disks = (known.disks_gb > 0).then(|| element("instanceStorageInfo", text("totalSizeInGB", known.disks_gb)));
    let architectures = element("supportedArchitectures", text("item", known.architecture));
    [
        text("instanceType", known.name),
        text("currentGeneration", true),
        element("vCpuInfo", text("defaultVCpus", known.cpus)),
        element("memoryInfo", text("sizeInMiB", known.memory_mib)),
        element("processorInfo", architectures),
        element("networkInfo", network.concat()),
        gpus.unwrap_or_default(),
        neuron.unwrap_or_default(),
        disks.unwrap_or_default(),
    ]
    .concat()
}
