"""What changed between two captures, as a page of the same kind as a report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from kwire.spark import formats, page, pairplot
from kwire.spark.changes import Changes, CountChange, LatencyChange, SetChange
from kwire.spark.findings import Finding
from kwire.spark.markup import Markup, join, tag
from kwire.spark.model import Report
from kwire.spark.sections import Figure, Section, Table
from kwire.spark.sections.parts import named, span

ROWS_MAX = 200
# Sentences of one kind; more than these nobody reads.
TOLD_MAX = 4


def render(changes: Changes) -> str:
    """The whole page."""
    data = {name: value for name, value in asdict(changes).items() if name not in ("before", "after")}
    return page.document("What changed between two captures", _header(changes), sections(changes), data)


def sections(changes: Changes) -> list[Section]:
    """The chapters of the page."""
    lead = "How long brokers took before and after, by API. The largest changes at p95 come first."
    return [
        Section("latency", "Latency", lead, [_latency(changes)]),
        Section("errors", "Errors and rules", "What went wrong, and how often.", [_errors(changes), _rules(changes)]),
        Section("traffic", "Traffic", "What was asked, and how often.", [_requests(changes)]),
        Section("clients", "Clients", "Who came and went, and with what.", [_clients(changes), _versions(changes)]),
        Section("captures", "The captures", "What is compared with what.", [_captures(changes)]),
    ]


def findings(changes: Changes) -> list[Finding]:
    """What a colleague would say about the change, the bad news first."""
    found = [*_shifts(changes), *_new_errors(changes), *_new_rules(changes), *_comings(changes)]
    if not found:
        found = [Finding("good", "Nothing of note changed: no API became slower or faster, no error is new.")]
    return sorted(found, key=lambda each: ("bad", "note", "good").index(each.kind))


def _header(changes: Changes) -> Markup:
    noted = [
        tag("li", tag("span", each.sentence, page.more(each.anchor)), class_=each.kind) for each in findings(changes)
    ]
    return join(
        tag("p", "kwire report --compare", class_="eyebrow"),
        tag("h1", "What changed between two captures"),
        tag("p", f"From {_name(changes.before)} to {_name(changes.after)}", class_="when"),
        tag("dl", *(_tile(*each) for each in _sums(changes)), class_="tiles"),
        tag("ul", *noted, class_="findings", aria_label="What stands out"),
    )


def _tile(name: str, before: str, after: str) -> Markup:
    value = tag("dd", tag("span", f"{before} \N{RIGHTWARDS ARROW} ", class_="before"), after)
    return tag("div", tag("dt", name), value)


def _sums(changes: Changes) -> Iterator[tuple[str, str, str]]:
    both = changes.before, changes.after
    for name, values in (
        ("Requests", [report.requests for report in both]),
        ("Connections", [report.connections for report in both]),
        ("Clients", [report.clients for report in both]),
        ("Error responses", [report.error_responses for report in both]),
        ("Rules broken", [sum(row.breaches for row in report.rules) for report in both]),
    ):
        yield name, formats.count(values[0]), formats.count(values[1])
    sizes = [formats.size(report.req_bytes + report.resp_bytes) for report in both]
    yield "Data", sizes[0], sizes[1]


def _name(report: Report) -> str:
    files = [row.name for row in report.files]
    return formats.path(files[0]) if len(files) == 1 else f"{len(files)} files"


def _shifts(changes: Changes) -> Iterator[Finding]:
    for row in [row for row in changes.latency if row.is_shift][:TOLD_MAX]:
        assert row.before is not None
        assert row.after is not None
        assert row.ratio is not None
        told = f"from {formats.span(row.before.p95_us)} to {formats.span(row.after.p95_us)} at p95"
        if row.ratio > 1:
            kind = "note" if row.before.is_long_poll else "bad"
            yield Finding(kind, f"{row.api} takes {row.ratio:.3g} times as long: {told}.", "latency")
        else:
            yield Finding("good", f"{row.api} is faster: {told}.", "latency")


def _new_errors(changes: Changes) -> Iterator[Finding]:
    new = [row for row in changes.errors if row.word == "new"]
    for row in new[:TOLD_MAX]:
        yield Finding("bad", f"New: {row.name[0]} to {row.name[1]}, {formats.plural(row.after, 'time')}.", "errors")
    more = [row for row in changes.errors if row.word == "more"]
    for row in more[:TOLD_MAX]:
        told = f"{formats.count(row.before)} before, {formats.count(row.after)} after"
        yield Finding("bad", f"More often: {row.name[0]} to {row.name[1]}, {told}.", "errors")
    if gone := sum(row.word == "gone" for row in changes.errors):
        yield Finding("good", f"{formats.plural(gone, 'kind')} of error no longer to be seen.", "errors")


def _new_rules(changes: Changes) -> Iterator[Finding]:
    for row in changes.rules:
        if row.word in ("new", "more"):
            told = f"{formats.count(row.before)} before, {formats.count(row.after)} after"
            yield Finding("bad", f"Rules broken: {row.name[0]}, {told}.", "errors")


def _comings(changes: Changes) -> Iterator[Finding]:
    for word in ("new", "gone", "changed"):
        rows = [row for row in changes.clients if row.word == word]
        if rows:
            names = ", ".join(formats.name(row.name[0]) for row in rows[:TOLD_MAX])
            more = f" and {len(rows) - TOLD_MAX} more" if len(rows) > TOLD_MAX else ""
            what = "Clients with other software" if word == "changed" else f"Clients that are {word}"
            yield Finding("note", f"{what}: {names}{more}.", "clients")


def _latency(changes: Changes) -> Figure:
    cells = [
        (
            row.api,
            _ratio(row),
            *(span(None if each is None else each.p50_us) for each in (row.before, row.after)),
            *(span(None if each is None else each.p95_us) for each in (row.before, row.after)),
            *(span(None if each is None else each.p99_us) for each in (row.before, row.after)),
            *(formats.count(0 if each is None else each.requests) for each in (row.before, row.after)),
        )
        for row in changes.latency
    ]
    head = (
        "API",
        "p95",
        *(f"{name} {when}" for name in ("p50", "p95", "p99", "Answered") for when in ("before", "after")),
    )
    note = "Above: before; below: after. From p50 (dot) over p95 (ring) to p99 (diamond), on a logarithmic scale."
    plot = pairplot.latencies(changes.latency) if changes.latency else None
    return Figure("Before and after", note, plot, Table(head, cells), is_wide=True)


def _ratio(row: LatencyChange) -> str:
    if row.ratio is None:
        return "new" if row.before is None else "gone"
    return f"\N{MULTIPLICATION SIGN} {row.ratio:.3g}"


def _counted(title: str, note: str, head: Sequence[str], rows: Sequence[CountChange], unit: str) -> Figure:
    cells = [
        (
            *(formats.name(part) for part in row.name),
            row.word,
            *(formats.count(value) for value in (row.before, row.after)),
            *("-" if rate is None else f"{rate:,.3g}" for rate in (row.rate_before, row.rate_after)),
        )
        for row in rows[:ROWS_MAX]
    ]
    names = (*head, "Change", "Before", "After", f"Before, {unit}", f"After, {unit}")
    return Figure(title, note, None, Table(names, cells, labels=len(head) + 1), omitted=len(rows[ROWS_MAX:]))


def _errors(changes: Changes) -> Figure:
    note = "Every partition's error counts. More and fewer are told by the rate, from a tenth of difference on."
    return _counted("Errors", note, ("Error", "API"), changes.errors, "in 1,000 requests")


def _rules(changes: Changes) -> Figure:
    return _counted("Rules broken", "Of the protocol.", ("Rule",), changes.rules, "in 1,000 requests")


def _requests(changes: Changes) -> Figure:
    return _counted("Requests", "By API.", ("API",), changes.requests, "a second")


def _sets(title: str, note: str, head: Sequence[str], rows: Sequence[SetChange]) -> Figure:
    cells = [
        (*(named(part) for part in row.name), row.word, ", ".join(row.before) or "-", ", ".join(row.after) or "-")
        for row in rows[:ROWS_MAX]
    ]
    cells = [tuple(formats.name(cell) for cell in row) for row in cells]
    names = (*head, "Change", "Before", "After")
    return Figure(title, note, None, Table(names, cells, labels=len(names)), omitted=len(rows[ROWS_MAX:]))


def _clients(changes: Changes) -> Figure:
    return _sets("Clients and their software", "Those that differ.", ("Client",), changes.clients)


def _versions(changes: Changes) -> Figure:
    return _sets("Versions", "Of each API, by client; those that differ.", ("Client", "API"), changes.versions)


def _captures(changes: Changes) -> Figure:
    cells = [
        (
            when,
            formats.path(row.name),
            formats.count(row.requests),
            "-" if row.first_us is None else formats.moment(row.first_us),
            "-" if row.first_us is None or row.last_us is None else formats.span(row.last_us - row.first_us),
        )
        for when, report in (("before", changes.before), ("after", changes.after))
        for row in report.files
    ]
    return Figure(
        "Files", "In the order given.", None, Table(("", "File", "Requests", "Begins", "Lasts"), cells, labels=2)
    )
