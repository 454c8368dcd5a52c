"""The wheel and the source package build offline, and a fresh virtual environment searches with the wheel."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import venv

PROGRAM = """
import lightcone, lightcone.testing
with lightcone.testing.server() as client:
    client.create_collection("docs")
    client.activate("docs", client.register("docs", dimension=2).generation)
    client.upsert("docs", ["east", "north"], [[1, 0], [0, 1]])
    print(lightcone.__file__, client.search("docs", [0.9, 0.1], k=1).ids)
"""


class Wheel(unittest.TestCase):
    def test_a_wheel_installs_into_a_fresh_environment_and_searches(self):
        source = pathlib.Path(os.environ["LIGHTCONE_SOURCE"])
        with tempfile.TemporaryDirectory() as scratch:
            root = pathlib.Path(scratch)
            shutil.copytree(source / "clients/python", root / "clients/python")
            shutil.copytree(source / "proto", root / "proto")
            built = root / "built"
            package = root / "clients/python"
            setup = [sys.executable, "setup.py", "-q"]
            subprocess.run([*setup, "sdist", "-d", str(built)], cwd=package, check=True, stderr=subprocess.DEVNULL)
            # The wheel is made of the source package, which has to bring all that it needs.
            archive = next(built.glob("*.tar.gz"))
            shutil.unpack_archive(archive, root / "unpacked")
            unpacked = next((root / "unpacked").iterdir())
            subprocess.run(
                [*setup, "bdist_wheel", "-d", str(built)], cwd=unpacked, check=True, stderr=subprocess.DEVNULL
            )
            wheel = next(built.glob("*.whl"))
            venv.create(root / "venv", with_pip=True, system_site_packages=True)
            python = root / "venv/bin/python3"
            environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
            subprocess.run(
                [python, "-m", "pip", "-q", "install", "--no-index", "--no-deps", str(wheel)],
                check=True,
                env=environment,
                stderr=subprocess.DEVNULL,
            )
            ran = subprocess.run(
                [python, "-c", PROGRAM], check=True, env=environment, cwd=root, capture_output=True, text=True
            )
            self.assertIn(str(root / "venv"), ran.stdout)
            self.assertIn("['east']", ran.stdout)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
