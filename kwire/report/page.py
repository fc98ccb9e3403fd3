"""Rendering of a report as one self-contained HTML page: no external font or image, nothing from the network.

Its only script searches the tables; without it everything else works.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from string import Template

from kwire.report import colours, formats, sections
from kwire.report.findings import Finding, build_findings
from kwire.report.markup import Markup, data_island, join, tag, text
from kwire.report.model import Report

ASSETS = Path(__file__).with_name("assets")

# A second protection, in case text is ever taken for markup: the page may run only its own script, and may not load or
# send anything.
POLICY = (
    "default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)


def render_report(report: Report) -> str:
    """The page of a report."""
    page_sections = sections.build_sections(report)
    return render_document(_title(report), _header(report), page_sections, asdict(report))


def render_document(title: str, header: Markup, page_sections: Sequence[sections.Section], data: object) -> str:
    """A page of sections below a header. Args: data: embedded in the page as JSON."""
    style, script = colours.style_sheet() + _read_asset("report.css"), _read_asset("report.js")
    policy = POLICY.format(style=_digest(style), script=_digest(script))
    links = [tag("li", tag("a", part.short or part.title, href=f"#{part.anchor}")) for part in page_sections]
    return Template(_read_asset("report.html")).substitute(
        policy=html.escape(policy),
        style=style,
        script=script,
        title=text(title),
        header=header,
        links=join(*links),
        sections=join(*map(_render_section, page_sections)),
        data=data_island(data),
    )


def _read_asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def _digest(content: str) -> str:
    return base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def _title(report: Report) -> str:
    if len(report.files) == 1:
        return f"Kafka traffic in {formats.name(Path(report.files[0].name).name)}"
    return f"Kafka traffic in {formats.plural(len(report.files), 'capture')}"


def _header(report: Report) -> Markup:
    span = report.span_us
    when = (
        f"{formats.moment(span[0])}, {formats.span(span[1] - span[0])} from the first message to the last"
        if span
        else "No traffic was found."
    )
    tiles = {name: tag("dd", value) for name, value in _tiles(report).items()}
    return render_header("kwire report", _title(report), when, tiles, build_findings(report))


def render_header(eyebrow: str, title: str, when: str, tiles: Mapping[str, Markup], findings: list[Finding]) -> Markup:
    """The top of a page. Args: tiles: the most important numbers by name, as `dd` elements."""
    items = [tag("li", tag("span", one.sentence, _section_link(one.anchor)), class_=one.kind) for one in findings]
    return join(
        tag("p", eyebrow, class_="eyebrow"),
        tag("h1", title),
        tag("p", when, class_="when"),
        tag("dl", *(tag("div", tag("dt", name), value) for name, value in tiles.items()), class_="tiles"),
        tag("ul", *items, class_="findings", aria_label="Findings"),
    )


def _section_link(anchor: str) -> Markup | None:
    return join(Markup(" "), tag("a", "details", href=f"#{anchor}")) if anchor else None


def _tiles(report: Report) -> dict[str, str]:
    tiles = {
        "Requests": formats.count(report.requests),
        "Connections": formats.count(report.connections),
        "Clients": formats.count(report.clients),
        "Data": formats.size(report.req_bytes + report.resp_bytes),
        "Error responses": formats.count(report.error_responses),
        "Breaches of rules": formats.count(report.breach_count),
    }
    if report.groups:
        tiles["Records delivered"] = formats.count(sum(row.records for row in report.groups))
        tiles["Redelivered records"] = formats.count(sum(row.redelivered for row in report.groups))
    return tiles


def _render_section(section: sections.Section) -> Markup:
    figures = [_render_figure(figure) for figure in section.figures]
    return tag("section", tag("h2", section.title), tag("p", section.lead, class_="lead"), *figures, id=section.anchor)


def _render_figure(figure: sections.Figure) -> Markup:
    caption = tag("figcaption", tag("h3", figure.title), tag("p", figure.note))
    rows = figure.table.rows
    # A scrolling region must be reachable by keyboard, so it is focusable and has a name.
    label = f"{figure.title}: table"
    table = tag("div", sections.render_table(figure.table), class_="table", tabindex=0, role="region", aria_label=label)
    omitted = tag("p", f"and {formats.plural(figure.omitted, 'more row')}", class_="empty") if figure.omitted else None
    content = [tag("div", figure.plot, class_="plots") if figure.plot else None, table if rows else None, omitted]
    if not rows and not figure.plot:
        content = [tag("p", "Nothing in this capture.", class_="empty")]
    return tag("figure", caption, *content, class_="wide" if figure.is_wide or not figure.plot else None)
