"""Python client of Lightcone, the vector retrieval server whose embedding models are upgraded without backfilling."""

from ._channel import Tls
from .client import Client
from .errors import (
    Aborted,
    AlreadyExists,
    DataLoss,
    DeadlineExceeded,
    FailedPrecondition,
    ForeignVectorsWarning,
    InvalidArgument,
    LightconeError,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
)
from .snapshots import Snapshot, SnapshotCollection
from .types import (
    Backfill,
    Changed,
    Collection,
    Count,
    Deleted,
    Facet,
    Generation,
    Hit,
    HitGroup,
    Image,
    ItemQuery,
    Job,
    Probe,
    Refresh,
    ScaledBound,
    Sampled,
    SearchAnswer,
    SearchAnswers,
    StoredItem,
    Tensor,
    Text,
    Written,
)

__version__ = "0.1.0"

__all__ = [name for name in dir() if not name.startswith("_") and name[0].isupper()]
