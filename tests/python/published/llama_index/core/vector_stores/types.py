import abc
import dataclasses
import enum
from typing import Any, List, Optional


class VectorStoreQueryMode(str, enum.Enum):
    DEFAULT = "default"
    SPARSE = "sparse"
    HYBRID = "hybrid"
    MMR = "mmr"


class FilterOperator(str, enum.Enum):
    EQ = "=="
    GT = ">"
    LT = "<"
    NE = "!="
    GTE = ">="
    LTE = "<="
    IN = "in"
    NIN = "nin"
    ANY = "any"
    ALL = "all"
    TEXT_MATCH = "text_match"
    TEXT_MATCH_INSENSITIVE = "text_match_insensitive"
    CONTAINS = "contains"
    IS_EMPTY = "is_empty"


class FilterCondition(str, enum.Enum):
    AND = "and"
    OR = "or"
    NOT = "not"


@dataclasses.dataclass
class MetadataFilter:
    key: str
    value: Any
    operator: FilterOperator = FilterOperator.EQ


@dataclasses.dataclass
class MetadataFilters:
    filters: List[Any]
    condition: Optional[FilterCondition] = FilterCondition.AND


@dataclasses.dataclass
class VectorStoreQuery:
    query_embedding: Optional[List[float]] = None
    similarity_top_k: int = 1
    doc_ids: Optional[List[str]] = None
    node_ids: Optional[List[str]] = None
    query_str: Optional[str] = None
    mode: VectorStoreQueryMode = VectorStoreQueryMode.DEFAULT
    filters: Optional[MetadataFilters] = None


@dataclasses.dataclass
class VectorStoreQueryResult:
    nodes: Any = None
    similarities: Any = None
    ids: Any = None


class BasePydanticVectorStore(abc.ABC):
    def __init__(self, **fields):
        for name, value in fields.items():
            setattr(self, name, value)

    @property
    @abc.abstractmethod
    def client(self): ...

    @abc.abstractmethod
    def add(self, nodes, **kwargs): ...

    @abc.abstractmethod
    def delete(self, ref_doc_id, **delete_kwargs): ...

    @abc.abstractmethod
    def query(self, query, **kwargs): ...
