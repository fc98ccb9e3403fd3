"""The page of one result: rule, verdict, sequence diagram, deciding exchanges with their bytes, log and capture."""

from __future__ import annotations

import json
from typing import NamedTuple

from kwire.report.markup import Markup, join, tag
from mockbroker.certify.report.document import definitions, lines, render_document, section, verdict_word
from mockbroker.certify.report.sequence_diagram import draw_sequence
from mockbroker.certify.results import CaseRecord, DecodedRecord, Details, DriverRecord, ExchangeRecord, ResultRecord

#: How many exchanges and calls are shown with their contents, and how much of the log, characters.
_SHOWN_MAX = 100
_LOG_MAX = 20_000


class CasePage(NamedTuple):
    """What the page shows. home, folder: the paths of the first page and of the run's files, from the page.

    command: plays the case again.
    """

    case: CaseRecord
    driver: DriverRecord
    result: ResultRecord
    details: Details
    log: str
    command: str
    home: str
    folder: str


def render_case(page: CasePage) -> str:
    """The page."""
    result, details = page.result, page.details
    deciding = set(result.deciding)
    decoded = [_decoded(one) for one in details.decoded]
    body = join(
        section("Verdict", _verdict(page)),
        section("Rule", _rule(page.case)),
        section("Exchanges", draw_sequence(details.exchanges, details.calls, deciding)) if details.exchanges else None,
        section("Deciding exchanges", *decoded) if decoded else None,
        section("Every exchange", _exchanges(details.exchanges, deciding)) if details.exchanges else None,
        section("Calls of the driver", _calls(details)) if details.calls else None,
        section("Log of the driver", tag("pre", lines(_end_of(page.log)))) if page.log.strip() else None,
    )
    title = f"{page.case.id} with {page.driver.label}"
    return render_document(title, _header(page), body, script="case.js")


def _header(page: CasePage) -> Markup:
    back = tag("nav", tag("a", "All cases and clients", href=f"{page.home}#{page.case.id}"), aria_label="Pages")
    return join(
        back,
        tag("p", page.driver.label, class_="eyebrow"),
        tag("h1", page.case.title),
        tag("p", tag("code", page.case.id), class_="when"),
    )


def _verdict(page: CasePage) -> Markup:
    result = page.result
    files = [
        tag("a", name, href=f"{page.folder}{path}", download="")
        for name, path in (
            ("capture (pcapng)", result.capture),
            ("log", result.log),
            ("exchanges (JSON)", result.details),
        )
        if path
    ]
    links = [part for file in files for part in (file, Markup(" "))]
    facts = [
        ("verdict", verdict_word(result.verdict)),
        ("repeated", _repetitions(result)),
        ("expected", _paragraph(result.expected)),
        ("seen", _paragraph(result.seen)),
        ("deciding", _places(page)),
        ("notes", tag("ul", *(tag("li", note) for note in result.notes)) if result.notes else None),
        ("duration", f"{result.duration_ms:,} ms"),
        ("play it again", tag("code", page.command)),
        ("files", join(*links) if links else None),
    ]
    return definitions(facts)


def _repetitions(result: ResultRecord) -> str | None:
    """The verdicts of a case that was played several times; the page shows the worst one."""
    if not result.verdicts:
        return None
    times = f"{len(result.verdicts)} times: {', '.join(result.verdicts)}"
    return f"{times}; {result.instability}; this page shows the worst" if result.instability else times


def _paragraph(content: str) -> Markup | None:
    return tag("span", lines(content), class_="text") if content else None


def _places(page: CasePage) -> Markup | None:
    """The deciding exchanges: time, correlation id, and packet of the capture."""
    exchanges = {exchange.number: exchange for exchange in page.details.exchanges}
    items = []
    for number in page.result.deciding:
        exchange = exchanges.get(number)
        if exchange is None:
            continue
        packet = f", packet {exchange.packet}" if exchange.packet is not None else ""
        place = f" at {exchange.at_ms:,.1f} ms, correlation id {exchange.correlation_id}{packet}"
        link = tag("a", f"{exchange.api} v{exchange.version} to node {exchange.node}", href=f"#exchange-{number}")
        items.append(tag("li", link, place))
    return tag("ul", *items) if items else None


