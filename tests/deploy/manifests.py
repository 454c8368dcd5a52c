"""Checks what is deployed by the programs that read it: settings by `lightcone`, the unit by systemd, YAML by a parser.

manifests.py LIGHTCONE SOURCE
"""

import http.client
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

import yaml

from kubernetes_objects import Wrong, check, check_objects, read, server_settings

LIGHTCONE, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
DEPLOY = SOURCE / "deploy"
EXPOSURE_MAX = 2.0


def seconds(text, key):
    found = re.search(rf"^{key} *= *([0-9.]+)", text, re.M)
    check(found, f"no {key} in the settings")
    return float(found.group(1))


def unit():
    path = DEPLOY / "debian/lightcone.service"
    text = path.read_text()
    stop = int(re.search(r"^TimeoutStopSec=(\d+)$", text, re.M).group(1))
    drain = seconds(server_settings(LIGHTCONE, (DEPLOY / "debian/lightcone.toml").read_text()), "drain_seconds")
    check(stop > drain, f"lightcone.service: TimeoutStopSec is {stop}; allowed: above drain_seconds, {drain}")
    run = subprocess.run(["systemd-analyze", "security", "--offline=yes", path], capture_output=True, text=True)
    found = re.search(r"exposure level for lightcone.service: ([0-9.]+)", run.stdout)
    check(found, f"systemd-analyze: {run.stdout}{run.stderr}")
    check(float(found.group(1)) <= EXPOSURE_MAX, f"exposure {found.group(1)}; allowed: at most {EXPOSURE_MAX}")


def kubernetes():
    objects = check_objects(read(sorted((DEPLOY / "kubernetes").glob("*.yml"))))
    server_settings(LIGHTCONE, objects.settings())
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen([LIGHTCONE, "serve", "--data", f"{folder}/data", "--listen", "127.0.0.1:0",
                                   "--http-listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
        try:
            ready = re.search(r" http=(\S+)", server.stdout.readline())
            check(ready, "the server did not start")
            for path in sorted(objects.paths()):
                connection = http.client.HTTPConnection(ready.group(1), timeout=60)
                connection.request("GET", path)
                status = connection.getresponse().status
                check(status == 200, f"the server answers {path} with {status}; allowed: 200")
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait()


def chart():
    """What can be seen without Helm's engine, which `make manifests` has: names of values and of releases."""
    folder = DEPLOY / "helm/lightcone"
    about = yaml.safe_load((folder / "Chart.yaml").read_text())
    check(about["apiVersion"] == "v2" and about["name"] == "lightcone", f"Chart.yaml: {about}")
    version = re.search(r"project\(lightcone VERSION (\S+)", (SOURCE / "CMakeLists.txt").read_text()).group(1)
    check(about["appVersion"] == version, f"Chart.yaml: appVersion is {about['appVersion']}; allowed: {version}")
    values = yaml.safe_load((folder / "values.yaml").read_text())
    used = set()
    for template in sorted((folder / "templates").iterdir()):
        text = template.read_text()
        check(text.count("{{") == text.count("}}"), f"{template.name}: braces are not paired")
        for name in re.findall(r"\.Values\.([A-Za-z.]+)", text):
            value = values
            for part in name.split("."):
                check(isinstance(value, dict) and part in value, f"{template.name}: values.yaml has no {name}")
                value = value[part]
            used.add(name.split(".")[0])
    check(used == values.keys(), f"values.yaml has {sorted(values)}, and the templates use {sorted(used)}")


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


try:
    unit()
    kubernetes()
    chart()
    compose()
except Wrong as wrong:
    sys.exit(f"manifests.py: {wrong}")
