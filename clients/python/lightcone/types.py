"""What calls take and answer. All are plain values; vectors are float32 numpy arrays of shape (dimension,)."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import numpy as np

from . import _wire, errors

ItemId = Union[str, int]
"""Name of an item: a text of 1 to 512 bytes of UTF-8, or an integer of 0 .. 2^64 - 1. `1` and `"1"` are two items."""

Payload = Dict[str, Any]

Ttl = Union[None, float, Sequence[Optional[float]]]
"""Seconds after which items are gone: one number for all, or one for each; 0: they stay; None: as the collection says."""

TTL_SECONDS_MAX = 36_600 * 86_400.0


@dataclass(frozen=True)
class Image:
    """Raw input: bytes of a PNG, JPEG or WebP file, which the server embeds by a generation's encoder."""

    data: bytes


@dataclass(frozen=True)
class Tensor:
    """Raw input: a float32 array of shape (channels, height, width), normalised as the encoder's manifest says."""

    data: Any


@dataclass(frozen=True)
class Text:
    """Raw input: a text, which the server embeds by a generation's encoder that is an endpoint."""

    data: str


@dataclass(frozen=True)
class ItemQuery:
    """A stored item as the query; the answer leaves it out."""

    id: ItemId


@dataclass(frozen=True)
class Hit:
    """One found item. `score` orders hits, highest first, on one scale over all generations.

    Attributes:
        relevance: chance that the item is relevant, 0 to 1; None where no validation measured it.
        scaled_distance: the distance on the scale of the search's `scale_generation`; None without one.
    """

    id: ItemId
    score: float
    distance: float
    generation: int
    uncertainty: float
    payload: Payload
    vector: Optional[np.ndarray] = None
    relevance: Optional[float] = None
    scaled_distance: Optional[float] = None


@dataclass(frozen=True)
class HitGroup:
    """Hits that share a value of a payload field, best first."""

    value: Union[str, int, bool]
    hits: List[Hit]


@dataclass(frozen=True)
class ScaledBound:
    """Greatest distance of hits of a generation, `fused` if two vectors rank them, by a bound on another's scale."""

    generation: int
    fused: bool
    distance_max: float


@dataclass(frozen=True)
class Refresh:
    """What became of the candidates that a search with `refresh_top` was to embed anew. Each is counted once.

    Attributes:
        candidates: candidates that older generations had embedded.
        refreshed: candidates that were embedded and ranked by their new embedding.
        without_input: candidates without a stored input.
        late: candidates for which the deadline left no time.
        over_budget: candidates beyond the server's budget.
        failed: candidates that the encoder refused, or that it was not asked for after it failed.
        changed: candidates that others replaced, deleted or embedded meanwhile.
        error: first error of the encoder; empty: none.
    """

    candidates: int
    refreshed: int
    without_input: int
    late: int
    over_budget: int
    failed: int
    changed: int
    error: str


@dataclass(frozen=True)
class SearchAnswer:
    """Answer of one query: a sequence of hits, nearest first.

    Attributes:
        out_of_reach: items that the query could not be compared with, since no adapter leads to their generation.
        partial: the deadline ended the search; hits are right, but some rows were not seen.
        generation: the generation that served.
        groups: groups by their best hit, of a search with `group_by`, which has no hits else.
        refresh: what a search with `refresh_top` embedded anew, for all queries of the call.
        older_error: with `embed_older`, the first error of an older generation's encoder, whose vector is missing.
        warnings: reasons to doubt that the queries come from the generation's model, each also a
            `ForeignVectorsWarning`.
        scale_generation: the generation in whose distances the bounds were given; 0: each hit's own.
        bounds: what bounds on that scale became for hits of each generation.
        unscaled_generations: generations whose hits have no `scaled_distance`, since no validation measured them.
    """

    hits: List[Hit]
    generation: int
    out_of_reach: int
    partial: bool
    sequence: int
    canary: bool = False
    profile: Optional[Any] = None
    groups: Tuple[HitGroup, ...] = ()
    refresh: Optional[Refresh] = None
    older_error: str = ""
    warnings: Tuple[str, ...] = ()
    scale_generation: int = 0
    unscaled_generations: Tuple[int, ...] = ()
    bounds: Tuple[ScaledBound, ...] = ()

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __getitem__(self, place: int) -> Hit:
        return self.hits[place]

    @property
    def ids(self) -> List[ItemId]:
        """Ids of the hits, nearest first."""
        return [hit.id for hit in self.hits]


