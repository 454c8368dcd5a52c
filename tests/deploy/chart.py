"""Renders the Helm chart with several values, checks the objects, and compares them with those of deploy/kubernetes.

chart.py RENDER LIGHTCONE SOURCE OUT

RENDER is the program of render_chart.go, LIGHTCONE the server. OUT gets a file with a JSON list of objects for each
way to deploy: the manifests, and the chart with each set of values.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import tomllib

import yaml

from kubernetes_objects import Wrong, check, check_objects, read, server_settings

RENDER, LIGHTCONE, SOURCE, OUT = sys.argv[1:3] + [pathlib.Path(one) for one in sys.argv[3:]]
CHART = SOURCE / "deploy/helm/lightcone"
INSTANCE = "app.kubernetes.io/instance"
TRUSTED = {"trustSecret": "lightcone-trust", "serviceMonitor": True}
# Every value of the chart is given once.
OPEN = {
    "insecure": True, "serviceMonitor": True, "drainSeconds": 45, "config": "[limits]\nk_max = 100\n",
    "storage": {"size": "2Ti", "className": "fast"},
    "image": {"repository": "registry.example/lightcone", "tag": "1.2.3", "pullPolicy": "Always"},
    "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "4Gi"}},
    "nodeSelector": {"disk": "nvme"}, "tolerations": [{"key": "vectors", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}}},
}


def render(values, release="lightcone"):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(values, file)
        file.flush()
        return subprocess.run([RENDER, CHART, release, file.name], capture_output=True, text=True)


def objects_of(values, release="lightcone"):
    run = render(values, release)
    check(run.returncode == 0, f"the chart with {values}: {run.stderr}")
    return [one for one in yaml.safe_load_all(run.stdout) if one is not None]


def without_instance(value):
    """The same object without what only a chart has: the label of its release, and the checksum of the settings."""
    if isinstance(value, dict):
        return {key: without_instance(one) for key, one in value.items() if key not in (INSTANCE, "annotations")}
    return [without_instance(one) for one in value] if isinstance(value, list) else value


def by_name(documents):
    objects = {(one["kind"], one["metadata"]["name"]): without_instance(one) for one in documents}
    for (kind, _), one in objects.items():
        if kind == "ConfigMap":
            settings = tomllib.loads(one["data"]["lightcone.toml"])
            one["data"] = {"insecure": False, **settings}
    return objects


def check_same(manifests, chart):
    ours, theirs = by_name(manifests), by_name(chart)
    check(ours.keys() == theirs.keys(), f"the manifests have {sorted(ours)}, the chart {sorted(theirs)}")
    for name, one in ours.items():
        check(one == theirs[name], f"{name} is {one} in the manifests, and {theirs[name]} in the chart")


def check_values():
    """Each value of the chart's own file is used: a template that takes it away changes what is made."""
    own = yaml.safe_load((CHART / "values.yaml").read_text())
    check(own.keys() == (TRUSTED | OPEN).keys(), f"values are {sorted(own)}; tried are {sorted(TRUSTED | OPEN)}")
    base = {"trustSecret": "other"}
    plain = render(base).stdout
    for name, value in (TRUSTED | OPEN).items():
        check(render(base | {name: value}).stdout != plain, f"the value {name} changes nothing")
    refused = render({})
    check(refused.returncode != 0 and "trustSecret" in refused.stderr, f"a chart without trustSecret: {refused.stderr}")


def main():
    manifests = read(sorted((SOURCE / "deploy/kubernetes").glob("*.yml")))
    ways = {"manifests": manifests, "chart": objects_of(TRUSTED), "chart-open": objects_of(OPEN, "second")}
    for name, documents in ways.items():
        try:
            server_settings(LIGHTCONE, check_objects(documents).settings())
        except Wrong as wrong:
            raise Wrong(f"{name}: {wrong}") from wrong
        (OUT / f"{name}.json").write_text(json.dumps(documents))
    check_same(manifests, ways["chart"])
    for one in ways["chart-open"]:
        check(one["metadata"]["labels"].get(INSTANCE) == "second", f"{one['kind']} lacks the label of its release")
    check_values()
    print(f"the chart renders, and makes the {len(manifests)} objects of deploy/kubernetes")


try:
    main()
except Wrong as wrong:
    sys.exit(f"chart.py: {wrong}")