def _rule(case: CaseRecord) -> Markup:
    source = case.source
    section_name = f'section "{source["section"]}"' if source.get("section") else None
    place = ", ".join(filter(None, [source.get("document"), section_name, source.get("contract")]))
    return definitions(
        [
            ("level", case.level),
            ("rule", case.rule),
            ("source", place),
            ("the broker", tag("span", lines(case.broker), class_="text")),
            ("needs", ", ".join(case.needs)),
            ("needs settings", ", ".join(case.settings_needed)),
            ("limit", f"{case.timeout_s:g} s"),
        ]
    )


def _decoded(record: DecodedRecord) -> Markup:
    parts = [tag("h3", record.title)]
    for name, text in (("request", record.request), ("response", record.response)):
        if text:
            parts += [tag("p", name, class_="side"), tag("pre", lines(text), tabindex=0)]
    return tag("article", *parts)


def _exchanges(exchanges: list[ExchangeRecord], deciding: set[int]) -> Markup:
    shown = exchanges[:_SHOWN_MAX]
    shown += [exchange for exchange in exchanges[_SHOWN_MAX:] if exchange.number in deciding]
    items = [_exchange(exchange, exchange.number in deciding) for exchange in shown]
    omitted = len(exchanges) - len(shown)
    more = tag("p", f"{omitted} more are in the file of exchanges.", class_="lead") if omitted else None
    return join(*items, more)


def _exchange(exchange: ExchangeRecord, is_deciding: bool) -> Markup:
    facts = [f"{exchange.at_ms:,.1f} ms", f"node {exchange.node}", f"connection {exchange.connection}"]
    facts += [f"correlation id {exchange.correlation_id}"]
    facts += [f"packet {exchange.packet}"] if exchange.packet is not None else []
    facts += [f"fault: {name}" for name in exchange.faults]
    facts += [f"closed: {exchange.closed}"] if exchange.closed else []
    title = tag("span", exchange.summary, class_="wrong" if exchange.error or exchange.closed else None)
    summary = tag("summary", title, tag("span", ", ".join(facts), class_="where"))
    contents = [
        join(tag("p", name, class_="side"), tag("pre", lines(json.dumps(message, indent=2, ensure_ascii=False))))
        for name, message in (("request", exchange.request), ("response", exchange.response))
        if message is not None
    ]
    class_ = "exchange deciding" if is_deciding else "exchange"
    return tag("details", summary, *contents, id=f"exchange-{exchange.number}", class_=class_)


def _calls(details: Details) -> Markup:
    rows = []
    for call in details.calls[:_SHOWN_MAX]:
        end = call.error if call.error is not None else call.result
        rows.append(
            tag(
                "tr",
                tag("td", f"{call.at_ms:,.1f}", class_="number"),
                tag("td", f"{call.answered_ms - call.at_ms:,.1f}", class_="number"),
                tag("td", call.method),
                tag("td", tag("code", json.dumps(call.params, ensure_ascii=False))),
                tag("td", tag("code", json.dumps(end, ensure_ascii=False)), class_="wrong" if call.error else None),
            )
        )
    head = tag("tr", *(tag("th", name, scope="col") for name in ("at, ms", "took, ms", "method", "params", "answer")))
    table = tag("table", tag("thead", head), tag("tbody", *rows), class_="calls")
    region = tag("div", table, class_="table", tabindex=0, role="region", aria_label="Calls of the driver")
    omitted = len(details.calls) - len(rows)
    return join(region, tag("p", f"{omitted} more are in the file.", class_="lead") if omitted else None)


def _end_of(log: str) -> str:
    return log if len(log) <= _LOG_MAX else f"[{len(log) - _LOG_MAX} characters are left out]\n{log[-_LOG_MAX:]}"
