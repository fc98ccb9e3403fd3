"""What a reader of captures may ask for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kwire.registry import DEFAULT_EDITION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kwire.capture.only import Only

FRAME_SIZE_MAX = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a capture is read. The defaults look at every TCP connection and show no secret and no payload."""

    edition: str = DEFAULT_EDITION
    ports: frozenset[int] = frozenset()
    """Broker ports; empty means to find Kafka by looking."""
    apis: frozenset[str] = frozenset()
    """Only rows of these APIs, as `ShareFetch`; empty means all, and the rows that belong to no API."""
    show_secrets: bool = False
    payload: bool = False
    """Whether JSON bodies and the `records` level carry keys and values."""
    bodies: bool = True
    """Whether rows carry `body_request` and `body_response`; without them reading is faster."""
    sessions: bool = True
    """Whether rows of messages tell of fetch and share sessions; that needs the bodies of all fetches."""
    decoded: frozenset[str] | None = None
    """Messages whose bodies are decoded, as `MetadataResponse`; None for all. Others look as if they were empty."""
    topics: Mapping[str, str] = field(default_factory=dict)
    """Topic names by id (base64url text), for ids that the capture itself does not name."""
    tls_keylog: str = field(default="", repr=False)
    """The lines of TLS key logs: secrets, so they are left out where options are shown."""
    frame_size_max: int = FRAME_SIZE_MAX
    """A longer frame is taken for a loss of synchronization."""
    only: Only | None = None
    """Conditions that heads decide: what fails them has no rows, and its bodies need not be decoded."""
    name: str | None = None
    """What the `file` column says; the path by default."""
