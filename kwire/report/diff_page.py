"""Rendering of a comparison of two captures, as a page like that of a report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from kwire.report import formats, page, percentiles
from kwire.report.diff import Changes, CountChange, LatencyChange, SetChange
from kwire.report.findings import Finding, sort_by_kind
from kwire.report.markup import Markup, tag
from kwire.report.model import Report
from kwire.report.plots import latency_change
from kwire.report.sections import Figure, Section, Table

TITLE = "What changed between two captures"
ROWS_MAX = 200
LATENCY_COLUMNS = ("p50", "p95", "p99", "Slowest")
# Limit of findings of one kind, so that the list stays short.
SENTENCES_MAX = 4


def render_changes(changes: Changes) -> str:
    """The page of a comparison."""
    data = {name: value for name, value in asdict(changes).items() if name not in ("before", "after")}
    return page.render_document(TITLE, _header(changes), build_sections(changes), data)


def build_sections(changes: Changes) -> list[Section]:
    """The sections of the page."""
    latency_lead = "Response latency before and after, by API. The largest changes at p95 come first."
    error_lead = "Error responses and breaches of the protocol, and how often they occurred."
    error_figures = [_error_figure(changes), _rule_figure(changes)]
    client_lead = "New and gone clients, their software and versions."
    client_figures = [_client_figure(changes), _version_figure(changes)]
    return [
        Section("latency", "Latency", latency_lead, [_latency_figure(changes)]),
        Section("errors", "Errors and rules", error_lead, error_figures),
        Section("traffic", "Traffic", "Requests by API, and how often they were sent.", [_request_figure(changes)]),
        Section("clients", "Clients", client_lead, client_figures),
        Section("captures", "The captures", "The compared files.", [_file_figure(changes)]),
    ]


def build_findings(changes: Changes) -> list[Finding]:
    """The findings about the changes, those of kind bad first."""
    topics = (_latency_findings, _error_findings, _rule_findings, _client_findings)
    no_change = Finding("good", "No significant change: no API became slower or faster, and there is no new error.")
    return sort_by_kind(finding for find in topics for finding in find(changes)) or [no_change]


def _header(changes: Changes) -> Markup:
    when = f"From {_capture_name(changes.before)} to {_capture_name(changes.after)}"
    after = _tile_numbers(changes.after)
    tiles = {
        name: tag("dd", tag("span", f"{before} \N{RIGHTWARDS ARROW}", class_="before"), " ", tag("span", after[name]))
        for name, before in _tile_numbers(changes.before).items()
    }
    return page.render_header("kwire report --compare", TITLE, when, tiles, build_findings(changes))


def _tile_numbers(report: Report) -> dict[str, str]:
    return {
        "Requests": formats.count(report.requests),
        "Connections": formats.count(report.connections),
        "Clients": formats.count(report.clients),
        "Error responses": formats.count(report.error_responses),
        "Breaches of rules": formats.count(report.breach_count),
        "Data": formats.size(report.req_bytes + report.resp_bytes),
    }


def _capture_name(report: Report) -> str:
    files = [row.name for row in report.files]
    return formats.path(files[0]) if len(files) == 1 else formats.plural(len(files), "file")


def _latency_findings(changes: Changes) -> Iterator[Finding]:
    for row in [row for row in changes.latency if row.is_shift][:SENTENCES_MAX]:
        assert row.before is not None
        assert row.after is not None
        assert row.ratio is not None
        change = f"from {formats.span(row.before.p95_us)} to {formats.span(row.after.p95_us)} at p95"
        if row.ratio > 1:
            kind = "note" if row.before.is_long_poll else "bad"
            yield Finding(kind, f"{row.api} takes {row.ratio:.3g} times as long: {change}.", "latency")
        else:
            yield Finding("good", f"{row.api} is faster: {change}.", "latency")


def _error_findings(changes: Changes) -> Iterator[Finding]:
    new = [row for row in changes.errors if row.change == "new"]
    for row in new[:SENTENCES_MAX]:
        yield Finding("bad", f"New: {row.name[0]} to {row.name[1]}, {formats.plural(row.after, 'time')}.", "errors")
    more = [row for row in changes.errors if row.change == "more"]
    for row in more[:SENTENCES_MAX]:
        counts = f"{formats.count(row.before)} before, {formats.count(row.after)} after"
        yield Finding("bad", f"More often: {row.name[0]} to {row.name[1]}, {counts}.", "errors")
    if gone := sum(row.change == "gone" for row in changes.errors):
        yield Finding(
            "good",
            f"{formats.plural(gone, 'kind')} of error no longer {formats.number_form(gone, 'occurs', 'occur')}.",
            "errors",
        )


def _rule_findings(changes: Changes) -> Iterator[Finding]:
    for row in changes.rules:
        if row.change in ("new", "more"):
            counts = f"{formats.count(row.before)} before, {formats.count(row.after)} after"
            yield Finding("bad", f"Rules broken: {row.name[0]}, {counts}.", "errors")


def _client_findings(changes: Changes) -> Iterator[Finding]:
    for change in ("new", "gone", "changed"):
        rows = [row for row in changes.clients if row.change == change]
        if rows:
            names = ", ".join(formats.name(row.name[0]) for row in rows[:SENTENCES_MAX])
            clients = formats.number_form(len(rows), "Client")
            more = f" and {len(rows) - SENTENCES_MAX} more" if len(rows) > SENTENCES_MAX else ""
            subject = (
                f"{clients} with other software" if change == "changed" else f"{change.capitalize()} {clients.lower()}"
            )
            yield Finding("note", f"{subject}: {names}{more}.", "clients")


def _latency_figure(changes: Changes) -> Figure:
    cells = []
    for row in changes.latency:
        both = row.before, row.after
        shown = [
            {} if latency is None else {**latency.shown_percentiles, "Slowest": latency.max_us} for latency in both
        ]
        times = [values.get(name) for name in LATENCY_COLUMNS for values in shown]
        requests = [0 if latency is None else latency.requests for latency in both]
        cells.append((row.api, _ratio(row), *map(formats.span, times), *map(formats.count, requests)))
    columns = [f"{name} {when}" for name in (*LATENCY_COLUMNS, "Answered") for when in ("before", "after")]
    head = ("API", "p95", *columns)
    note = (
        "Above: before; below: after, on a logarithmic scale. Percentiles are shown where there are enough answered "
        f"requests: {percentiles.NOTE}."
    )
    plot = latency_change.plot_latency_changes(changes.latency) if changes.latency else None
    return Figure("Before and after", note, plot, Table(head, cells), is_wide=True)


def _ratio(row: LatencyChange) -> str:
    if row.ratio is None:
        return "-" if row.before and row.after else "new" if row.before is None else "gone"
    return f"\N{MULTIPLICATION SIGN} {row.ratio:.3g}"


def _count_figure(title: str, note: str, head: Sequence[str], rows: Sequence[CountChange], unit: str) -> Figure:
    cells = [
        (
            *(formats.name(part) for part in row.name),
            row.change,
            *map(formats.count, (row.before, row.after)),
            *("-" if rate is None else f"{rate:,.3g}" for rate in (row.rate_before, row.rate_after)),
        )
        for row in rows[:ROWS_MAX]
    ]
    names = (*head, "Change", "Before", "After", f"Before, {unit}", f"After, {unit}")
    return Figure(title, note, None, Table(names, cells, labels=len(head) + 1), omitted=len(rows[ROWS_MAX:]))


def _error_figure(changes: Changes) -> Figure:
    note = "The error of every partition is counted. More and fewer: the rate differs by more than a tenth."
    return _count_figure("Errors", note, ("Error", "API"), changes.errors, "in 1,000 requests")


def _rule_figure(changes: Changes) -> Figure:
    return _count_figure("Rules broken", "Of the protocol.", ("Rule",), changes.rules, "in 1,000 requests")


def _request_figure(changes: Changes) -> Figure:
    return _count_figure("Requests", "By API.", ("API",), changes.requests, "a second")


def _set_figure(title: str, note: str, head: Sequence[str], rows: Sequence[SetChange]) -> Figure:
    cells = []
    for row in rows[:ROWS_MAX]:
        texts = (*row.name, row.change, ", ".join(row.before), ", ".join(row.after))
        cells.append(tuple(map(formats.name_or_dash, texts)))
    names = (*head, "Change", "Before", "After")
    return Figure(title, note, None, Table(names, cells, labels=len(names)), omitted=len(rows[ROWS_MAX:]))


def _client_figure(changes: Changes) -> Figure:
    return _set_figure("Clients and their software", "Those that differ.", ("Client",), changes.clients)


def _version_figure(changes: Changes) -> Figure:
    return _set_figure("Versions", "Of each API, by client; those that differ.", ("Client", "API"), changes.versions)


def _file_figure(changes: Changes) -> Figure:
    cells = []
    for when, report in (("before", changes.before), ("after", changes.after)):
        for row in report.files:
            times = formats.moment(row.first_us), formats.span(row.length_us)
            cells.append((when, formats.path(row.name), formats.count(row.requests), *times))
    table = Table(("", "File", "Requests", "Begins", "Lasts"), cells, labels=2)
    return Figure("Files", "In the order given.", None, table)
