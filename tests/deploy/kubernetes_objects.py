"""Checks of Kubernetes objects without a cluster or a network: their fields, and what they say of each other.

kubernetes_objects.py FILE.yml...   checks the objects of all files as those of one server
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib

import yaml

# A shape is a type, a tuple of types, a set of values, [shape] for a list, or a dictionary of fields. A field with "!"
# is required. ANY is a free mapping of strings.
ANY = {"*": str}
QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti)?")
SELECTOR = {"matchLabels!": ANY}
METADATA = {"name!": str, "labels!": ANY}
AMOUNTS = {"cpu": QUANTITY, "memory": QUANTITY, "storage": QUANTITY}
PROBE = {
    "httpGet!": {"path!": str, "port!": str, "scheme": {"HTTP", "HTTPS"}},
    "initialDelaySeconds": int, "periodSeconds": int, "timeoutSeconds": int, "failureThreshold": int,
    "successThreshold": int,
}
CONTAINER = {
    "name!": str, "image!": str, "imagePullPolicy": {"Always", "IfNotPresent", "Never"}, "args!": [str],
    "ports!": [{"name!": str, "containerPort!": int, "protocol": {"TCP"}}],
    "startupProbe!": PROBE, "livenessProbe!": PROBE, "readinessProbe!": PROBE,
    "resources!": {"requests!": AMOUNTS, "limits!": AMOUNTS},
    "securityContext!": {"allowPrivilegeEscalation!": {False}, "readOnlyRootFilesystem!": {True},
                         "capabilities!": {"drop!": [{"ALL"}]}},
    "volumeMounts!": [{"name!": str, "mountPath!": str, "readOnly": bool}],
}
VOLUME = {
    "name!": str, "emptyDir": {"sizeLimit": QUANTITY}, "configMap": {"name!": str},
    "secret": {"secretName!": str, "defaultMode!": {0o440, 0o400}},
}
POD = {
    "serviceAccountName!": str, "automountServiceAccountToken!": {False}, "terminationGracePeriodSeconds!": int,
    "securityContext!": {
        "runAsNonRoot!": {True}, "runAsUser!": int, "runAsGroup!": int, "fsGroup!": int,
        "fsGroupChangePolicy": {"OnRootMismatch", "Always"}, "seccompProfile!": {"type!": {"RuntimeDefault"}},
    },
    "nodeSelector": ANY, "tolerations": [dict], "affinity": dict,
    "containers!": [CONTAINER], "volumes!": [VOLUME],
}
KINDS = {
    "ServiceAccount": ("v1", {"metadata!": METADATA, "automountServiceAccountToken!": {False}}),
    "ConfigMap": ("v1", {"metadata!": METADATA, "data!": ANY}),
    "Service": ("v1", {"metadata!": METADATA, "spec!": {
        "clusterIP": {"None"}, "publishNotReadyAddresses": bool, "selector!": ANY,
        "ports!": [{"name!": str, "port!": int, "targetPort!": str, "appProtocol": {"grpc", "http", "https"}}]}}),
    "PodDisruptionBudget": ("policy/v1", {"metadata!": METADATA, "spec!": {"maxUnavailable!": int,
                                                                          "selector!": SELECTOR}}),
    "StatefulSet": ("apps/v1", {"metadata!": METADATA, "spec!": {
        "serviceName!": str, "replicas!": {1}, "selector!": SELECTOR,
        "template!": {"metadata!": {"labels!": ANY, "annotations": ANY}, "spec!": POD},
        "volumeClaimTemplates!": [{"metadata!": {"name!": str}, "spec!": {
            "accessModes!": [{"ReadWriteOnce", "ReadWriteOncePod"}], "storageClassName": str,
            "resources!": {"requests!": AMOUNTS}}}]}}),
    "ServiceMonitor": ("monitoring.coreos.com/v1", {"metadata!": METADATA, "spec!": {
        "selector!": SELECTOR, "endpoints!": [{
            "port!": str, "path!": str, "interval": re.compile("[0-9]+s"), "scheme": {"http", "https"},
            "tlsConfig": {"insecureSkipVerify": bool}}]}}),
}
NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")


class Wrong(Exception):
    """An object that a cluster would refuse, or that does not fit the others."""


def check(holds, what):
    if not holds:
        raise Wrong(what)


def check_shape(value, shape, where):
    if isinstance(shape, re.Pattern):
        fits = isinstance(value, (str, int)) and shape.fullmatch(str(value))
        check(fits, f"{where} is {value!r}; allowed: {shape.pattern}")
    elif isinstance(shape, set):
        fits = any(value == one and type(value) is type(one) for one in shape)
        check(fits, f"{where} is {value!r}; allowed: {shape}")
    elif isinstance(shape, list):
        check(isinstance(value, list) and value, f"{where} is {value!r}; allowed: a list that is not empty")
        for place, one in enumerate(value):
            check_shape(one, shape[0], f"{where}[{place}]")
    elif isinstance(shape, dict):
        check(isinstance(value, dict), f"{where} is {value!r}; allowed: a mapping")
        fields = {name.rstrip("!"): inner for name, inner in shape.items()}
        for name, inner in value.items():
            check(name in fields or "*" in fields, f"{where} has the field {name!r}; allowed: {sorted(fields)}")
            check_shape(inner, fields.get(name, fields.get("*")), f"{where}.{name}")
        for name in shape:
            check(not name.endswith("!") or name[:-1] in value, f"{where} lacks the field {name[:-1]!r}")
    else:
        check(type(value) is shape, f"{where} is {value!r}; allowed: {shape.__name__}")


def server_settings(lightcone, text):
    """The effective settings, as the server prints them; raises Wrong where it refuses one of them."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "lightcone.toml"
        path.write_text(text)
        run = subprocess.run([lightcone, "serve", "--print-config", "--config", path], capture_output=True, text=True)
    check(run.returncode == 0, f"the server refuses its settings: {run.stderr}")
    return run.stdout


