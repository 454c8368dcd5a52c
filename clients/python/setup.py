"""Compiles the wire's descriptors into the package with protoc (Debian: protobuf-compiler); see pyproject.toml."""

import pathlib
import subprocess

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = pathlib.Path(__file__).resolve().parent
PROTO = HERE.parent.parent / "proto"


def compile_wire():
    if not PROTO.is_dir():  # A source package brings the file.
        return
    files = sorted(str(path) for path in PROTO.glob("lightcone/v1/*.proto"))
    out = HERE / "lightcone" / "wire.binpb"
    subprocess.run(
        ["protoc", f"-I{PROTO}", "--include_imports", f"--descriptor_set_out={out}", *files],
        check=True,
    )


def with_wire(command):
    class Command(command):
        def run(self):
            compile_wire()
            super().run()

    return Command


setup(cmdclass={"build_py": with_wire(build_py), "sdist": with_wire(sdist)})
