"""Options of the capture reader, the exchange filter among them: plain data without any behaviour."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kwire.registry import DEFAULT_EDITION, REMOVED_EDITION

if TYPE_CHECKING:
    from collections.abc import Mapping

FRAME_SIZE_MAX = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ExchangeCondition:
    """A comparison of one column with a value; times are microseconds. `exchange_filter` evaluates it.

    `test` is a comparison (`=`, `<`, `<=`, `>`, `>=`, `in`, `starts`, `ends`, `contains`) or one of these:
    `null` holds where the column has no value.
    `where` is one part of a display filter; its value has the filter's text, the level and the number of the part.
    `share` holds from the first number of its value up to, but not including, the second; a column without a value
    counts as 0. So the shares of several tasks together have every exchange exactly once.
    """

    column: str
    test: str
    value: Any = None
    is_negated: bool = False


@dataclass(frozen=True, slots=True)
class ExchangeFilter:
    """Conditions on the headers of an exchange, all of which must hold.

    `row_filter` has text and level of a display filter that is evaluated on whole rows: it needs all topics of a
    message.
    """

    conditions: tuple[ExchangeCondition, ...]
    row_filter: tuple[str, str] | None = None

    @property
    def columns(self) -> frozenset[str]:
        """The columns that the conditions read."""
        return frozenset(condition.column for condition in self.conditions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a capture is read. The defaults examine every TCP connection and show neither secrets nor payloads."""

    edition: str = DEFAULT_EDITION
    ports: frozenset[int] = frozenset()
    """Broker ports. Empty: Kafka is detected by the content of connections."""
    apis: frozenset[str] = frozenset()
    """Return only rows of these APIs, as `ShareFetch`. Empty: all rows, also those that belong to no API."""
    show_secrets: bool = False
    payload: bool = False
    """Whether JSON bodies and the `records` level contain keys and values."""
    bodies: bool = True
    """Whether rows have `body_request` and `body_response`. Reading without them is faster."""
    sessions: bool = True
    """Whether rows of messages have the state of fetch and share sessions. It needs the bodies of all fetches."""
    decoded_messages: frozenset[str] | None = None
    """Messages whose bodies are decoded, as `MetadataResponse`; None for all. Other bodies are treated as empty."""
    topics: Mapping[str, str] = field(default_factory=dict)
    """Topic names by id (base64url text), for ids that the capture itself does not name."""
    tls_keylog: str = field(default="", repr=False)
    """The lines of TLS key logs. They are secrets, so `repr` omits them."""
    followed_keylogs: tuple[str, ...] = ()
    """Files with more such lines, which `read_outcomes` reads again as they grow; a file may be missing at first."""
    frame_size_max: int = FRAME_SIZE_MAX
    """A frame with a greater length is treated as a loss of synchronization."""
    unpacked_size_max: int | None = None
    """How many bytes a compressed capture may expand to. None: 32 MiB, and beyond that 250 times its size."""
    exchange_filter: ExchangeFilter | None = None
    """Conditions on headers: exchanges that fail them have no rows, and their bodies need not be decoded."""
    name: str | None = None
    """Value of the column `file`; the path by default."""

    @property
    def has_key_logs(self) -> bool:
        """Whether TLS connections will be decrypted."""
        return bool(self.tls_keylog or self.followed_keylogs)

    def __post_init__(self) -> None:
        """Every edition is read with the versions that Kafka 4.0 removed, so that they need no edition of their own."""
        if self.edition == REMOVED_EDITION:
            object.__setattr__(self, "edition", DEFAULT_EDITION)
