"""What went over the wire: requests with their responses."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from mockbroker.control.models import exchanges as models
from mockbroker.control.operations import ControlContext
from mockbroker.control.problems import ProblemError, ProblemKind
from mockbroker.journal.message_values import failure_codes
from mockbroker.journal.response_conditions import code_name
from mockbroker.journal.topic_condition import exchange_topics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kwire.conformance.model import Note
    from mockbroker.journal import Exchange
    from mockbroker.journal.request_filters import RequestFilters
    from mockbroker.journal.request_history import RequestHistory

_FILTERS = tuple(name for name in models.ExchangeFilters.__struct_fields__ if name != "api")


def list_exchanges(control: ControlContext, parameters: models.ExchangesParameters) -> models.Exchanges:
    """The requests that match all filters, each with its response."""
    history = control.cluster.requests(parameters.api, **filters_of(parameters))
    if parameters.answered or parameters.error is not None:
        history = history.answered(error=error_of(parameters.error))
    return exchanges_model(
        control,
        history,
        limit=parameters.limit,
        is_newest_first=parameters.order == "desc",
        has_bodies=parameters.bodies,
        has_payload=parameters.payload,
    )


def get_exchange(control: ControlContext, parameters: models.ExchangePath) -> models.Exchange:
    """A request with its response, decoded."""
    exchange = find_exchange(control, parameters.number)
    names = control.cluster.journal.topic_names
    return exchange_model(exchange, names, has_bodies=True, has_payload=parameters.payload)


def find_exchange(control: ControlContext, number: int) -> Exchange:
    """The exchange with this number. Raises: ProblemError if there is none."""
    for exchange in control.cluster.exchanges():
        if exchange.number == number:
            return exchange
    raise ProblemError(ProblemKind.NOT_FOUND, f"there is no request {number}, or it is not kept any more")


def list_conformance_notes(
    control: ControlContext, parameters: models.ConformanceParameters
) -> models.ConformanceNotes:
    """What clients did wrong until now though the cluster accepted it; at the end of a test there should be nothing."""
    ignored = [rule for rule in parameters.ignore.split(",") if rule]
    notes = control.cluster.conformance_notes(ignore=ignored, client_id=parameters.client_id)
    return models.ConformanceNotes(notes=[_note_model(note) for note in notes])


def _note_model(note: Note) -> models.ConformanceNote:
    return models.ConformanceNote(
        rule=note.rule,
        level=note.level.value,
        text=note.text,
        source=note.source,
        exchanges=list(note.exchanges),
        client=note.client,
        client_id=note.client_id,
        connection=int(note.connection),
        node=note.node,
    )


def exchanges_model(
    control: ControlContext,
    history: RequestHistory[Any, Any],
    *,
    limit: int = models.EXCHANGES_MAX,
    is_newest_first: bool = False,
    has_bodies: bool = True,
    has_payload: bool = False,
) -> models.Exchanges:
    """The answer to a question, as it is sent."""
    journal = control.cluster.journal
    chosen = islice(reversed(history) if is_newest_first else iter(history), limit)
    return models.Exchanges(
        exchanges=[
            exchange_model(exchange, history.topic_names, has_bodies=has_bodies, has_payload=has_payload)
            for exchange in chosen
        ],
        count=len(history),
        last_number=journal.last_number,
        dropped=journal.dropped,
    )


def exchange_model(
    exchange: Exchange, topic_names: Mapping[bytes, str], *, has_bodies: bool, has_payload: bool = False
) -> models.Exchange:
    """A request with its response, as it is sent."""
    bodies = exchange.to_json(payload=has_payload) if has_bodies else {}
    codes = failure_codes(exchange.response)
    topics: dict[str, set[int]] = {}
    for topic in exchange_topics(exchange, topic_names):
        topics.setdefault(topic.name or "", set()).update(topic.partitions)
    return models.Exchange(
        number=exchange.number,
        api=exchange.api_name,
        version=exchange.api_version,
        node=exchange.node_id,
        connection=exchange.connection_id,
        client=exchange.client,
        client_id=exchange.client_id,
        principal=exchange.principal,
        correlation_id=exchange.correlation_id,
        arrived_ms=exchange.arrived_ms,
        answered_ms=exchange.answered_ms,
        request_bytes=exchange.request_bytes,
        response_bytes=exchange.response_bytes,
        errors=[code_name(code) for code in codes],
        topics={name: sorted(numbers) for name, numbers in topics.items()},
        faults=list(exchange.faults),
        decode_warnings=list(exchange.decode_warnings),
        closed=exchange.closed,
        unread=exchange.is_unread,
        request=bodies.get("request"),
        response=bodies.get("response"),
    )


def filters_of(parameters: models.ExchangeFilters) -> RequestFilters:
    """The filters that are given, by the names that methods of the cluster have."""
    values = {name: getattr(parameters, name) for name in _FILTERS}
    return {name: value for name, value in values.items() if value is not None}  # type: ignore[return-value]


def error_of(text: str | None) -> str | int | None:
    """An error code by its name or number."""
    return int(text) if text is not None and text.lstrip("-").isdigit() else text