def bytes_of(quantity):
    number, unit = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", str(quantity)).groups()
    powers = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
    return float(number) * powers[unit]


class Objects:
    """The objects of one server, which name each other."""

    def __init__(self, documents):
        self.by_kind = {}
        for one in documents:
            kind = one.get("kind")
            check(kind in KINDS, f"kind is {kind!r}; allowed: {sorted(KINDS)}")
            version, shape = KINDS[kind]
            where = f"{kind} {one.get('metadata', {}).get('name')}"
            check_shape(one, {"apiVersion!": {version}, "kind!": {kind}, **shape}, where)
            check(NAME.fullmatch(one["metadata"]["name"]), f"{where}: not a name of Kubernetes")
            named = self.by_kind.setdefault(kind, {})
            check(one["metadata"]["name"] not in named, f"{where} is there twice")
            named[one["metadata"]["name"]] = one
        (self.stateful,) = self.by_kind["StatefulSet"].values()
        self.template = self.stateful["spec"]["template"]
        self.pod = self.template["spec"]
        (self.container,) = self.pod["containers"]
        self.ports = {port["name"]: port["containerPort"] for port in self.container["ports"]}

    def named(self, kind, name):
        check(name in self.by_kind.get(kind, {}), f"no {kind} has the name {name!r}")
        return self.by_kind[kind][name]

    def mounted(self):
        """Where each volume stands: by its name the path of its mount."""
        mounts = {mount["name"]: mount["mountPath"] for mount in self.container["volumeMounts"]}
        names = [volume["name"] for volume in self.pod["volumes"]]
        names += [claim["metadata"]["name"] for claim in self.stateful["spec"]["volumeClaimTemplates"]]
        check(sorted(names) == sorted(mounts), f"the volumes are {sorted(names)}, and mounted are {sorted(mounts)}")
        check(len(mounts) == len(self.container["volumeMounts"]), "a volume is mounted twice")
        for volume in self.pod["volumes"]:
            check(len(volume) == 2, f"volume {volume['name']}: {sorted(volume)}; allowed: a name and one source")
        return mounts

    def settings(self):
        """The text of the file that the server's command names, from the ConfigMap that stands there."""
        mounts = self.mounted()
        arguments = self.container["args"]
        path = pathlib.PurePosixPath(arguments[arguments.index("--config") + 1])
        for volume in self.pod["volumes"]:
            if "configMap" in volume and str(path.parent) == mounts[volume["name"]]:
                data = self.named("ConfigMap", volume["configMap"]["name"])["data"]
                check(path.name in data, f"the ConfigMap has no {path.name}")
                return data[path.name]
        raise Wrong(f"no ConfigMap is mounted at {path.parent}")

    def selected_services(self, labels):
        return [one for one in self.by_kind["Service"].values() if labels.items() <= one["metadata"]["labels"].items()]

    def paths(self):
        """What the cluster asks of the HTTP port: the paths of probes and of metrics."""
        monitors = self.by_kind.get("ServiceMonitor", {}).values()
        return {self.container[probe]["httpGet"]["path"] for probe in PROBES} | {
            endpoint["path"] for monitor in monitors for endpoint in monitor["spec"]["endpoints"]}


