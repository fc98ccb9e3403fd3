"""The bodies of events, as they are sent in a stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from mockbroker.broker.group_views import GroupView
from mockbroker.broker.inspection import SharePartitionView
from mockbroker.broker.node_views import NodeView, TopicView
from mockbroker.control.events.state_scan import ChaosView, ClockView, FaultView, Gone
from mockbroker.control.models.clusters import Clock
from mockbroker.control.models.exchanges import Removed
from mockbroker.control.models.faults import Chaos, FaultState
from mockbroker.control.resources.clusters import node_model
from mockbroker.control.resources.exchanges import exchange_model
from mockbroker.control.resources.groups import group_model, share_partition_model
from mockbroker.control.resources.topics import topic_model
from mockbroker.journal import Exchange

if TYPE_CHECKING:
    from mockbroker.control.events.event_ring import Event


def encode_event(kind: str, body: object, event_id: str | None = None) -> bytes:
    """An event in the form of a stream of server-sent events."""
    head = f"id: {event_id}\n" if event_id is not None else ""
    return f"{head}event: {kind}\ndata: ".encode() + msgspec.json.encode(body) + b"\n\n"


def event_body(event: Event, topic_names: Mapping[bytes, str], *, has_bodies: bool) -> object:
    """The body of an event."""
    match event.payload:
        case Exchange():
            return exchange_model(event.payload, topic_names, has_bodies=has_bodies)
        case SharePartitionView():
            return share_partition_model(event.payload, event.at_ms)
        case ClockView(mode, frozen_ms, _):
            return Clock(now_ms=event.at_ms if frozen_ms is None else frozen_ms, mode=mode)
        case Gone(key):
            return Removed(removed=True, key=list(key))
    return _view_body(event.payload)


def _view_body(view: object) -> object:
    match view:
        case GroupView():
            return group_model(view)
        case TopicView():
            return topic_model(view)
        case NodeView():
            return node_model(view)
        case FaultView(number, name, hits, held, fault, near_misses):
            return FaultState(
                number=number,
                name=name,
                hits=hits,
                held=held,
                is_active=True,
                near_misses=list(near_misses),
                fault=fault.to_json(),
            )
        case ChaosView(number, profile, seed, hits, is_active, faults):
            return Chaos(number=number, profile=profile, seed=seed, hits=hits, is_active=is_active, faults=list(faults))
    return {}  # A reset has no fields.
