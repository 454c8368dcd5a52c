"""Options of a client, and what its sync and asyncio channels have in common."""

from __future__ import annotations

import os
import random
import uuid
from dataclasses import dataclass
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple, Union

import grpc

from . import _wire, errors

MESSAGE_BYTES_MAX = 1 << 30
_KEEPALIVE_MS = 20_000


@dataclass(frozen=True)
class Tls:
    """Certificates: files in PEM form. `ca` verifies the server (None: the system's); `cert` and `key` are the client's."""

    ca: Optional[str] = None
    cert: Optional[str] = None
    key: Optional[str] = None

    def credentials(self) -> grpc.ChannelCredentials:
        def read(path: Optional[str]) -> Optional[bytes]:
            if path is None:
                return None
            with open(path, "rb") as file:
                return file.read()

        if (self.cert is None) != (self.key is None):
            raise errors.InvalidArgument("tls: cert and key go together", field="tls", allowed="both or neither")
        return grpc.ssl_channel_credentials(read(self.ca), read(self.key), read(self.cert))


@dataclass(frozen=True)
class Options:
    """See Client."""

    address: str
    api_key: Optional[str]
    tls: Union[bool, Tls, None]
    timeout: float
    retries: int
    retry_writes: bool
    backoff_first: float = 0.05
    backoff_max: float = 2.0

    def __post_init__(self) -> None:
        if not self.timeout > 0:
            raise errors.InvalidArgument(
                f"timeout: {self.timeout} is not allowed; allowed: seconds above 0",
                field="timeout",
                value=str(self.timeout),
                allowed="seconds above 0",
            )
        if not 0 <= self.retries <= 100:
            raise errors.InvalidArgument(
                f"retries: {self.retries} is not allowed; allowed: 0 .. 100",
                field="retries",
                value=str(self.retries),
                allowed="0 .. 100",
            )

    def metadata(self) -> Optional[Sequence[Tuple[str, str]]]:
        return (("api-key", self.api_key),) if self.api_key else None

    def make(self, module: Any) -> Any:
        """A channel of `grpc` or `grpc.aio`."""
        arguments: List[Tuple[str, int]] = [
            ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
            ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
            ("grpc.enable_retries", 0),  # The loop below knows what is safe.
            ("grpc.initial_reconnect_backoff_ms", 50),
            ("grpc.min_reconnect_backoff_ms", 200),
            ("grpc.max_reconnect_backoff_ms", 1000),
            ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
            ("grpc.keepalive_timeout_ms", _KEEPALIVE_MS),
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.use_local_subchannel_pool", 1),
        ]
        if not self.tls:
            return module.insecure_channel(self.address, options=arguments)
        tls = self.tls if isinstance(self.tls, Tls) else Tls()
        return module.secure_channel(self.address, tls.credentials(), options=arguments)

    def again(self, error: Any, attempt: int, writes: bool) -> bool:
        """Whether a call whose try number `attempt` failed is tried again."""
        if error.code() is not grpc.StatusCode.UNAVAILABLE or attempt >= self.retries:
            return False
        return self.retry_writes or not writes

    def pause(self, attempt: int) -> float:
        """Seconds before try `attempt` + 1, jittered by half."""
        return min(self.backoff_max, self.backoff_first * 2**attempt) * (0.5 + random.random() / 2)


def options(
    address: str,
    api_key: Optional[str],
    tls: Union[bool, Tls, None],
    timeout: float,
    retries: int,
    retry_writes: bool,
) -> Options:
    return Options(address, api_key or os.environ.get("LIGHTCONE_API_KEY"), tls, timeout, retries, retry_writes)


class Call(NamedTuple):
    """A unary call: what is sent, how the answer is read, and whether a lost answer may be asked for again."""

    method: str  # such as "Retrieval/Search"
    request: Any
    read: Callable[[Any], Any]
    writes: bool = False
    timeout: Optional[float] = None


def path(method: str) -> str:
    return "/lightcone.v1." + method


def codec(method: str) -> Tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    """Serializer of requests and deserializer of responses."""
    descriptor = _wire.POOL.methods[method]
    answer = _wire.POOL.class_of(descriptor.output_type)
    return (lambda request: request.SerializeToString()), answer.FromString


def request_id() -> str:
    return uuid.uuid4().hex
