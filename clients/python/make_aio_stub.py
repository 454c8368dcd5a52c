#!/usr/bin/env python3
"""Prints lightcone/aio.pyi: the types of AsyncClient, whose coroutines have the signatures of Client's methods."""

import inspect

from lightcone import aio

HEAD = '''"""Types of lightcone.aio, written by make_aio_stub.py."""

from typing import Any, AsyncIterator, Callable, Dict, List, Mapping, Optional, Sequence, Union

from . import snapshots, types
from ._channel import Tls
from .filters import Filter
from .types import ItemId

class AsyncClient:
'''


def declared(name, function, coroutine):
    signature = inspect.signature(function)
    optional = [
        one if one.default is inspect.Parameter.empty else one.replace(default=Ellipsis)
        for one in signature.parameters.values()
    ]
    text = str(signature.replace(parameters=optional)).replace("'", "").replace("Ellipsis", "...")
    return f"    {'async ' if coroutine else ''}def {name}{text}: ...\n"


def stub():
    lines = [HEAD]
    methods = {}
    for kind in reversed(aio.AsyncClient.__mro__):
        methods.update(vars(kind) if kind is not object else {})
    for name, function in methods.items():
        public = not name.startswith("_") or name in ("__init__", "__aenter__", "__aexit__")
        if not public or not inspect.isfunction(function):
            continue
        coroutine = name != "__init__" and not inspect.isasyncgenfunction(function)
        lines.append(declared(name, function, coroutine))
    return "".join(lines)


if __name__ == "__main__":
    print(stub(), end="")
