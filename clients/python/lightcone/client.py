"""The client. Threads: every method is safe concurrently; an iterator belongs to one thread."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, TextIO, Tuple, Union

import grpc

from . import _channel, _wire, errors, filters, types
from ._channel import Call, Tls
from ._item_calls import put_order, upsert_request, written
from ._operations import Operations
from .filters import Filter
from .types import ItemId

_BATCH_BYTES = 4 << 20  # of vectors in one batch of an upload, unless `batch` says otherwise
_BATCH_ITEMS_MAX = 2_000
_WINDOW = 8  # batches under way of an upload


class Client(Operations):
    """Calls a Lightcone server.

        client = lightcone.Client("127.0.0.1:7700")
        client.create_collection("docs")
        client.register("docs", dimension=384)
        client.activate("docs", 1)
        client.upsert("docs", ["a", "b"], vectors, [{"title": "A"}, {"title": "B"}])
        for hit in client.search("docs", query, k=5, filter='title != "B"'):
            print(hit.id, hit.score)

    Args:
        address: HOST:PORT, or unix:/path.
        api_key: key of a server that asks for one; default: the environment variable LIGHTCONE_API_KEY.
        tls: True (the system's certificates), a Tls with files, or None for plain connections.
        timeout: seconds of a call, tries included, unless the call names its own.
        retries: most tries after the first one, when the server is unavailable. Reads and operator calls are tried
            again; writes only with `retry_writes`, which is safe where one writer owns its ids.

    Errors are `LightconeError` and its classes, one a code.
    """

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
        self._channel = self._options.make(grpc)
        self._methods: Dict[str, Any] = {}

    def close(self) -> None:
        """Ends the connection and every call on it."""
        self._channel.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *unused: Any) -> None:
        self.close()

    def _method(self, name: str, kind: str) -> Any:
        method = self._methods.get(name)
        if method is None:
            serialize, deserialize = _channel.codec(name)
            method = getattr(self._channel, kind)(
                _channel.path(name), request_serializer=serialize, response_deserializer=deserialize
            )
            self._methods[name] = method
        return method

    def _do(self, call: Call) -> Any:
        options = self._options
        deadline = time.monotonic() + (call.timeout or options.timeout)
        method = self._method(call.method, "unary_unary")
        for attempt in itertools.count():
            try:
                left = max(0.001, deadline - time.monotonic())
                return call.read(method(call.request, timeout=left, metadata=options.metadata()))
            except grpc.RpcError as error:
                if not options.again(error, attempt, call.writes):
                    raise errors.of_rpc(error) from None
            pause = options.pause(attempt)
            if time.monotonic() + pause >= deadline:
                raise errors.DeadlineExceeded(f"no server answered at {options.address} in time")
            time.sleep(pause)

    def wait_until_serving(self, timeout: float = 60.0) -> None:
        """Waits until the server serves. DeadlineExceeded after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        try:
            grpc.channel_ready_future(self._channel).result(timeout=timeout)
        except grpc.FutureTimeoutError:
            raise errors.DeadlineExceeded(f"no server at {self._options.address} within {timeout} s") from None
        while True:
            try:
                next(iter(self.collections(page_size=1, timeout=max(0.001, deadline - time.monotonic()))), None)
                return
            except errors.Unavailable:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(0.05)

    def collections(self, *, page_size: int = 0, timeout: Optional[float] = None) -> Iterator[types.Collection]:
        """All collections, page by page."""
        token = ""
        while True:
            request = _wire.message("CollectionsListRequest")(page_size=page_size, token=token)
            response = self._do(Call("Collections/List", request, lambda r: r, False, timeout))
            yield from (types.collection(info) for info in response.collections)
            token = response.token
            if not token:
                return

    def generations(self, collection: str, *, timeout: Optional[float] = None) -> List[types.Generation]:
        """All generations of a collection, ascending; `timeout` is of each page."""
        generations: List[types.Generation] = []
        token = ""
        while True:
            request = _wire.message("GenerationsListRequest")(collection=collection, token=token)
            response = self._do(Call("Generations/List", request, lambda r: r, False, timeout))
            generations += [types.generation(info) for info in response.generations]
            token = response.token
            if not token:
                return generations

    def scroll(
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
        timeout: Optional[float] = None,
    ) -> Iterator[types.StoredItem]:
        """Items in the order of their ids. A broken connection is taken up where it broke.

        Args:
            limit: most items; 0: all.
            order_by: path of a payload field with an index, whose values order the items in place of their ids.
            start_from: value to begin at, itself included.
            timeout: seconds without a page after which it fails.
        """
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
                pages = self._method("Retrieval/Scroll", "unary_stream")(request, metadata=self._options.metadata())
                for page in pages:
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
                time.sleep(self._options.pause(attempt))
                attempt += 1

    def upload(
        self,
        collection: str,
        ids: Iterable[ItemId],
        vectors: Iterable[Any],
        payloads: Optional[Iterable[Any]] = None,
        *,
        generation: int = 0,
        durability: str = "durable",
        same_content: bool = False,
        ttl: Optional[float] = None,
        batch: int = 0,
        progress: Union[bool, Callable[[int], None]] = False,
        timeout: Optional[float] = None,
    ) -> int:
        """Writes any number of items over one stream, several batches under way; gives the number of items written.

        Args:
            ids, vectors, payloads: arrays or iterators of the same length; vectors have shape (dimension,).
            ttl: seconds after which the items are gone; 0: they stay. None: as the collection says.
            batch: items of a batch; 0: about 4 MB of vectors.
            progress: True shows a line on standard error; a function is called with the items written so far.
            timeout: seconds for the whole; None: no limit.

        Raises:
            The first batch's error. Batches before it are written.
        """
        report = _progress_line(sys.stderr) if progress is True else (progress or (lambda items: None))
        sizes: Dict[int, int] = {}
        window = _Window(_WINDOW)

        def requests() -> Iterator[Any]:
            for tag, (some_ids, some_vectors, some_payloads) in enumerate(_batches(ids, vectors, payloads, batch)):
                message = upsert_request(
                    collection,
                    some_ids,
                    some_vectors,
                    some_payloads,
                    None,
                    generation,
                    durability,
                    same_content,
                    False,
                    None,
                    ttl=ttl,
                )
                sizes[tag] = len(some_ids)
                if not window.enter():
                    return
                yield _wire.message("UpsertStreamRequest")(batch=message, tag=tag)

        source = _Guarded(requests())
        done = 0
        call = self._method("Retrieval/UpsertStream", "stream_stream")(
            source, metadata=self._options.metadata(), timeout=timeout
        )
        try:
            for response in call:
                if response.WhichOneof("outcome") == "error":
                    raise errors.of_part(response.error)
                window.leave()
                sizes.pop(response.tag)
                done += written(response.written).items
                report(done)
        except grpc.RpcError as error:
            raise source.error or errors.of_rpc(error) from None
        finally:
            window.close()
            call.cancel()
        if source.error is not None:
            raise source.error
        if sizes:
            raise errors.Unavailable(f"the server ended the stream with {len(sizes)} batches unanswered")
        if progress is True:
            print(file=sys.stderr)
        return done

    def wait(
        self,
        job: str,
        *,
        see: Optional[Callable[[types.Job], None]] = None,
        timeout: Optional[float] = None,
    ) -> types.Job:
        """Waits until a job has ended; raises its error where it failed.

        Args:
            see: called with the job after each change.
            timeout: seconds; None: no limit.
        """
        end = time.monotonic() + timeout if timeout is not None else None
        attempt = 0
        while True:
            left = None if end is None else max(0.001, end - time.monotonic())
            request = _wire.message("JobsWatchRequest")(id=job)
            try:
                for answer in self._method("Jobs/Watch", "unary_stream")(
                    request, metadata=self._options.metadata(), timeout=left
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
            time.sleep(self._options.pause(attempt))
            attempt += 1


def ended(job: types.Job) -> types.Job:
    """The job where it succeeded; else raises its error."""
    if job.error is not None:
        raise job.error
    if job.state == "cancelled":
        raise errors.Aborted(f"job {job.id} was cancelled")
    return job


class _Window:
    """Bounds the batches under way: the sender enters, the reader leaves."""

    def __init__(self, size: int) -> None:
        self._free = threading.Semaphore(size)
        self._closed = False

    def enter(self) -> bool:
        self._free.acquire()
        return not self._closed

    def leave(self) -> None:
        self._free.release()

    def close(self) -> None:
        self._closed = True
        self._free.release()


class _Guarded:
    """An iterator that ends where its source fails, and keeps the error: gRPC would only log it."""

    def __init__(self, source: Iterator[Any]) -> None:
        self._source = source
        self.error: Optional[BaseException] = None

    def __iter__(self) -> "_Guarded":
        return self

    def __next__(self) -> Any:
        try:
            return next(self._source)
        except StopIteration:
            raise
        except BaseException as error:
            self.error = error
            raise StopIteration from None


def _batches(
    ids: Iterable[ItemId], vectors: Iterable[Any], payloads: Optional[Iterable[Any]], batch: int
) -> Iterator[Tuple[List[ItemId], Sequence[Any], Optional[List[Any]]]]:
    each_id, each_vector = iter(ids), iter(vectors)
    each_payload = iter(payloads) if payloads is not None else None
    while True:
        first = list(itertools.islice(each_vector, 1))
        if not first:
            break
        size = batch or max(1, min(_BATCH_ITEMS_MAX, _BATCH_BYTES // max(1, 4 * len(first[0]))))
        some = first + list(itertools.islice(each_vector, size - 1))
        some_ids = list(itertools.islice(each_id, len(some)))
        some_payloads = list(itertools.islice(each_payload, len(some))) if each_payload is not None else None
        for name, part in (("ids", some_ids), ("payloads", some_payloads)):
            if part is not None and len(part) != len(some):
                raise errors.InvalidArgument(f"{name}: there are fewer {name} than vectors", field=name)
        yield some_ids, some, some_payloads
    for name, rest in (("ids", each_id), ("payloads", each_payload)):
        if rest is not None and next(rest, rest) is not rest:
            raise errors.InvalidArgument(f"{name}: there are more {name} than vectors", field=name)


def _progress_line(out: TextIO) -> Callable[[int], None]:
    begin = time.monotonic()

    def report(items: int) -> None:
        rate = items / max(1e-9, time.monotonic() - begin)
        print(f"\r{items:,} items, {rate:,.0f} a second", end="", file=out, flush=True)

    return report