def check_selectors(objects):
    labels = objects.template["metadata"]["labels"].items()
    selector = objects.stateful["spec"]["selector"]["matchLabels"]
    check(selector.items() <= labels, f"the StatefulSet selects {selector}, and not its pods")
    for name, service in objects.by_kind["Service"].items():
        check(service["spec"]["selector"].items() <= labels, f"Service {name} does not select the pods")
        for port in service["spec"]["ports"]:
            target = port["targetPort"]
            check(target in objects.ports, f"Service {name}: no port {target!r} in the container")
            check(port["name"] == target, f"Service {name}: {port['name']} leads to {target}")
            check(port["port"] == objects.ports[target], f"Service {name}: {port} is another number in the pod")
    for name, budget in objects.by_kind["PodDisruptionBudget"].items():
        selector = budget["spec"]["selector"]["matchLabels"]
        check(selector.items() <= labels, f"PodDisruptionBudget {name} selects {selector}, and not the pods")
    headless = objects.named("Service", objects.stateful["spec"]["serviceName"])
    check(headless["spec"].get("clusterIP") == "None", "the Service of the StatefulSet is not headless")
    check(headless["spec"].get("publishNotReadyAddresses"), "a pod that is not ready has no name")
    objects.named("ServiceAccount", objects.pod["serviceAccountName"])


def check_monitors(objects, scheme):
    for name, monitor in objects.by_kind.get("ServiceMonitor", {}).items():
        selected = objects.selected_services(monitor["spec"]["selector"]["matchLabels"])
        check(len(selected) == 1, f"ServiceMonitor {name} selects {len(selected)} Services; allowed: 1")
        ports = {port["name"] for port in selected[0]["spec"]["ports"]}
        for endpoint in monitor["spec"]["endpoints"]:
            check(endpoint["port"] in ports, f"ServiceMonitor {name}: no port {endpoint['port']!r} in the Service")
            given = endpoint.get("scheme", "http")
            check(given == scheme, f"ServiceMonitor {name} scrapes by {given}; allowed: {scheme}")


def check_server(objects):
    """The settings of the server, and the pod that they must fit."""
    settings = tomllib.loads(objects.settings())
    mounts = objects.mounted()
    listens = {"grpc": settings["listen"], "http": settings["http_listen"]}
    for name, address in listens.items():
        port = objects.ports.get(name)
        check(address == f"0.0.0.0:{port}", f"the server listens at {address}, and the port {name} is {port}")
    secrets = [mounts[volume["name"]] for volume in objects.pod["volumes"] if "secret" in volume]
    secure = "tls" in settings and "auth" in settings
    check(secure != settings.get("insecure", False), "keys and TLS are there, or insecure is true: never both")
    files = [settings[table][key] for table in ("tls", "auth") if table in settings
             for key in settings[table] if key.endswith("_file")]
    for file in files:
        check(str(pathlib.PurePosixPath(file).parent) in secrets, f"{file} lies in no Secret; allowed: below {secrets}")
    claims = [mounts[claim["metadata"]["name"]] for claim in objects.stateful["spec"]["volumeClaimTemplates"]]
    data = settings["data"]
    on_claim = any(data.startswith(claim + "/") for claim in claims)
    check(on_claim, f"data {data} lies on no claim; allowed: below {claims}")
    grace, drain = objects.pod["terminationGracePeriodSeconds"], settings["drain_seconds"]
    check(grace > drain, f"terminationGracePeriodSeconds is {grace}; allowed: above drain_seconds, {drain}")
    scheme = "https" if secure else "http"
    for probe in PROBES:
        get = objects.container[probe]["httpGet"]
        check(get["port"] == "http", f"{probe}: port {get['port']!r}; allowed: http")
        check(get.get("scheme", "HTTP").lower() == scheme, f"{probe} asks by another scheme than {scheme}")
    check_monitors(objects, scheme)
    for mount in objects.container["volumeMounts"]:
        given = any(mount["name"] == volume["name"] and ("secret" in volume or "configMap" in volume)
                    for volume in objects.pod["volumes"])
        check(mount.get("readOnly", False) == given, f"mount {mount['name']}: readOnly is wrong")
    security = objects.pod["securityContext"]
    check(min(security["runAsUser"], security["runAsGroup"], security["fsGroup"]) > 0, "the pod runs as root")
    resources = objects.container["resources"]
    for of in ("requests", "limits"):
        check("memory" in resources[of], f"resources.{of} lacks memory")
    requested, limit = resources["requests"]["memory"], resources["limits"]["memory"]
    check(bytes_of(requested) <= bytes_of(limit), f"{requested} of memory is requested; allowed: at most {limit}")


def check_objects(documents):
    """All checks of one server's objects; raises Wrong."""
    objects = Objects(documents)
    check_selectors(objects)
    check_server(objects)
    return objects


def read(paths):
    return [one for path in paths for one in yaml.safe_load_all(pathlib.Path(path).read_text()) if one is not None]


if __name__ == "__main__":
    try:
        check_objects(read(sys.argv[1:]))
    except Wrong as wrong:
        sys.exit(f"kubernetes_objects.py: {wrong}")
