#!/usr/bin/python3
"""A stock client that never saw our proto files: it learns the whole wire from server reflection.

usage: reflection_client.py SERVER_PROGRAM     starts the program on a temporary data folder
       reflection_client.py HOST:PORT          uses a server that runs already (an empty one)

Needs python3-grpcio and python3-protobuf. Exits with 0 when create, register, activate, upsert, search, get, delete
and scroll gave the answers they must.
"""

import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import urllib.request

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"


def varint(value):
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number, payload):
    """One length-delimited field of the protobuf wire format."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def fields(data):
    """(number, bytes) of every length-delimited field; other fields are skipped."""
    at = 0

    def read_varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = read_varint()
        if key & 7 == 2:
            size = read_varint()
            yield key >> 3, data[at:at + size]
            at += size
        elif key & 7 == 0:
            read_varint()
        else:
            raise ValueError("unexpected wire type %d" % (key & 7))


class ReflectedServer:
    """Knows services, methods and messages by reflection alone."""

    def __init__(self, address):
        self.channel = grpc.insecure_channel(address)
        self.pool = descriptor_pool.DescriptorPool()
        self.files = set()
        self.factory = message_factory.MessageFactory(self.pool)

    def ask(self, request):
        call = self.channel.stream_stream(REFLECTION, request_serializer=bytes, response_deserializer=bytes)
        return next(iter(call(iter([request]), timeout=30)))

    def services(self):
        answer = self.ask(field(7, b"*"))
        listed = [body for number, body in fields(answer) if number == 6][0]
        return sorted(name.decode() for _, service in fields(listed) for n, name in fields(service) if n == 1)

    def load(self, symbol):
        answer = self.ask(field(4, symbol.encode()))
        files = {}
        for number, body in fields(answer):
            if number == 4:
                for _, proto in fields(body):
                    parsed = descriptor_pb2.FileDescriptorProto.FromString(proto)
                    files[parsed.name] = parsed

        def add(name):
            if name in self.files:
                return
            self.files.add(name)
            for dependency in files[name].dependency:
                add(dependency)
            self.pool.Add(files[name])

        for name in files:
            add(name)

    def message(self, descriptor):
        if hasattr(message_factory, "GetMessageClass"):
            return message_factory.GetMessageClass(descriptor)
        return self.factory.GetPrototype(descriptor)

    def call(self, service, method, **values):
        descriptor = self.pool.FindServiceByName(service).methods_by_name[method]
        request = self.message(descriptor.input_type)(**values)
        answer = self.message(descriptor.output_type)
        path = "/%s/%s" % (service, method)
        kind = self.channel.unary_stream if method == "Scroll" else self.channel.unary_unary
        result = kind(path, request_serializer=lambda m: m.SerializeToString(), response_deserializer=answer.FromString)(
            request, timeout=60)
        return list(result) if method == "Scroll" else result


def f32(*values):
    return {"f32_le": struct.pack("<%df" % len(values), *values)}


def use(address):
    server = ReflectedServer(address)
    services = server.services()
    for name in ("Retrieval", "Collections", "Generations", "Backfill", "Training"):
        assert "lightcone.v1." + name in services, services
        server.load("lightcone.v1." + name)
    collections, generations, retrieval = ("lightcone.v1." + n for n in ("Collections", "Generations", "Retrieval"))

    created = server.call(collections, "Create", request_id="c1", name="gallery", geometry="GEOMETRY_LORENTZ")
    assert created.collection.name == "gallery" and created.collection.curvature == 1.0, created
    manifest = '{"dimension": 3, "curvature": 1.0, "clip_radius": 1.5}'
    registered = server.call(generations, "Register", request_id="r1", collection="gallery", manifest_json=manifest)
    assert registered.generation.generation == 1 and registered.generation.dimension == 3, registered
    server.call(generations, "Activate", request_id="a1", collection="gallery", generation=1)

    items = [{"id": {"number": n}, "vector": f32(0.1 * n, 0, 0), "payload_json": '{"n": %d}' % n} for n in range(1, 8)]
    written = server.call(retrieval, "Upsert", collection="gallery", items=items)
    assert written.items == 7 and written.generation == 1, written
    found = server.call(retrieval, "Search", collection="gallery", queries=[{"vector": f32(0.31, 0, 0)}], k=2,
                        wait_for_sequence=written.sequence, with_payload=True)
    assert [hit.id.number for hit in found.results[0].hits] == [3, 4], found
    assert found.serving_generation == 1 and '3' in found.results[0].hits[0].payload_json, found
    got = server.call(retrieval, "Get", collection="gallery", ids=[{"number": 3}, {"number": 99}], with_vector=True)
    assert len(got.items) == 1 and got.missing[0].number == 99, got
    assert got.items[0].vector.f32_le == items[2]["vector"]["f32_le"], got
    deleted = server.call(retrieval, "Delete", collection="gallery", ids=[{"number": 3}])
    assert deleted.deleted == 1, deleted
    pages = server.call(retrieval, "Scroll", collection="gallery", page_size=4)
    assert sorted(item.id.number for page in pages for item in page.items) == [1, 2, 4, 5, 6, 7], pages
    try:
        server.call(retrieval, "Search", collection="gallery", queries=[{"vector": f32(1, 0, 0)}], k=0)
        raise AssertionError("k of 0 was taken")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT and "'k' is 0" in error.details(), error
    server.channel.close()


def main(target):
    if not os.path.exists(target):
        return use(target)
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen([target, os.path.join(folder, "data")], stdout=subprocess.PIPE, text=True)
        try:
            ready = re.fullmatch(r"lightcone ready grpc=(\S+) http=(\S+)\n", server.stdout.readline())
            assert ready, "no ready line"
            use(ready.group(1))
            with urllib.request.urlopen("http://%s/readyz" % ready.group(2), timeout=30) as answer:
                assert answer.status == 200
            server.send_signal(signal.SIGTERM)
            assert server.wait(timeout=60) == 0, server.returncode
        finally:
            if server.poll() is None:
                server.kill()
                server.wait()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
    print("reflection client: everything as it must be")
