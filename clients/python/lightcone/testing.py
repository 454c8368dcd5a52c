"""A real server for tests:

    with lightcone.testing.server() as client:
        client.create_collection("docs")
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from typing import Iterator, Optional, Sequence

from .client import Client

_READY = re.compile(r"lightcone ready grpc=(\S+)")


@contextlib.contextmanager
def server(
    binary: Optional[str] = None,
    *,
    data: Optional[str] = None,
    listen: str = "127.0.0.1:0",
    options: Sequence[str] = (),
) -> Iterator[Client]:
    """Starts `lightcone serve` on a free port, gives a client of it, and stops it at the end.

    Args:
        binary: path of the program; default: the environment variable LIGHTCONE_BINARY, else `lightcone` on the PATH.
        data: data folder that is kept; default: a temporary one.
        listen: address of the server; default: a free port of this machine.
        options: more flags of `lightcone serve`.
    """
    program = binary or os.environ.get("LIGHTCONE_BINARY") or shutil.which("lightcone")
    if program is None:
        raise FileNotFoundError("no program 'lightcone'; name it by `binary`, LIGHTCONE_BINARY or the PATH")
    folder = data or tempfile.mkdtemp(prefix="lightcone-test-")
    arguments = [program, "serve", "--data", folder, "--listen", listen, "--http-listen", "127.0.0.1:0"]
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen([*arguments, *options], stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            ready = _READY.search(line)
            if ready is None:
                process.wait()
                log.seek(0)
                raise RuntimeError(f"the server did not start: {log.read().strip() or line.strip()}")
            with Client(ready.group(1)) as client:
                yield client
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            assert process.stdout is not None
            process.stdout.close()
            if data is None:
                shutil.rmtree(folder, ignore_errors=True)
