"""Renders deploy/chart with helm, and compares what it makes with what deploy/kubernetes makes."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "chart"
HELM = "helm.sh/helm/v3/cmd/helm@v3.22.0"
# helm's own default depends on how it was built.
KUBERNETES = ["--kube-version", "1.34.0"]

# Values that the schema refuses, with what it says.
REFUSED = [
    ({}, "sources"),
    ({"config": {"sources": []}}, "minItems"),
    ({"config": {"sources": [{"name": "prod"}]}}, "oneOf"),
    ({"transport": "tcp"}, "transport"),
    ({"identity": {"type": "aws-irsa"}}, "roleArn"),
    ({"identity": {"type": "azure-workload-identity", "clientId": "prod"}}, "clientId"),
    ({"image": {"repository": "headcount", "digest": "latest"}}, "digest"),
    ({"autoscaler": {"image": "ca:v1", "extraArgs": ["scan-interval=5s"]}}, "extraArgs"),
    ({"replicaCount": 2}, "replicaCount"),
    ({"files": {"headcount.yaml": ""}}, "headcount.yaml"),
]
SIMULATED = {"sources": [{"name": "demo", "simulated": {}}]}


class Differs(Exception):
    """How the chart differs from what it should be."""


def helm():
    """The path of helm, built with Go if it is not installed; None without both."""
    found = shutil.which("helm")
    if found or not shutil.which("go"):
        return found
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "tools"
    binary = target / "helm"
    if not binary.exists():
        print(f"building {HELM}")
        subprocess.run(["go", "install", HELM], check=True, env={**os.environ, "GOBIN": str(target.resolve())})
    return str(binary)


def run(tool, command, *arguments, values):
    """Runs a command of helm on the chart with these values: a file, or what one would contain."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        json.dump(values, file)
        file.flush()
        return subprocess.run([tool, command, *arguments, *KUBERNETES, "--values", file.name], capture_output=True, text=True)


def rendered(tool, values):
    """The objects that a release of the chart with these values has."""
    done = run(tool, "template", "cluster-autoscaler", str(CHART), "--namespace", "kube-system", values=values)
    if done.returncode != 0:
        raise Differs(f"helm template: {done.stderr.strip()}")
    return [found for found in yaml.safe_load_all(done.stdout) if found]


def values_of(cloud, transport, options):
    """The values that stand for a combination of the kustomize components."""
    identity = {"type": cloud or "none"}
    if cloud == "aws-irsa":
        identity["roleArn"] = "arn:aws:iam::123456789012:role/headcount"
    if cloud == "azure-workload-identity":
        identity["clientId"] = "00000000-0000-0000-0000-000000000000"
    config = SIMULATED | ({"learn": {"kubernetes": True}} if "learn" in options else {})
    return {"config": config, "identity": identity, "transport": transport or "loopback", "podMonitor": "monitoring" in options}


def comparable(objects):
    """The objects without what only one of the two tools adds: labels of a release, and how a changed file starts a new pod."""
    found = {}
    for each in json.loads(json.dumps(objects)):
        metadata, kind = each["metadata"], each["kind"]
        metadata.pop("labels", None)
        if kind == "ConfigMap":
            metadata["name"] = without_hash(metadata["name"])
            each["data"] = {name: yaml.safe_load(text) for name, text in each["data"].items()}
        if kind == "Deployment":
            template = each["spec"]["template"]
            annotations = template["metadata"].pop("annotations", {})
            annotations.pop("checksum/config", None)
            template["metadata"]["annotations"] = annotations
            for volume in template["spec"]["volumes"]:
                if "configMap" in volume:
                    volume["configMap"]["name"] = without_hash(volume["configMap"]["name"])
        found[kind, metadata["name"]] = each
    return found


def without_hash(name):
    """The name of a ConfigMap without the hash that kustomize appends."""
    return re.sub(r"-[0-9a-z]{10}$", "", name)