@dataclass(frozen=True)
class SearchAnswers:
    """Answers of n queries, in their order. `ids`, `scores` and `distances` are arrays of shape (n, k)."""

    answers: List[Union[SearchAnswer, errors.LightconeError]]
    k: int

    def __len__(self) -> int:
        return len(self.answers)

    def __iter__(self) -> Iterator[SearchAnswer]:
        return (self[i] for i in range(len(self.answers)))

    def __getitem__(self, place: int) -> SearchAnswer:
        answer = self.answers[place]
        if isinstance(answer, errors.LightconeError):
            raise answer  # the error of this query alone
        return answer

    @property
    def ids(self) -> np.ndarray:
        """Array of objects, shape (n, k); None where a query has fewer hits."""
        return self._table("id", object, None)

    @property
    def distances(self) -> np.ndarray:
        """float64, shape (n, k); NaN where a query has fewer hits."""
        return self._table("distance", np.float64, np.nan)

    @property
    def scores(self) -> np.ndarray:
        """float64, shape (n, k); NaN where a query has fewer hits."""
        return self._table("score", np.float64, np.nan)

    def _table(self, name: str, dtype: Any, missing: Any) -> np.ndarray:
        table = np.full((len(self.answers), self.k), missing, dtype=dtype)
        for row, answer in enumerate(self):
            for column, hit in enumerate(answer.hits):
                table[row, column] = getattr(hit, name)
        return table


@dataclass(frozen=True)
class StoredItem:
    """An item as it is stored. `sequence` is for `expected_sequence` of an upsert that must not undo a newer one."""

    id: ItemId
    payload: Payload
    generation: int
    generations: Tuple[int, ...]
    uncertainty: float
    sequence: int
    has_input: bool
    vector: Optional[np.ndarray] = None
    expires: Optional[datetime] = None


@dataclass(frozen=True)
class Written:
    """Acknowledgement of a write. A search with `wait_for_sequence=sequence` sees it."""

    sequence: int
    generation: int
    items: int
    outdated: Tuple[int, ...] = ()
    warnings: Tuple[str, ...] = ()


@dataclass(frozen=True)
class Deleted:
    """Acknowledgement of a deletion: `deleted` items existed, or passed the filter; `token` goes on behind them."""

    sequence: int
    deleted: int
    token: str = ""


@dataclass(frozen=True)
class Changed:
    """Acknowledgement of a change of payloads: `changed` items; `missing` ids name none; `token` goes on behind them."""

    sequence: int
    changed: int
    missing: Tuple[ItemId, ...] = ()
    token: str = ""


@dataclass(frozen=True)
class Facet:
    """Values of a payload field with their numbers of items, most first, and how many different ones there are."""

    values: List[Tuple[Union[str, int, float, bool], int]]
    distinct: int


@dataclass(frozen=True)
class Count:
    """Number of items, in all and by the generation of their newest embedding."""

    count: int
    generations: Dict[int, int]

    def __int__(self) -> int:
        return self.count


@dataclass(frozen=True)
class Collection:
    """A collection. `message` is the whole CollectionInfo of the wire."""

    name: str
    geometry: str
    active_generation: int
    items: int
    generations: Dict[int, int]
    aliases: Tuple[str, ...]
    created: Optional[datetime]
    message: Any = field(repr=False, compare=False, default=None)


@dataclass(frozen=True)
class Generation:
    """A generation of a collection's model. `message` is the whole GenerationInfo of the wire."""

    generation: int
    state: str
    dimension: int
    parent: int
    items: int
    reach: Tuple[int, ...]
    has_encoder: bool
    manifest: Dict[str, Any]
    message: Any = field(repr=False, compare=False, default=None)


@dataclass(frozen=True)
class Sampled:
    """An item whose embedding by the new generation would teach an adapter."""

    id: ItemId
    sequence: int
    generation: int
    has_input: bool


@dataclass(frozen=True)
class Job:
    """Background work of the server: a validation, a fit, a training, a retirement."""

    id: str
    kind: str
    collection: str
    generation: int
    state: str
    done: int
    total: int
    step: str
    result: Dict[str, Any]
    error: Optional[errors.LightconeError]

    @property
    def ended(self) -> bool:
        return self.state in ("succeeded", "failed", "cancelled")


