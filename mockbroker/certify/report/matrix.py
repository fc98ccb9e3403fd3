"""The first page of a run: shares by family, and the matrix of cases and clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from kwire.report.markup import Markup, join, tag
from mockbroker.certify.report.counts import VerdictCounts, count_by_family, count_verdicts
from mockbroker.certify.report.document import VERDICTS, lines, render_document, section, verdict_word
from mockbroker.certify.results import CaseRecord, DriverRecord, ResultRecord, RunRecord
from mockbroker.certify.verdicts import Verdict

#: The order of the colours in a share bar.
_BAR = (
    Verdict.OK,
    Verdict.NON_STRICT,
    Verdict.TIMEOUT,
    Verdict.FAILED,
    Verdict.ERROR,
    Verdict.INFORMATIONAL,
    Verdict.NOT_EXERCISED,
    Verdict.UNIMPLEMENTED,
)


def render_index(run: RunRecord, pages: Mapping[tuple[int, str], str]) -> str:
    """The page. pages: the path of the page of a result, by driver index and case id."""
    clients = len(run.drivers)
    title = f"Conformance of {clients} Kafka {'client' if clients == 1 else 'clients'}"
    results = {(result.driver, result.case): result for result in run.results}
    body = join(
        section("Clients", _shares(run), _unusable(run.drivers), anchor="clients"),
        section("Cases", _controls(run), _matrix(run, results, pages), anchor="cases"),
    )
    return render_document(title, _header(title, run), body, script="matrix.js")


def _header(title: str, run: RunRecord) -> Markup:
    counts = count_verdicts(run.results).counts
    tiles = [("Clients", len(run.drivers)), ("Cases", len(run.cases))]
    tiles += [(verdict.value, counts[verdict]) for verdict in VERDICTS if counts[verdict]]
    broker = f"a real Kafka at {run.kafka}" if run.kafka else f"mockbroker as Kafka {run.release}"
    started = datetime.fromisoformat(run.started).strftime("%d %B %Y, %H:%M UTC").lstrip("0")
    return join(
        tag("p", "mockbroker certify", class_="eyebrow"),
        tag("h1", title),
        tag("p", f"{started}; {broker}; seed {run.seed}", class_="when"),
        tag("dl", *(tag("div", tag("dt", name), tag("dd", f"{number:,}")) for name, number in tiles), class_="tiles"),
    )


def _shares(run: RunRecord) -> Markup:
    """A table with a row for each family: of the judged cases, those that passed."""
    families = [count_by_family(run, number) for number in range(len(run.drivers))]
    totals = [
        count_verdicts(result for result in run.results if result.driver == number)
        for number in range(len(run.drivers))
    ]
    names = list(dict.fromkeys(case.family for case in run.cases))
    head = tag("tr", tag("th", "Family", scope="col"), *(_client_head(driver) for driver in run.drivers))
    rows = [
        tag("tr", tag("th", name, scope="row"), *(_share_cell(by_family[name]) for by_family in families))
        for name in names
    ]
    rows.append(tag("tr", tag("th", "all", scope="row"), *map(_share_cell, totals), class_="total"))
    durations = [tag("td", f"{total.duration_ms / 1000:.1f} s", class_="number") for total in totals]
    rows.append(tag("tr", tag("th", "duration of the cases", scope="row"), *durations))
    table = tag("table", tag("thead", head), tag("tbody", *rows), class_="shares")
    note = (
        "Passed cases (OK and NON-STRICT) of those that the client was judged in (these, FAILED and TIMEOUT); beside "
        "them those with other verdicts, which are neither passed nor failed."
    )
    return join(tag("p", note, class_="lead"), _scrolling(table, "Shares of passed cases"))


def _client_head(driver: DriverRecord) -> Markup:
    return tag(
        "th",
        tag("span", driver.name or driver.command, class_="client"),
        tag("span", f"{driver.version} {driver.language}".strip(), class_="version"),
        scope="col",
    )


def _share_cell(counts: VerdictCounts) -> Markup:
    total = counts.counts.total()
    others = total - counts.judged
    parts = [
        tag("rect", x=f"{start:.2f}%", width=f"{width:.2f}%", height=6, class_=f"fill-{VERDICTS[verdict][0]}")
        for verdict, start, width in _bar_parts(counts)
    ]
    bar = tag("svg", *parts, width="100%", height=6, role="presentation")
    label = f"{counts.passed}/{counts.judged}" if counts.judged else "-"
    more = tag("span", f" +{others}", class_="lacking", title=f"{others} not judged") if others else None
    return tag("td", tag("span", label, class_="share"), more, bar if total else None)


def _bar_parts(counts: VerdictCounts) -> list[tuple[Verdict, float, float]]:
    total, start, parts = counts.counts.total(), 0.0, []
    for verdict in _BAR:
        width = 100 * counts.counts[verdict] / total if total else 0.0
        if width:
            parts.append((verdict, start, width))
            start += width
    return parts


def _unusable(drivers: Sequence[DriverRecord]) -> Markup | None:
    wrong = [driver for driver in drivers if driver.error]
    if not wrong:
        return None
    items = [
        tag("li", tag("code", driver.command), tag("pre", lines(driver.error or "")), class_="unusable")
        for driver in wrong
    ]
    return join(tag("h3", "Drivers that could not be used"), tag("ul", *items))


def _controls(run: RunRecord) -> Markup:
    used = {result.verdict for result in run.results}
    boxes = [
        tag(
            "label",
            tag("input", type="checkbox", checked="checked", value=verdict.value),
            verdict_word(verdict),
            title=meaning,
        )
        for verdict, (_, meaning) in VERDICTS.items()
        if verdict in used
    ]
    search = tag(
        "input",
        type="search",
        id="search",
        placeholder="Search the cases",
        aria_label="Search the cases",
        autocomplete="off",
        spellcheck="false",
    )
    return tag(
        "form",
        search,
        tag("output", id="found", for_="search"),
        tag("fieldset", tag("legend", "Rows with"), *boxes),
        class_="controls",
        id="controls",
        hidden="hidden",
    )


def _matrix(
    run: RunRecord, results: Mapping[tuple[int, str], ResultRecord], pages: Mapping[tuple[int, str], str]
) -> Markup:
    head = tag(
        "tr",
        tag("th", "Case", scope="col"),
        tag("th", "Level", scope="col"),
        *(_client_head(driver) for driver in run.drivers),
    )
    bodies: list[Markup] = []
    rows: list[Markup] = []
    family = ""
    for case in run.cases:
        if case.family != family:
            if rows:
                bodies.append(tag("tbody", *rows))
            family = case.family
            rows = [tag("tr", tag("th", family, colspan=2 + len(run.drivers), scope="rowgroup"), class_="family")]
        rows.append(_case_row(case, run, results, pages))
    if rows:
        bodies.append(tag("tbody", *rows))
    table = tag("table", tag("thead", head), *bodies, class_="matrix", id="matrix")
    return _scrolling(table, "Verdicts by case and client")


def _case_row(
    case: CaseRecord,
    run: RunRecord,
    results: Mapping[tuple[int, str], ResultRecord],
    pages: Mapping[tuple[int, str], str],
) -> Markup:
    cells = []
    for number, driver in enumerate(run.drivers):
        result = results.get((number, case.id))
        if result is None:
            cells.append(tag("td", "-", class_="none"))
            continue
        label = f"{case.id} with {driver.label}: {result.verdict.value}"
        word = verdict_word(result.verdict, href=pages.get((number, case.id)), label=label)
        hint = result.expected or result.seen
        cells.append(tag("td", word, title=hint or None))
    name = tag(
        "th",
        tag("span", case.id.removeprefix(f"{case.family}."), class_="case"),
        tag("span", case.title, class_="title"),
        scope="row",
    )
    return tag("tr", name, tag("td", case.level, class_="level"), *cells, id=case.id)


def _scrolling(table: Markup, label: str) -> Markup:
    """A region that can be scrolled by keyboard, too."""
    return tag("div", table, class_="table", tabindex=0, role="region", aria_label=label)
