"""What the groups of calls share: arguments become a message, an answer becomes a value, and a client sends them."""

from __future__ import annotations

from typing import Any

from ._channel import Call


class Calls:
    """Errors are LightconeError; times are seconds."""

    def _do(self, call: Call) -> Any:
        raise NotImplementedError


def given(message: Any, **fields: Any) -> Any:
    """Sets the fields that are not None."""
    for name, value in fields.items():
        if value is not None:
            setattr(message, name, value)
    return message