@dataclass(frozen=True)
class Backfill:
    """Progress of a lazy backfill. `ahead`: the generation does not serve yet."""

    state: str
    generation: int
    items_done: int
    items_total: int
    items_leased: int
    items_per_second: float
    error: str
    ahead: bool = False


@dataclass(frozen=True)
class Probe:
    """A query whose right answers are known: `relevant` ids, or the items whose label field has `label`.

    `vectors` maps generations to the query's vector; `item` is the item that the query is a copy of.
    """

    vectors: Dict[int, Any] = field(default_factory=dict)
    relevant: Sequence[ItemId] = ()
    label: Optional[Any] = None
    item: Optional[ItemId] = None
    input: Optional[Union[Image, Tensor, Text]] = None


Query = Union[Sequence[float], np.ndarray, Image, Tensor, Text, ItemQuery]


def to_vector(values: Any, name: str = "vector") -> bytes:
    """float32 bytes, little endian, of a vector of shape (dimension,). InvalidArgument names what is wrong."""
    try:
        array = np.asarray(values, dtype="<f4")
    except (TypeError, ValueError) as error:
        raise errors.InvalidArgument(
            f"{name}: {error}", field=name, value=type(values).__name__, allowed="numbers of shape (dimension,)"
        ) from None
    if array.ndim != 1 or array.size == 0:
        raise errors.InvalidArgument(
            f"{name}: its shape is {array.shape}; allowed: (dimension,)",
            field=name,
            value=str(array.shape),
            allowed="(dimension,)",
        )
    return array.tobytes()


def put_id(value: ItemId, into: Any, name: str = "id") -> None:
    """Writes an id into an ItemId of the wire."""
    if isinstance(value, str):
        into.name = value
    elif isinstance(value, (int, np.integer)) and not isinstance(value, bool) and 0 <= int(value) < 2**64:
        into.number = int(value)
    else:
        raise errors.InvalidArgument(
            f"{name}: {value!r} is no id; allowed: a text, or an integer of 0 .. 2^64 - 1",
            field=name,
            value=repr(value),
            allowed="a text, or an integer of 0 .. 2^64 - 1",
        )


def id_of(message: Any) -> ItemId:
    return message.name if message.WhichOneof("kind") == "name" else message.number


def put_input(value: Union[Image, Tensor, Text], into: Any) -> None:
    if isinstance(value, Text):
        try:
            into.text = value.data
        except (TypeError, ValueError):
            raise errors.InvalidArgument(
                "text: it is no text of valid characters", field="text", value=type(value.data).__name__, allowed="str"
            ) from None
        return
    if isinstance(value, Image):
        into.image = value.data
        return
    array = np.asarray(value.data, dtype="<f4")
    into.tensor.shape.extend(array.shape)
    into.tensor.f32_le = array.tobytes()


def vector_of(message: Any) -> Optional[np.ndarray]:
    kind = message.WhichOneof("encoding")
    if kind is None:
        return None
    if kind == "floats":
        return np.array(message.floats.values, dtype=np.float32)
    if kind == "f16_le":
        return np.frombuffer(message.f16_le, dtype="<f2").astype(np.float32)
    return np.frombuffer(message.f32_le, dtype="<f4")


def payload_of(text: str) -> Payload:
    return json.loads(text) if text else {}


def payload_text(payload: Any, name: str = "payload") -> str:
    """JSON text of a payload: a dict, or a text that is JSON already. InvalidArgument for NaN and odd types."""
    if payload is None:
        return ""
    if isinstance(payload, str):
        return payload
    try:
        return json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise errors.InvalidArgument(
            f"{name}: {error}", field=name, value=type(payload).__name__, allowed="a JSON object"
        ) from None


def stored_item(message: Any) -> StoredItem:
    return StoredItem(
        id=id_of(message.id),
        payload=payload_of(message.payload_json),
        generation=message.generation,
        generations=tuple(message.generations),
        uncertainty=message.uncertainty,
        sequence=message.sequence,
        has_input=message.has_input,
        vector=vector_of(message.vector),
        expires=message.expires.ToDatetime() if message.HasField("expires") else None,
    )


