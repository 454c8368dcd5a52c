"""Checks what is deployed by the programs that read it: settings by `lightcone`, the unit by systemd, YAML by a parser.

manifests.py LIGHTCONE SOURCE
"""

import pathlib
import re
import subprocess
import sys
import tempfile

import yaml

LIGHTCONE, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
DEPLOY = SOURCE / "deploy"
EXPOSURE_MAX = 2.0


def check(holds, what):
    if not holds:
        sys.exit(f"manifests.py: {what}")


def settings(text, name):
    """The effective settings, as the server prints them; fails where it knows one of them not."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "lightcone.toml"
        path.write_text(text)
        run = subprocess.run([LIGHTCONE, "serve", "--print-config", "--config", path], capture_output=True, text=True)
    check(run.returncode == 0, f"{name}: the server refuses its settings: {run.stderr}")
    return run.stdout


def seconds(text, key):
    found = re.search(rf"^{key} *= *([0-9.]+)", text, re.M)
    check(found, f"no {key} in the settings")
    return float(found.group(1))


def unit():
    path = DEPLOY / "debian/lightcone.service"
    text = path.read_text()
    stop = int(re.search(r"^TimeoutStopSec=(\d+)$", text, re.M).group(1))
    drain = seconds(settings((DEPLOY / "debian/lightcone.toml").read_text(), "lightcone.toml"), "drain_seconds")
    check(stop > drain, f"lightcone.service: TimeoutStopSec is {stop}; allowed: above drain_seconds, {drain}")
    run = subprocess.run(["systemd-analyze", "security", "--offline=yes", path], capture_output=True, text=True)
    found = re.search(r"exposure level for lightcone.service: ([0-9.]+)", run.stdout)
    check(found, f"systemd-analyze: {run.stdout}{run.stderr}")
    check(float(found.group(1)) <= EXPOSURE_MAX, f"exposure {found.group(1)}; allowed: at most {EXPOSURE_MAX}")


def kubernetes():
    parts = list(yaml.safe_load_all((DEPLOY / "kubernetes/lightcone.yml").read_text()))
    by_kind = {(part["kind"], part["metadata"]["name"]): part for part in parts}
    server = by_kind["StatefulSet", "lightcone"]["spec"]["template"]["spec"]
    text = settings(by_kind["ConfigMap", "lightcone"]["data"]["lightcone.toml"], "ConfigMap")
    check(server["terminationGracePeriodSeconds"] > seconds(text, "drain_seconds"), "the grace period is too short")
    (container,) = server["containers"]
    check(server["securityContext"]["runAsNonRoot"], "the container may run as root")
    check(container["securityContext"]["readOnlyRootFilesystem"], "the root file system can be written")
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        check(container[probe]["httpGet"]["port"] in ports, f"{probe}: port not known")
    for (kind, name), part in by_kind.items():
        if kind == "Service":
            for port in part["spec"]["ports"]:
                check(ports.get(port["targetPort"]) == port["port"], f"service {name}: port {port}")
    mounts = {mount["name"] for mount in container["volumeMounts"]}
    volumes = {volume["name"] for volume in server["volumes"]} | {"data"}
    check(mounts == volumes, f"volumes {volumes}, mounts {mounts}")


def compose():
    services = yaml.safe_load((DEPLOY / "compose/compose.yml").read_text())["services"]
    command = services["lightcone"]["command"]
    run = subprocess.run([LIGHTCONE, *command[1:], "--print-config"], capture_output=True, text=True)
    check(run.returncode == 0, f"compose.yml: the server refuses its command line: {run.stderr}")
    for name, service in services.items():
        for port in service.get("ports", []):
            check(port.startswith("127.0.0.1:"), f"compose.yml: {name} publishes {port} beyond loopback")
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("."):
                check((DEPLOY / "compose" / source).exists(), f"compose.yml: {source} does not exist")
    for source in (DEPLOY / "compose").glob("*.yml"):
        yaml.safe_load(source.read_text())


unit()
kubernetes()
compose()
