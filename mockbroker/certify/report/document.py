"""An HTML page of a certification run: complete in itself, with a policy that lets it load and send nothing."""

from __future__ import annotations

import base64
import hashlib
import html
from functools import cache
from pathlib import Path
from string import Template

from kwire.report.markup import Markup, join, tag, text
from mockbroker.certify.verdicts import Verdict

ASSETS = Path(__file__).with_name("assets")

# A second protection, in case text is ever taken for markup.
_POLICY = (
    "default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)

#: The class of each verdict's colour, and what the verdict means.
VERDICTS: dict[Verdict, tuple[str, str]] = {
    Verdict.OK: ("ok", "the client does what the source demands"),
    Verdict.NON_STRICT: ("non-strict", "it does not do what the source recommends"),
    Verdict.FAILED: ("failed", "it does not do what the source demands"),
    Verdict.TIMEOUT: ("timeout", "the case did not end within its time limit"),
    Verdict.UNIMPLEMENTED: ("unimplemented", "the client or its driver lacks what the case needs"),
    Verdict.INFORMATIONAL: ("informational", "the client does not do what the source leaves to its choice"),
    Verdict.NOT_EXERCISED: ("not-exercised", "the client did nothing that the rule is about"),
    Verdict.ERROR: ("error", "a defect of the case, which says nothing about the client"),
}


def render_document(title: str, header: Markup, body: Markup, *, script: str) -> str:
    """A page. script: the name of the asset that it runs."""
    style, code = _read_asset("certify.css"), _read_asset(script)
    return Template(_read_asset("page.html")).substitute(
        policy=html.escape(_POLICY.format(style=_digest(style), script=_digest(code))),
        style=style,
        script=code,
        title=text(title),
        header=header,
        body=body,
    )


def verdict_word(verdict: Verdict, *, href: str | None = None, label: str | None = None) -> Markup:
    """The word of a verdict in its colour, as a link if there is a page for it. label: for screen readers."""
    class_ = f"verdict {VERDICTS[verdict][0]}"
    if href is None:
        return tag("span", verdict.value, class_=class_, aria_label=label)
    return tag("a", verdict.value, class_=class_, href=href, aria_label=label)


def lines(content: str) -> Markup:
    """A text of several lines, for `pre` elements."""
    return Markup("\n".join(map(text, content.splitlines())))


def definitions(entries: list[tuple[str, Markup | str | None]]) -> Markup:
    """Names with their values; entries without a value are left out."""
    rows = [tag("div", tag("dt", name), tag("dd", value)) for name, value in entries if value]
    return tag("dl", *rows, class_="facts")


def section(title: str, *content: Markup | None, anchor: str | None = None) -> Markup:
    """A part of a page with its heading."""
    return tag("section", tag("h2", title), join(*content), id=anchor)


@cache
def _read_asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def _digest(content: str) -> str:
    return base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
