"""Calls about collections and their settings."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence

from . import _wire, errors, types
from ._calls import Calls, given
from ._channel import Call, request_id


def _set_member(field: str, name: str, value: Any, into: Any) -> None:
    if name not in into.DESCRIPTOR.fields_by_name:
        allowed = ", ".join(into.DESCRIPTOR.fields_by_name)
        raise errors.InvalidArgument(
            f"{field}.{name} is not known; allowed: {allowed}", field=f"{field}.{name}", allowed=allowed
        )
    setattr(into, name, value)


def _settings(index: Optional[Mapping[str, Any]], into: Any) -> None:
    for name, value in (index or {}).items():
        if name == "kind":
            into.kind = _wire.number_of("IndexKind", "INDEX_KIND_", value)
        elif name == "codes":
            into.codes = _wire.number_of("RowCodes", "ROW_CODES_", value)
        else:
            _set_member("index", name, value, into)


def _strict_mode(settings: Optional[Mapping[str, Any]], request: Any) -> None:
    for name, value in (settings or {}).items():
        _set_member("strict_mode", name, value, request.strict_mode)


def _payload_fields(fields: Optional[Mapping[str, str]], into: Any) -> None:
    for path, kind in (fields or {}).items():
        into.add(path=path, type=_wire.number_of("PayloadType", "PAYLOAD_TYPE_", kind))


class CollectionCalls(Calls):
    """Create, read, change and drop collections."""

    def create_collection(
        self,
        name: str,
        *,
        geometry: str = "cosine",
        curvature: Optional[float] = None,
        index: Optional[Mapping[str, Any]] = None,
        payload_indexes: Optional[Mapping[str, str]] = None,
        require_generation: bool = False,
        default_ttl: Optional[float] = None,
        foreign_vectors: Optional[str] = None,
        strict_mode: Optional[Mapping[str, Any]] = None,
        timeout: Optional[float] = None,
    ) -> types.Collection:
        """Makes a collection.

        Args:
            geometry: "cosine", "inner_product", "euclidean", or "lorentz" for models that Lightcone trained.
            curvature: K of the Lorentz geometry, above 0.
            index: settings such as ``{"kind": "hnsw", "hnsw_m": 32}``.
            payload_indexes: paths to types: "keyword", "integer", "float", "boolean", "time", "text" or "geo".
            require_generation: refuse upserts of vectors that do not name the generation of their model.
            default_ttl: seconds after which items are gone whose upsert says nothing; None: they stay.
            foreign_vectors: what becomes of vectors that do not look like those of their generation's model: "warn",
                "reject" or "ignore"; None: "warn".
            strict_mode: limits of the collection's calls such as ``{"enabled": True, "k_max": 100}``.
        """
        request = _wire.message("CreateRequest")(
            request_id=request_id(), name=name, geometry=_wire.number_of("Geometry", "GEOMETRY_", geometry)
        )
        default_ttl_ms = types.ttl_ms_of(default_ttl, 1)[0]
        given(request, curvature=curvature, require_generation=require_generation, default_ttl_ms=default_ttl_ms)
        if foreign_vectors is not None:
            request.foreign_vectors = _wire.number_of("ForeignVectors", "FOREIGN_VECTORS_", foreign_vectors)
        _settings(index, request.index)
        _strict_mode(strict_mode, request)
        _payload_fields(payload_indexes, request.payload_fields)
        return self._collection_call("Collections/Create", request, timeout)

    def collection(self, name: str, *, timeout: Optional[float] = None) -> types.Collection:
        """Reads a collection's state."""
        return self._collection_call("Collections/Get", _wire.message("CollectionsGetRequest")(name=name), timeout)

    def update_collection(
        self,
        name: str,
        *,
        require_generation: Optional[bool] = None,
        default_ttl: Optional[float] = None,
        foreign_vectors: Optional[str] = None,
        scale_generation: Optional[int] = None,
        strict_mode: Optional[Mapping[str, Any]] = None,
        timeout: Optional[float] = None,
    ) -> types.Collection:
        """Changes settings of a collection; None leaves one as it is.

        Args:
            require_generation, default_ttl, foreign_vectors: as `create_collection` takes them; a `default_ttl` of 0
                keeps items.
            scale_generation: the generation in whose distances the bounds of searches are given that name none;
                0: each hit's own.
            strict_mode: as `create_collection` takes it; limits that it does not name stay.
        """
        request = _wire.message("UpdateRequest")(request_id=request_id(), collection=name)
        default_ttl_ms = types.ttl_ms_of(default_ttl, 1)[0]
        given(request, require_generation=require_generation, default_ttl_ms=default_ttl_ms)
        given(request, scale_generation=scale_generation)
        _strict_mode(strict_mode, request)
        if foreign_vectors is not None:
            request.foreign_vectors = _wire.number_of("ForeignVectors", "FOREIGN_VECTORS_", foreign_vectors)
        return self._collection_call("Collections/Update", request, timeout)

    def rebuild(
        self, collection: str, index: Mapping[str, Any], *, wait: bool = False, timeout: Optional[float] = None
    ) -> types.Collection:
        """Changes index settings online; with `wait` it answers when the segments are built."""
        request = _wire.message("RebuildRequest")(request_id=request_id(), collection=collection, wait=wait)
        _settings(index, request.index)
        return self._collection_call("Collections/Rebuild", request, timeout)

    def index_payload(
        self,
        collection: str,
        add: Optional[Mapping[str, str]] = None,
        drop: Sequence[str] = (),
        *,
        wait: bool = False,
        timeout: Optional[float] = None,
    ) -> types.Collection:
        """Adds and drops payload indexes online; `add` maps paths to types."""
        request = _wire.message("IndexPayloadRequest")(
            request_id=request_id(), collection=collection, drop=list(drop), wait=wait
        )
        _payload_fields(add, request.add)
        return self._collection_call("Collections/IndexPayload", request, timeout)

    def _collection_call(self, method: str, request: Any, timeout: Optional[float]) -> Any:
        return self._do(Call(method, request, lambda r: types.collection(r.collection), False, timeout))

    def drop_collection(self, name: str, *, timeout: Optional[float] = None) -> None:
        """Removes a collection and everything in it."""
        request = _wire.message("DropRequest")(request_id=request_id(), name=name)
        return self._do(Call("Collections/Drop", request, lambda r: None, False, timeout))

    def set_alias(self, alias: str, collection: str, *, timeout: Optional[float] = None) -> None:
        """Points an alias at a collection, atomically; an empty `collection` removes it."""
        request = _wire.message("SetAliasRequest")(request_id=request_id(), alias=alias, collection=collection)
        return self._do(Call("Collections/SetAlias", request, lambda r: None, False, timeout))
