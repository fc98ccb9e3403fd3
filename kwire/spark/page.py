"""The report as one HTML page that needs nothing else: no font, no image, nothing from the network.

Its one script searches the tables. Without it everything else is as it was.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from string import Template

from kwire.spark import formats, sections
from kwire.spark.findings import findings
from kwire.spark.markup import Markup, data_island, join, tag, text
from kwire.spark.model import Report

PAGE = Path(__file__).with_name("page")

# A second wall, should text ever pass as markup: the page may run nothing but its own script, load nothing and send
# nothing.
POLICY = (
    "default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)


def render(report: Report) -> str:
    """The whole page."""
    chapters = sections.build(report)
    return document(_title(report), _header(report), chapters, asdict(report))


def document(title: str, header: Markup, chapters: Sequence[sections.Section], data: object) -> str:
    """A page of chapters below a header. Args: data: what the page carries as JSON."""
    style, script = _part("report.css"), _part("report.js")
    policy = POLICY.format(style=_digest(style), script=_digest(script))
    links = [tag("li", tag("a", chapter.short or chapter.title, href=f"#{chapter.anchor}")) for chapter in chapters]
    return Template(_part("report.html")).substitute(
        policy=html.escape(policy),
        style=style,
        script=script,
        title=text(title),
        header=header,
        links=join(*links),
        sections=join(*map(_section, chapters)),
        data=data_island(data),
    )


def _part(name: str) -> str:
    return (PAGE / name).read_text(encoding="utf-8")


def _digest(content: str) -> str:
    return base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def _title(report: Report) -> str:
    if len(report.files) == 1:
        return f"Kafka traffic in {formats.name(Path(report.files[0].name).name)}"
    return f"Kafka traffic in {formats.plural(len(report.files), 'capture')}"


def _header(report: Report) -> Markup:
    span = report.span_us
    when = f"{formats.moment(span[0])}, {formats.span(span[1] - span[0])} long" if span else "No traffic was found."
    noted = [tag("li", tag("span", each.sentence, more(each.anchor)), class_=each.kind) for each in findings(report)]
    return join(
        tag("p", "kwire report", class_="eyebrow"),
        tag("h1", _title(report)),
        tag("p", when, class_="when"),
        tag("dl", *(_tile(name, value) for name, value in _tiles(report)), class_="tiles"),
        tag("ul", *noted, class_="findings", aria_label="What stands out"),
    )


def more(anchor: str) -> Markup | None:
    """A link to the section that shows more; None where there is none."""
    return join(Markup(" "), tag("a", "look", href=f"#{anchor}")) if anchor else None


def _tiles(report: Report) -> list[tuple[str, str]]:
    tiles = [
        ("Requests", formats.count(report.requests)),
        ("Connections", formats.count(report.connections)),
        ("Clients", formats.count(report.clients)),
        ("Data", formats.size(report.req_bytes + report.resp_bytes)),
        ("Error responses", formats.count(report.error_responses)),
        ("Rules broken", formats.count(sum(row.breaches for row in report.rules))),
    ]
    if report.groups:
        tiles += [
            ("Share records", formats.count(sum(row.records for row in report.groups))),
            ("Redelivered", formats.count(sum(row.redelivered for row in report.groups))),
        ]
    return tiles


def _tile(name: str, value: str) -> Markup:
    return tag("div", tag("dt", name), tag("dd", value))


def _section(chapter: sections.Section) -> Markup:
    figures = [_figure(each) for each in chapter.figures]
    return tag("section", tag("h2", chapter.title), tag("p", chapter.lead, class_="lead"), *figures, id=chapter.anchor)


def _figure(each: sections.Figure) -> Markup:
    caption = tag("figcaption", tag("h3", each.title), tag("p", each.note))
    rows = each.table.rows
    # A scrolling region has to be reachable by keyboard, so it takes the focus and has a name.
    table = tag(
        "div", sections.table(each.table), class_="table", tabindex=0, role="region", aria_label=f"{each.title}: table"
    )
    omitted = tag("p", f"and {formats.plural(each.omitted, 'row')} more", class_="empty") if each.omitted else None
    shown = [tag("div", each.plot, class_="plots") if each.plot else None, table if rows else None, omitted]
    if not rows and not each.plot:
        shown = [tag("p", "Nothing in this capture.", class_="empty")]
    return tag("figure", caption, *shown, class_="wide" if each.is_wide or not each.plot else None)
