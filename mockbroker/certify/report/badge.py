"""The badge of a client: an SVG image that its README can show."""

from __future__ import annotations

from kwire.report.markup import Markup, tag
from mockbroker.certify.report.counts import VerdictCounts
from mockbroker.certify.verdicts import Verdict

_LABEL = "kafka conformance"
_HEIGHT = 20
#: The mean width of a character at the size of the text, and the space at both ends, pixels.
_CHARACTER, _PADDING = 6.6, 10
_COLOURS = {"passed": "#13795b", "failed": "#b3261e", "nothing": "#6a707a"}


def render_badge(client: str, counts: VerdictCounts) -> str:
    """The badge: how many of the judged cases passed. client: name and version, for screen readers."""
    value = f"{counts.passed}/{counts.judged}" if counts.judged else "not judged"
    failed = counts.counts[Verdict.FAILED] + counts.counts[Verdict.TIMEOUT]
    colour = _COLOURS["failed" if failed else "passed" if counts.judged else "nothing"]
    left, right = _width(_LABEL), _width(value)
    width = left + right
    title = f"{client}: {_LABEL} {value}"
    parts = [
        tag("title", title),
        tag("clipPath", tag("rect", width=width, height=_HEIGHT, rx=3), id="round"),
        tag(
            "g",
            tag("rect", width=left, height=_HEIGHT, fill="#30343b"),
            tag("rect", x=left, width=right, height=_HEIGHT, fill=colour),
            clip_path="url(#round)",
        ),
        tag(
            "g",
            _text(_LABEL, left / 2),
            _text(value, left + right / 2),
            fill="#ffffff",
            text_anchor="middle",
            font_family="Verdana, DejaVu Sans, sans-serif",
            font_size=11,
        ),
    ]
    image = tag(
        "svg",
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        width=width,
        height=_HEIGHT,
        role="img",
        aria_label=title,
    )
    return f"{image}\n"


def _width(label: str) -> int:
    return round(len(label) * _CHARACTER) + _PADDING


def _text(label: str, x: float) -> Markup:
    return tag("text", label, x=x, y=14, textLength=round(len(label) * _CHARACTER))
