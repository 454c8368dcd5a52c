"""The StatefulSet of a manifest as `podman kube play` takes it: its pod, its claims, the ConfigMap, and files as a
Secret has them.

one_pod.py MANIFEST IMAGE PREFIX GRPC_PORT HTTP_PORT SECRET=FOLDER > pod.yml
one_pod.py --probes MANIFEST > probes

All names begin with PREFIX: podman has one list of volumes for all. The files in FOLDER get the owner, the group and
the mode that the Secret's have in the pod: root must run this. `--probes` writes scheme, port and path of each probe.
"""

import os
import pathlib
import sys

import yaml

PROBES = ("startupProbe", "livenessProbe", "readinessProbe")


def documents_of(manifest):
    documents = list(yaml.safe_load_all(pathlib.Path(manifest).read_text()))
    (stateful,) = [one for one in documents if one["kind"] == "StatefulSet"]
    return documents, stateful


if sys.argv[1] == "--probes":
    (container,) = documents_of(sys.argv[2])[1]["spec"]["template"]["spec"]["containers"]
    for probe in PROBES:
        get = container[probe]["httpGet"]
        print(get.get("scheme", "HTTP").lower(), get["port"], get["path"])
    sys.exit()

manifest, image, prefix, grpc_port, http_port, secret = sys.argv[1:]
documents, stateful = documents_of(manifest)
pod = {"apiVersion": "v1", "kind": "Pod", **stateful["spec"]["template"]}
pod["metadata"]["name"] = prefix + stateful["metadata"]["name"]
spec = pod["spec"]
# There is no cluster: no account, and the ports are those of this machine.
del spec["serviceAccountName"]
(container,) = spec["containers"]
container["image"] = image
ports = {"grpc": int(grpc_port), "http": int(http_port)}
for port in container["ports"]:
    port.update(hostPort=ports[port["name"]], hostIP="127.0.0.1")
# Podman's probes do not trust the certificate: the script asks.
for probe in PROBES:
    del container[probe]

claims = [{"apiVersion": "v1", "kind": "PersistentVolumeClaim", **claim}
          for claim in stateful["spec"]["volumeClaimTemplates"]]
for claim in claims:
    name = claim["metadata"]["name"]
    claim["metadata"]["name"] = prefix + name
    spec["volumes"].append({"name": name, "persistentVolumeClaim": {"claimName": prefix + name}})
secret_name, folder = secret.split("=", 1)
for volume in spec["volumes"]:
    # Podman 4.3 mounts the files of a Secret without decoding them: they come from a folder.
    if "secret" in volume:
        mounted = volume.pop("secret")
        assert mounted["secretName"] == secret_name, mounted
        for path in pathlib.Path(folder).iterdir():
            os.chown(path, 0, spec["securityContext"]["fsGroup"])
            path.chmod(mounted.get("defaultMode", 0o644))
        volume["hostPath"] = {"path": folder, "type": "Directory"}
    if "configMap" in volume:
        volume["configMap"]["name"] = prefix + volume["configMap"]["name"]
    volume["name"] = prefix + volume["name"]
for mount in container["volumeMounts"]:
    mount["name"] = prefix + mount["name"]

maps = [one for one in documents if one["kind"] == "ConfigMap"]
for one in maps:
    one["metadata"]["name"] = prefix + one["metadata"]["name"]
yaml.safe_dump_all(maps + claims + [pod], sys.stdout)
