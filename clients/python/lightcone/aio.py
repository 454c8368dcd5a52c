"""The client for asyncio: every method of `lightcone.Client` that answers once is a coroutine here.

    async with lightcone.aio.AsyncClient("127.0.0.1:7700") as client:
        answer = await client.search("docs", query, k=5)
        async for item in client.scroll("docs"):
            ...
"""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import Any, AsyncIterator, Callable, Dict, List, Optional, Union

import grpc
import grpc.aio

from . import _channel, _wire, errors, filters, types
from ._channel import Call, Tls
from ._item_calls import put_order
from ._operations import Operations
from .client import ended
from .filters import Filter


class AsyncClient(Operations):
    """As `lightcone.Client`; belongs to the event loop that made it."""

    def __init__(
        self,
        address: str = "127.0.0.1:7700",
        *,
        api_key: Optional[str] = None,
        tls: Union[bool, Tls, None] = None,
        timeout: float = 30.0,
        retries: int = 4,
        retry_writes: bool = False,
    ) -> None:
        self._options = _channel.options(address, api_key, tls, timeout, retries, retry_writes)
        self._channel = self._options.make(grpc.aio)
        self._methods: Dict[str, Any] = {}

    async def close(self) -> None:
        """Ends the connection and every call on it."""
        await self._channel.close()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *unused: Any) -> None:
        await self.close()

    def _method(self, name: str, kind: str) -> Any:
        method = self._methods.get(name)
        if method is None:
            serialize, deserialize = _channel.codec(name)
            method = getattr(self._channel, kind)(
                _channel.path(name), request_serializer=serialize, response_deserializer=deserialize
            )
            self._methods[name] = method
        return method

    async def _do(self, call: Call) -> Any:  # type: ignore[override]
        options = self._options
        deadline = time.monotonic() + (call.timeout or options.timeout)
        method = self._method(call.method, "unary_unary")
        for attempt in itertools.count():
            try:
                left = max(0.001, deadline - time.monotonic())
                return call.read(await method(call.request, timeout=left, metadata=options.metadata()))
            except grpc.RpcError as error:
                if not options.again(error, attempt, call.writes):
                    raise errors.of_rpc(error) from None
            pause = options.pause(attempt)
            if time.monotonic() + pause >= deadline:
                raise errors.DeadlineExceeded(f"no server answered at {options.address} in time")
            await asyncio.sleep(pause)

    async def collections(
        self, *, page_size: int = 0, timeout: Optional[float] = None
    ) -> AsyncIterator[types.Collection]:
        """All collections, page by page."""
        token = ""
        while True:
            request = _wire.message("CollectionsListRequest")(page_size=page_size, token=token)
            response = await self._do(Call("Collections/List", request, lambda r: r, False, timeout))
            for info in response.collections:
                yield types.collection(info)
            token = response.token
            if not token:
                return

    async def generations(self, collection: str, *, timeout: Optional[float] = None) -> List[types.Generation]:
        """All generations of a collection, ascending; `timeout` is of each page."""
        generations: List[types.Generation] = []
        token = ""
        while True:
            request = _wire.message("GenerationsListRequest")(collection=collection, token=token)
            response = await self._do(Call("Generations/List", request, lambda r: r, False, timeout))
            generations += [types.generation(info) for info in response.generations]
            token = response.token
            if not token:
                return generations

    async def scroll(
        self,
        collection: str,
        filter: Filter = None,
        *,
        with_vector: bool = False,
        page_size: int = 0,
        limit: int = 0,
        order_by: str = "",
        descending: bool = False,
        start_from: Any = None,
    ) -> AsyncIterator[types.StoredItem]:
        """Items in the order of their ids. A broken connection is taken up where it broke."""
        request = _wire.message("ScrollRequest")(
            collection=collection,
            filter=filters.make(filter),
            with_vector=with_vector,
            page_size=page_size,
            limit=limit,
        )
        put_order(request, order_by, descending, start_from)
        attempt, seen = 0, 0
        while True:
            try:
                async for page in self._method("Retrieval/Scroll", "unary_stream")(
                    request, metadata=self._options.metadata()
                ):
                    attempt = 0
                    for item in page.items:
                        seen += 1
                        yield types.stored_item(item)
                    request.token = page.token
                    if limit:
                        request.limit = limit - seen
                        if seen >= limit:
                            return
                return
            except grpc.RpcError as error:
                if not self._options.again(error, attempt, False):
                    raise errors.of_rpc(error) from None
                await asyncio.sleep(self._options.pause(attempt))
                attempt += 1

    async def wait(
        self, job: str, *, see: Optional[Callable[[types.Job], None]] = None, timeout: Optional[float] = None
    ) -> types.Job:
        """Waits until a job has ended; raises its error where it failed. `timeout` is in seconds; None: no limit."""
        end = time.monotonic() + timeout if timeout is not None else None
        attempt = 0
        while True:
            left = None if end is None else max(0.001, end - time.monotonic())
            try:
                async for answer in self._method("Jobs/Watch", "unary_stream")(
                    _wire.message("JobsWatchRequest")(id=job), metadata=self._options.metadata(), timeout=left
                ):
                    attempt = 0
                    state = types.job(answer.job)
                    if see is not None:
                        see(state)
                    if state.ended:
                        return ended(state)
            except grpc.RpcError as error:
                if not self._options.again(error, attempt, False):
                    raise errors.of_rpc(error) from None
            await asyncio.sleep(self._options.pause(attempt))
            attempt += 1
