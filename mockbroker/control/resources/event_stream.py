"""The stream of events, as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from starlette.responses import Response

from mockbroker.control.events.event_hub import TooManyReadersError
from mockbroker.control.models import exchanges as models
from mockbroker.control.operations import ControlContext
from mockbroker.control.problems import ProblemError, ProblemKind
from mockbroker.control.resources.event_bodies import encode_event, event_body
from mockbroker.control.resources.exchanges import filters_of
from mockbroker.control.streaming import StreamedResponse
from mockbroker.faults.fault_error import suggest
from mockbroker.journal import Exchange
from mockbroker.journal.request_history import RequestHistory, Snapshot

if TYPE_CHECKING:
    from mockbroker.cluster_methods.methods import SharedMethods
    from mockbroker.control.events.event_hub import EventHub, EventReader
    from mockbroker.control.events.event_ring import Event, Slice
    from mockbroker.control.models.exchanges import EventKind
    from mockbroker.journal.condition import Condition

#: How many events are sent at once.
_SENT_MAX = 128
#: How often something is sent when nothing happens, seconds: it shows whether the reader is still there.
_KEEP_ALIVE_S = 15.0
#: How soon a reader should connect again, milliseconds.
_RETRY_MS = 1000


class EventQuestion(NamedTuple):
    """Which events a reader wants, and how."""

    kinds: tuple[EventKind, ...]
    api: str | None
    conditions: Sequence[Condition]
    has_bodies: bool

    def matches(self, event: Event) -> bool:
        """Whether the reader wants an event; the filters are for those of requests."""
        if event.kind not in self.kinds:
            return False
        exchange = event.payload
        if not isinstance(exchange, Exchange):
            return True
        return self.api in (None, exchange.api_name) and all(each.matches(exchange) for each in self.conditions)


class _TopicNames(Mapping[bytes, str]):
    """The names of topics by their ids, at any time, also after a reset."""

    def __init__(self, cluster: SharedMethods) -> None:
        self._cluster = cluster

    def __getitem__(self, topic_id: bytes) -> str:
        return self._cluster.journal.topic_names[topic_id]

    def __iter__(self) -> Iterator[bytes]:
        return iter(dict(self._cluster.journal.topic_names))

    def __len__(self) -> int:
        return len(self._cluster.journal.topic_names)


async def stream_events(control: ControlContext, parameters: models.EventsParameters) -> Response:
    """What happens from now on, as server-sent events: requests, and changes of groups, topics, nodes and faults.

    The first event is `start`. A reader that is too slow loses the oldest events, and gets the event `lost` with their
    number. With the header Last-Event-ID, or lastEventId, the stream goes on after that event. Too many streams, in all
    or of one client, are refused with 429.
    """
    topic_names = _TopicNames(control.cluster)
    asked = RequestHistory.filtered(Snapshot((), 0, topic_names), parameters.api, filters_of(parameters))
    question = EventQuestion(
        _parse_kinds(parameters.kinds, control.api.event_kinds), asked.api, asked.conditions, parameters.bodies
    )
    hub = control.events
    position = None if parameters.last_event_id is None else hub.find_position(parameters.last_event_id)
    try:
        reader = await hub.add_reader(frozenset(question.kinds), position, client=control.client)
    except TooManyReadersError as error:
        raise ProblemError(ProblemKind.TOO_MANY_STREAMS, f"{error}; close one of them", {"Retry-After": "1"}) from None
    is_unknown = parameters.last_event_id is not None and position is None
    return StreamedResponse(
        send_events(hub, reader, question, topic_names, is_unknown=is_unknown),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


async def send_events(
    hub: EventHub,
    reader: EventReader,
    question: EventQuestion,
    topic_names: Mapping[bytes, str],
    *,
    is_unknown: bool = False,
) -> AsyncGenerator[bytes, None]:
    """The parts of a stream. is_unknown: what came since the reader's last event is not known."""
    try:
        start = encode_event("start", models.EventStart(kinds=list(question.kinds)), hub.event_id(reader.position))
        yield f"retry: {_RETRY_MS}\n".encode() + start
        if is_unknown:
            yield encode_event("lost", models.EventsLost(count=None))
        while not hub.stopped.is_set():
            reader.changed.clear()
            found = hub.ring.read_after(reader.position, limit=_SENT_MAX)
            if found.lost:
                yield encode_event("lost", models.EventsLost(count=found.lost))
            reader.position = found.first + len(found.events) - 1
            part = _encode_part(hub, found, question, topic_names)
            if part:
                yield part
            if found.events:
                # Other readers get their turn, and a connection that has ended is noticed.
                await asyncio.sleep(0)
            elif not await _wait(reader):
                yield b":\n\n"
    finally:
        hub.remove_reader(reader)


def _encode_part(hub: EventHub, found: Slice, question: EventQuestion, topic_names: Mapping[bytes, str]) -> bytes:
    """The events that match, as they are sent. Readers without filters and bodies share them."""

    def encode() -> bytes:
        return b"".join(
            _encode(event, hub.event_id(found.first + at), question, topic_names)
            for at, event in enumerate(found.events)
            if question.matches(event)
        )

    if question.has_bodies or question.conditions:
        return encode()
    key = found.first, len(found.events), question.kinds, question.api
    return hub.parts.get(key, encode)


def _encode(event: Event, event_id: str, question: EventQuestion, topic_names: Mapping[bytes, str]) -> bytes:
    """An event as it is sent. It is encoded once for all readers without bodies."""
    if question.has_bodies:
        return encode_event(event.kind, event_body(event, topic_names, has_bodies=True), event_id)
    if event.encoded is None:
        event.encoded = encode_event(event.kind, event_body(event, topic_names, has_bodies=False), event_id)
    return event.encoded


async def _wait(reader: EventReader) -> bool:
    """Wait for events. Returns: False if nothing has happened for a time."""
    try:
        async with asyncio.timeout(_KEEP_ALIVE_S):
            await reader.changed.wait()
    except TimeoutError:
        return False
    return True


def _parse_kinds(text: str | None, known: tuple[EventKind, ...]) -> tuple[EventKind, ...]:
    """The kinds of events, by default all. Raises: ValueError for an unknown one."""
    if text is None:
        return known
    names = text.split(",")
    for name in names:
        if name not in known:
            raise ValueError(f"kinds: {name!r} is not a kind of events; {suggest(name, known)}")
    return cast("tuple[EventKind, ...]", tuple(names))
