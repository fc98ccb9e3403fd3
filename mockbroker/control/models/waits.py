"""Bodies of waits."""

from __future__ import annotations

from typing import Annotated

import msgspec

from mockbroker.broker.node_views import NodeState
from mockbroker.control.models.common import (
    WAIT_MS_MAX,
    Count,
    Offset,
    PartitionIndex,
    PositiveInt,
    RequestModel,
    ResponseModel,
)
from mockbroker.control.models.exchanges import ExchangeFilters

_Timeout = Annotated[int, msgspec.Meta(ge=0, le=WAIT_MS_MAX)]
_DEFAULT_MS = 10_000


class GroupWait(RequestModel, frozen=True):
    """A group in a state with a number of members; null: any. timeoutMs: of the wall clock."""

    group_id: str
    state: str | None = "Stable"
    members: Count | None = None
    timeout_ms: _Timeout = _DEFAULT_MS


class ShareMembersWait(RequestModel, frozen=True):
    """A share group with this many members that have the current assignment.

    isActive: and whose partitions can be delivered, so that records which are produced from now on are delivered.
    """

    group_id: str
    members: PositiveInt
    is_active: bool = True
    timeout_ms: _Timeout = _DEFAULT_MS


class NodeWait(RequestModel, frozen=True):
    """A node in a state."""

    node: int
    state: NodeState = "running"
    timeout_ms: _Timeout = _DEFAULT_MS


class OffsetWait(RequestModel, frozen=True):
    """A group that has committed this offset or a later one; of a share group the start of the share partition."""

    group_id: str
    topic: str
    partition: PartitionIndex
    offset: Offset
    timeout_ms: _Timeout = _DEFAULT_MS


class ReachedOffset(ResponseModel, frozen=True):
    """The offset that a group has committed."""

    group_id: str
    topic: str
    partition: int
    offset: int


class RequestWait(ExchangeFilters, frozen=True, kw_only=True):
    """A number of requests that match, those before the call included.

    answered: with their responses. error: of the responses, by name or number, or "NONE" for those without any.
    """

    api: str
    count: PositiveInt = 1
    answered: bool = False
    error: str | None = None
    timeout_ms: _Timeout = _DEFAULT_MS


class HeldWait(RequestModel, frozen=True):
    """A fault, by its number, that holds this many requests."""

    fault: int
    count: PositiveInt = 1
    timeout_ms: _Timeout = _DEFAULT_MS


class HeldRequests(ResponseModel, frozen=True):
    """How many requests a fault holds."""

    fault: int
    held: int
