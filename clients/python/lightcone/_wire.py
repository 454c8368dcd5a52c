"""Messages of the wire, made at run time from the descriptors that the package carries.

No generated code is shipped: the same wheel therefore works with every protobuf from 3.20 on, Debian's included.
``message("SearchRequest")`` is a message class, ``ENUMS["Durability"]`` maps names to numbers.
"""

from __future__ import annotations

import importlib.resources
import re
from typing import Any, Dict, Iterable

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "lightcone.v1."
_FILE = "wire.binpb"


def _descriptors() -> descriptor_pb2.FileDescriptorSet:
    files = descriptor_pb2.FileDescriptorSet()
    files.ParseFromString(importlib.resources.files(__package__).joinpath(_FILE).read_bytes())
    # google.rpc.Status carries the parts of an error; its own package is one dependency more.
    status = files.file.add(name="lightcone/rpc_status.proto", package="lightcone.v1", syntax="proto3")
    status.dependency.extend(["google/protobuf/any.proto", "google/protobuf/duration.proto"])
    message = status.message_type.add(name="RpcStatus")
    message.field.add(name="code", number=1, label=1, type=5)
    message.field.add(name="message", number=2, label=1, type=9)
    message.field.add(name="details", number=3, label=3, type=11, type_name=".google.protobuf.Any")
    retry = status.message_type.add(name="RetryInfo")
    retry.field.add(name="retry_delay", number=1, label=1, type=11, type_name=".google.protobuf.Duration")
    return files


class _Pool:
    """All message classes and enums, and the kinds of all methods. Threads: read-only once made."""

    def __init__(self) -> None:
        files = _descriptors()
        known = {file.name for file in files.file}
        for name in ("google/protobuf/any.proto", "google/protobuf/duration.proto"):
            if name not in known:
                proto = descriptor_pb2.FileDescriptorProto()
                descriptor_pool.Default().FindFileByName(name).CopyToProto(proto)
                files.file.insert(0, proto)
        self._pool = descriptor_pool.DescriptorPool()
        for file in files.file:
            self._pool.AddSerializedFile(file.SerializeToString())
        self._classes: Dict[str, Any] = {}
        self.enums: Dict[str, Dict[str, int]] = {}
        self.methods: Dict[str, Any] = {}  # "Retrieval/Search" -> MethodDescriptor
        for file in files.file:
            descriptor = self._pool.FindFileByName(file.name)
            if descriptor.package != _PACKAGE[:-1]:
                continue
            for enum in descriptor.enum_types_by_name.values():
                self.enums[enum.name] = {value.name: value.number for value in enum.values}
            for service in descriptor.services_by_name.values():
                for method in service.methods:
                    self.methods[f"{service.name}/{method.name}"] = method

    def message(self, name: str) -> Any:
        made = self._classes.get(name)
        if made is None:
            made = self._classes[name] = self._class_of(self._pool.FindMessageTypeByName(_PACKAGE + name))
        return made

    def class_of(self, descriptor: Any) -> Any:
        return self.message(descriptor.full_name[len(_PACKAGE) :])

    def _class_of(self, descriptor: Any) -> Any:
        if hasattr(message_factory, "GetMessageClass"):  # protobuf 4.22 and newer
            return message_factory.GetMessageClass(descriptor)
        if not hasattr(self, "_factory"):
            self._factory = message_factory.MessageFactory(self._pool)
        return self._factory.GetPrototype(descriptor)


POOL = _Pool()
message = POOL.message


def number_of(enum: str, prefix: str, value: str, allowed: Iterable[str] = ()) -> int:
    """Number of an enum's value given by its short name, such as "cosine". ValueError names what is allowed."""
    numbers = POOL.enums[enum]
    number = numbers.get(prefix + value.upper()) if isinstance(value, str) else None
    if number is None:
        names = list(allowed) or [n[len(prefix) :].lower() for n in numbers if not n.endswith("UNSPECIFIED")]
        field = re.sub(r"(?<!^)(?=[A-Z])", "_", enum).lower()
        raise ValueError(f"{field}: {value!r} is not known; allowed: {', '.join(names)}")
    return number


def name_of(enum: str, prefix: str, number: int) -> str:
    """Short name of an enum's value, such as "active"; the number as text where a newer server sent an unknown one."""
    for name, value in POOL.enums[enum].items():
        if value == number:
            return name[len(prefix) :].lower()
    return str(number)