def difference(one, other, path=""):
    """The first place where two values differ; None where they do not."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}):
            if found := difference(one.get(key), other.get(key), f"{path}.{key}"):
                return found
        return None
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return next(filter(None, (difference(*pair, f"{path}[{at}]") for at, pair in enumerate(zip(one, other)))), None)
    return None if one == other else f"{path}: the chart has {one}, deploy/kubernetes has {other}"


def compare(chart, manifests):
    """Both render the same objects, and so the same pods."""
    chart, manifests = comparable(chart), comparable(manifests)
    if set(chart) != set(manifests):
        raise Differs(f"only one of the two has {sorted(set(chart) ^ set(manifests))}")
    for name, each in chart.items():
        if found := difference(each, manifests[name]):
            raise Differs(f"{' '.join(name)}{found}")


def check_example(tool, manifests, cloud):
    """`helm lint` accepts the values of an example, and they make the objects of deploy/kubernetes."""
    values = yaml.safe_load((CHART / "ci" / f"{cloud}-values.yaml").read_text())
    lint = run(tool, "lint", "--strict", str(CHART), values=values)
    if lint.returncode != 0:
        raise Differs(f"helm lint: {lint.stdout}{lint.stderr}")
    return check_same(tool, manifests, values)


def check_same(tool, manifests, values):
    """With these values, the chart makes the objects of the manifests."""
    objects = rendered(tool, values)
    compare(objects, manifests)
    return objects


def check_refusals(tool):
    """The schema refuses values that would make a broken pod, and names them."""
    for values, named in REFUSED:
        whole = values if not values or "config" in values else {"config": SIMULATED, **values}
        done = run(tool, "template", "cluster-autoscaler", str(CHART), values=whole)
        if done.returncode == 0 or named not in done.stderr:
            raise Differs(f"{values} is not refused with a word about {named}: {done.stderr.strip()}")


def check_values(tool):
    """What a user sets arrives where it belongs, and the chart grants what the configuration needs."""
    digest = f"sha256:{'0' * 64}"
    values = {
        "config": SIMULATED | {"kubernetes": {"events": True}, "grpc": {"tls": {"allowedClients": ["mine"]}}},
        "transport": "mtls-cert-manager",
        "image": {"repository": "example.com/headcount", "digest": digest},
        "autoscaler": {"image": "ca:v1", "extraArgs": ["--scan-interval=5s"]},
        "files": {"types.yaml": "aws: {}\n"},
        "env": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
        "volumes": [{"name": "azure", "secret": {"secretName": "azure"}}],
        "volumeMounts": [{"name": "azure", "mountPath": "/etc/azure", "readOnly": True}],
        "replicas": 2,
        "nodeSelector": {"pool": "system"},
    }
    objects = comparable(rendered(tool, values))
    deployment = objects["Deployment", "cluster-autoscaler"]["spec"]
    pod = deployment["template"]["spec"]
    tls = objects["ConfigMap", "headcount"]["data"]["headcount.yaml"]["grpc"]["tls"]
    holds = {
        "the digest": pod["initContainers"][0]["image"] == f"example.com/headcount@{digest}",
        "the flags": pod["containers"][0]["command"][-1] == "--scan-interval=5s",
        "the files": objects["ConfigMap", "headcount"]["data"]["types.yaml"] == {"aws": {}},
        "the environment": values["env"][0] in pod["initContainers"][0]["env"],
        "the volumes": values["volumes"][0] in pod["volumes"]
        and values["volumeMounts"][0] in pod["initContainers"][0]["volumeMounts"],
        "the replicas": deployment["replicas"] == 2,
        "the node selector": pod["nodeSelector"] == {"pool": "system"},
        "the user's part of grpc.tls": tls["allowedClients"] == ["mine"] and tls["cert"] == "/etc/headcount-tls/tls.crt",
        "the right to create Events": objects["Role", "headcount-events"]["rules"] == rules_alone("headcount-events"),
        "no right to watch nodes": ("ClusterRole", "headcount-learns") not in objects,
    }
    watching = comparable(rendered(tool, {"config": SIMULATED | {"kubernetes": {"taints": True}}}))
    holds["the right to watch nodes"] = ("ClusterRole", "headcount-learns") in watching
    checksums = {checksum(rendered(tool, {"config": SIMULATED | {"readOnly": each}})) for each in (True, False)}
    holds["a new pod for a new configuration"] = len(checksums) == 2
    if lacking := [what for what, is_so in holds.items() if not is_so]:
        raise Differs(f"the chart does not render {', '.join(lacking)}")


def checksum(objects):
    [deployment] = [each for each in objects if each["kind"] == "Deployment"]
    return deployment["spec"]["template"]["metadata"]["annotations"]["checksum/config"]


def rules_alone(role):
    """The rules of a role in deploy/kubernetes-rbac.yaml."""
    every = yaml.safe_load_all((ROOT / "deploy" / "kubernetes-rbac.yaml").read_text())
    return next(each["rules"] for each in every if each["kind"] == "Role" and each["metadata"]["name"] == role)


def check_readme(tool):
    """The README names each value, and its example is accepted."""
    readme = (CHART / "README.md").read_text()
    named = set(re.findall(r"`(\w+)`", "".join(line.split("|")[1] for line in readme.splitlines() if line.startswith("| `"))))
    values = set(yaml.safe_load((CHART / "values.yaml").read_text()))
    if named != values:
        raise Differs(f"README.md and values.yaml differ in {sorted(named ^ values)}")
    [example] = re.findall(r"```yaml\n(.*?)```", readme, re.S)
    rendered(tool, yaml.safe_load(example))


def check_versions():
    """The chart, what it installs by default, and the package have one version."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    package = tomllib.loads((ROOT / "Cargo.toml").read_text())["package"]["version"]
    if {chart["version"], chart["appVersion"]} != {package}:
        raise Differs(f"Chart.yaml says {chart['version']} and {chart['appVersion']}, Cargo.toml {package}")
