"""The sequence diagram of a case: the client and the nodes across, time down, a line for each request and response."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from kwire.report.markup import Markup, join, tag
from mockbroker.certify.results import CallRecord, ExchangeRecord

#: The height of a line of the diagram, of the head, and the widths of the columns, pixels.
_ROW, _HEAD, _TIME, _CALLS, _NODE = 20, 34, 70, 230, 250
#: Events beyond this number are left out.
EVENTS_MAX = 400
_TEXT_MAX = 40


class _Event(NamedTuple):
    at_ms: float
    order: int
    kind: str
    text: str
    exchange: ExchangeRecord | None = None


def draw_sequence(
    exchanges: Sequence[ExchangeRecord], calls: Sequence[CallRecord], deciding: Collection[int]
) -> Markup:
    """The diagram. deciding: the numbers of exchanges that are emphasized. Lines link to the exchanges on the page."""
    events = _events(exchanges, calls)
    omitted = max(len(events) - EVENTS_MAX, 0)
    events = events[:EVENTS_MAX]
    nodes = sorted({exchange.node for exchange in exchanges})
    client_x = _TIME + _CALLS
    lifelines = {node: client_x + _NODE * (index + 1) for index, node in enumerate(nodes)}
    width = client_x + _NODE * len(nodes) + 80
    height = _HEAD + _ROW * (len(events) + 1)
    lines = [
        _lifeline("client", client_x, height),
        *(_lifeline(f"node {node}", x, height) for node, x in lifelines.items()),
        *(
            _draw_event(event, _HEAD + _ROW * (row + 1), client_x, lifelines, deciding)
            for row, event in enumerate(events)
        ),
    ]
    label = f"Sequence diagram: {len(exchanges)} requests of the client to {len(nodes)} nodes"
    image = tag("svg", *lines, class_="sequence", role="img", aria_label=label, width=width, height=height)
    scrolling = tag("div", image, class_="table diagram", tabindex=0, role="region", aria_label=label)
    more = tag("p", f"{omitted} later events are left out.", class_="lead") if omitted else None
    return join(scrolling, more)


def _events(exchanges: Sequence[ExchangeRecord], calls: Sequence[CallRecord]) -> list[_Event]:
    """Calls, requests, responses and ends of connections by time."""
    events: list[_Event] = []
    for call in calls:
        who = f"[{call.driver}] " if call.driver else ""
        client = call.params.get("client") if isinstance(call.params, dict) else None
        name = f"{who}{client}.{call.method}" if client else f"{who}{call.method}"
        events.append(_Event(call.at_ms, len(events), "call", f"{name}()"))
        end = _error_name(call.error) if call.error else "done"
        events.append(_Event(call.answered_ms, len(events), "error" if call.error else "return", f"{name}: {end}"))
    for exchange in exchanges:
        events.append(_Event(exchange.at_ms, len(events), "request", f"{exchange.api} v{exchange.version}", exchange))
        if exchange.answered_ms is not None:
            text = exchange.error or "ok"
            events.append(_Event(exchange.answered_ms, len(events), "response", text, exchange))
        elif exchange.closed:
            events.append(_Event(exchange.at_ms, len(events), "closed", exchange.closed, exchange))
    return sorted(events, key=lambda event: (event.at_ms, event.order))


def _error_name(error: object) -> str:
    name = error.get("name") if isinstance(error, dict) else None
    return str(name or "error")


def _lifeline(name: str, x: int, height: int) -> Markup:
    return join(
        tag("text", name, x=x, y=20, text_anchor="middle", class_="lifeline-name"),
        tag("line", x1=x, x2=x, y1=_HEAD - 6, y2=height, class_="lifeline"),
    )


def _draw_event(event: _Event, y: int, client_x: int, lifelines: dict[int, int], deciding: Collection[int]) -> Markup:
    time = tag("text", f"{event.at_ms:,.1f}", x=_TIME - 12, y=y + 4, text_anchor="end", class_="at")
    exchange = event.exchange
    if exchange is None:
        text = tag("text", _short(event.text), x=client_x - 10, y=y + 4, text_anchor="end", class_=event.kind)
        return join(time, text)
    node_x = lifelines[exchange.node]
    start, end = (client_x, node_x) if event.kind == "request" else (node_x, client_x)
    is_wrong = event.kind == "closed" or (event.kind == "response" and exchange.error is not None)
    classes = ["arrow", event.kind]
    classes += ["wrong"] if is_wrong else []
    classes += ["faulty"] if exchange.faults and event.kind != "request" else []
    classes += ["deciding"] if exchange.number in deciding else []
    direction = 1 if end > start else -1
    head = f"M{end - 7 * direction},{y - 4} L{end},{y} L{end - 7 * direction},{y + 4}"
    arrow = tag(
        "g",
        tag("line", x1=start, x2=end, y1=y, y2=y),
        tag("path", d=head),
        tag("text", _short(event.text), x=node_x - _NODE / 2, y=y - 3, text_anchor="middle"),
        tag("title", f"{event.text} ({exchange.summary})"),
        class_=" ".join(classes),
    )
    return join(time, tag("a", arrow, href=f"#exchange-{exchange.number}"))


def _short(text: str) -> str:
    return text if len(text) <= _TEXT_MAX else f"{text[: _TEXT_MAX - 3]}..."
