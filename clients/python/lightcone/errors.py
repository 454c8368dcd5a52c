"""Errors of calls: one class for each code, with the field, the value and what is allowed where a field is at fault."""

from __future__ import annotations

import sys
import warnings
from typing import Any, Dict, Optional, Sequence, Tuple, Type

import grpc

from . import _wire


class ForeignVectorsWarning(UserWarning):
    """The server doubts that vectors come from their generation's model. Given by ``warnings.warn``."""


class LightconeError(Exception):
    """A call failed.

    Attributes:
        code: canonical gRPC code, such as ``grpc.StatusCode.NOT_FOUND``.
        message: the server's text.
        field, value, allowed: the parts of a wrong argument; empty where no field is at fault.
        retry_after: seconds after which the server asks to try again; None where it does not say.
    """

    code = grpc.StatusCode.UNKNOWN

    def __init__(
        self,
        message: str,
        *,
        code: Optional[grpc.StatusCode] = None,
        field: str = "",
        value: str = "",
        allowed: str = "",
        retry_after: Optional[float] = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code
        self.field, self.value, self.allowed = field, value, allowed
        self.retry_after = retry_after


class InvalidArgument(LightconeError, ValueError):
    """An argument is wrong; `field`, `value` and `allowed` say which and why."""

    code = grpc.StatusCode.INVALID_ARGUMENT


class NotFound(LightconeError, KeyError):
    """The collection, generation, job or set does not exist."""

    code = grpc.StatusCode.NOT_FOUND

    def __str__(self) -> str:  # KeyError would show the text in quotes
        return self.message


class AlreadyExists(LightconeError):
    """What is to be made exists already."""

    code = grpc.StatusCode.ALREADY_EXISTS


class FailedPrecondition(LightconeError):
    """The call is refused in this state, such as an activation without a validation."""

    code = grpc.StatusCode.FAILED_PRECONDITION


class Aborted(LightconeError):
    """Somebody else was faster, such as another operator's activation."""

    code = grpc.StatusCode.ABORTED


class ResourceExhausted(LightconeError):
    """A limit is passed, or the server is overloaded; `retry_after` may say when to try again."""

    code = grpc.StatusCode.RESOURCE_EXHAUSTED


class Unavailable(LightconeError, ConnectionError):
    """No server at the address, or it is starting or draining."""

    code = grpc.StatusCode.UNAVAILABLE


class DeadlineExceeded(LightconeError, TimeoutError):
    """The call took longer than its timeout."""

    code = grpc.StatusCode.DEADLINE_EXCEEDED


class Unauthenticated(LightconeError, PermissionError):
    """The server wants a key, and this one is missing, wrong or expired."""

    code = grpc.StatusCode.UNAUTHENTICATED


class PermissionDenied(LightconeError, PermissionError):
    """The key's scope does not allow the call."""

    code = grpc.StatusCode.PERMISSION_DENIED


class DataLoss(LightconeError):
    """Stored bytes are damaged."""

    code = grpc.StatusCode.DATA_LOSS


_CLASSES: Dict[grpc.StatusCode, Type[LightconeError]] = {
    kind.code: kind
    for kind in (
        InvalidArgument,
        NotFound,
        AlreadyExists,
        FailedPrecondition,
        Aborted,
        ResourceExhausted,
        Unavailable,
        DeadlineExceeded,
        Unauthenticated,
        PermissionDenied,
        DataLoss,
    )
}
_CODES = {code.value[0]: code for code in grpc.StatusCode}
_DETAILS = "grpc-status-details-bin"


def make(code: grpc.StatusCode, message: str, **parts: Any) -> LightconeError:
    """The error of a code."""
    return _CLASSES.get(code, LightconeError)(message, code=code, **parts)


def of_rpc(error: Any) -> LightconeError:
    """The error of a failed call (grpc.RpcError, sync or aio)."""
    code = error.code()
    parts: Dict[str, Any] = {}
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS:
            parts = _parts(value)
    return make(code, error.details() or code.name, **parts)


def of_part(part: Any) -> LightconeError:
    """The error of one query or one batch (lightcone.v1.PartError)."""
    violation = part.violation
    code = _CODES.get(part.code, grpc.StatusCode.UNKNOWN)
    return make(code, part.message, field=violation.field, value=violation.value, allowed=violation.allowed)


def warned(texts: Sequence[str]) -> Tuple[str, ...]:
    """The server's warnings, each of which Python's own ``warnings`` has been told of, in the caller's line."""
    if not texts:
        return ()
    level, frame = 1, sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] == __package__:
        level, frame = level + 1, frame.f_back
    for text in texts:
        warnings.warn(text, ForeignVectorsWarning, stacklevel=level)
    return tuple(texts)


def _parts(details: bytes) -> Dict[str, Any]:
    status = _wire.message("RpcStatus")()
    try:
        status.ParseFromString(details)
    except Exception:  # Another proxy's details tell nothing; the code and the text remain.
        return {}
    parts: Dict[str, Any] = {}
    for detail in status.details:
        name = detail.type_url.rsplit("/", 1)[-1]
        if name == "lightcone.v1.FieldViolation":
            violation = _wire.message("FieldViolation").FromString(detail.value)
            parts.update(field=violation.field, value=violation.value, allowed=violation.allowed)
        elif name == "google.rpc.RetryInfo":
            delay = _wire.message("RetryInfo").FromString(detail.value).retry_delay
            parts["retry_after"] = delay.seconds + delay.nanos * 1e-9
    return parts
