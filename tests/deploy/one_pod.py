"""The StatefulSet of a manifest as `podman kube play` takes it: its pod, its claims, the ConfigMap, and files as a
Secret has them.

one_pod.py MANIFEST IMAGE PREFIX GRPC_PORT HTTP_PORT SECRET=FOLDER > pod.yml

All names begin with PREFIX: podman has one list of volumes for all.
"""

import pathlib
import sys

import yaml

manifest, image, prefix, grpc_port, http_port, secret = sys.argv[1:]
documents = list(yaml.safe_load_all(pathlib.Path(manifest).read_text()))
(stateful,) = [one for one in documents if one["kind"] == "StatefulSet"]
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
for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
    del container[probe]

claims = [{"apiVersion": "v1", "kind": "PersistentVolumeClaim", **claim}
          for claim in stateful["spec"]["volumeClaimTemplates"]]
for claim in claims:
    name = claim["metadata"]["name"]
    claim["metadata"]["name"] = prefix + name
    spec["volumes"].append({"name": name, "persistentVolumeClaim": {"claimName": prefix + name}})
for volume in spec["volumes"]:
    # Podman 4.3 mounts the files of a Secret without decoding them: they come as a ConfigMap.
    if "secret" in volume:
        volume["configMap"] = {"name": volume.pop("secret")["secretName"]}
    if "configMap" in volume:
        volume["configMap"]["name"] = prefix + volume["configMap"]["name"]
    volume["name"] = prefix + volume["name"]
for mount in container["volumeMounts"]:
    mount["name"] = prefix + mount["name"]

name, folder = secret.split("=", 1)
files = {path.name: path.read_text() for path in pathlib.Path(folder).iterdir()}
maps = [one for one in documents if one["kind"] == "ConfigMap"]
maps.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": files})
for one in maps:
    one["metadata"]["name"] = prefix + one["metadata"]["name"]
yaml.safe_dump_all(maps + claims + [pod], sys.stdout)