def ttl_ms_of(ttl: Ttl, n: int) -> List[Optional[int]]:
    """Milliseconds of `n` items, of seconds for all of them or for each."""
    each = [ttl] * n if ttl is None or isinstance(ttl, (int, float)) else list(ttl)
    if len(each) != n:
        raise errors.InvalidArgument(
            f"ttl: there are {len(each)} of {n} ids; allowed: {n}", field="ttl", value=str(len(each)), allowed=str(n)
        )
    for i, seconds in enumerate(each):
        if seconds is not None and not 0 <= seconds <= TTL_SECONDS_MAX:
            raise errors.InvalidArgument(
                f"ttl[{i}]: {seconds}; allowed: 0 (the item stays) .. {TTL_SECONDS_MAX:.0f} seconds",
                field=f"ttl[{i}]",
                value=str(seconds),
                allowed=f"0 .. {TTL_SECONDS_MAX:.0f}",
            )
    return [None if seconds is None else math.ceil(seconds * 1000) for seconds in each]


def hits_of(hits: Any) -> List[Hit]:
    return [
        Hit(
            id_of(hit.id),
            hit.score,
            hit.distance,
            hit.generation,
            hit.uncertainty,
            payload_of(hit.payload_json),
            vector_of(hit.vector),
            hit.relevance if hit.HasField("relevance") else None,
            hit.scaled_distance if hit.HasField("scaled_distance") else None,
        )
        for hit in hits
    ]


def value_of(value: Any) -> Any:
    """The text, number or truth value of a FilterValue of the wire."""
    return getattr(value, value.WhichOneof("kind"))


def changed(response: Any) -> Changed:
    return Changed(response.sequence, response.changed, tuple(map(id_of, response.missing)), response.token)


def facet(response: Any) -> Facet:
    return Facet([(value_of(one.value), one.count) for one in response.values], response.distinct)


def refresh(message: Any) -> Refresh:
    return Refresh(**{one.name: getattr(message, one.name) for one in fields(Refresh)})


def search_answers(response: Any, k: int) -> SearchAnswers:
    refreshed = refresh(response.refresh) if response.HasField("refresh") else None
    doubts = errors.warned(response.warnings)
    answers: List[Union[SearchAnswer, errors.LightconeError]] = []
    for result in response.results:
        if result.HasField("error"):
            answers.append(errors.of_part(result.error))
            continue
        answers.append(
            SearchAnswer(
                hits_of(result.hits),
                response.serving_generation,
                response.out_of_reach,
                response.partial,
                response.sequence,
                response.canary,
                response.profile if response.HasField("profile") else None,
                tuple(HitGroup(value_of(group.value), hits_of(group.hits)) for group in result.groups),
                refreshed,
                response.older_error,
                doubts,
                response.scale_generation,
                tuple(response.unscaled_generations),
                tuple(ScaledBound(one.generation, one.fused, one.distance_max) for one in response.bounds),
            )
        )
    return SearchAnswers(answers, k)


def collection(info: Any) -> Collection:
    return Collection(
        name=info.name,
        geometry=_wire.name_of("Geometry", "GEOMETRY_", info.geometry),
        active_generation=info.active_generation,
        items=info.items,
        generations={share.generation: share.items for share in info.generations},
        aliases=tuple(info.aliases),
        created=info.created.ToDatetime() if info.HasField("created") else None,
        message=info,
    )


def generation(info: Any) -> Generation:
    return Generation(
        generation=info.generation,
        state=_wire.name_of("GenerationState", "GENERATION_STATE_", info.state),
        dimension=info.dimension,
        parent=info.parent,
        items=info.items,
        reach=tuple(info.reach),
        has_encoder=info.has_encoder,
        manifest=payload_of(info.manifest_json),
        message=info,
    )


def job(info: Any) -> Job:
    return Job(
        id=info.id,
        kind=info.kind,
        collection=info.collection,
        generation=info.generation,
        state=_wire.name_of("JobState", "JOB_STATE_", info.state),
        done=info.done,
        total=info.total,
        step=info.step,
        result=payload_of(info.result_json),
        error=errors.of_part(info.error) if info.HasField("error") else None,
    )


def backfill(status: Any) -> Backfill:
    state = _wire.name_of("BackfillState", "BACKFILL_STATE_", status.state)
    return Backfill(
        state="never started" if state == "unspecified" else state,
        generation=status.generation,
        items_done=status.items_done,
        items_total=status.items_total,
        items_leased=status.items_leased,
        items_per_second=status.items_per_second,
        error=status.error,
        ahead=status.ahead,
    )
