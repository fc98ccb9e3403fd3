"""The colours of all plots: one table from what a mark means to its colour, and the style sheet that it gives.

A mark has the class `m-` and its meaning. Within the page a colour has one meaning, and a meaning one colour.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

PREFIX = "m-"


@dataclass(frozen=True, slots=True)
class Colour:
    """The colour of one meaning on a light and on a dark page, as `#rrggbb`."""

    light: str
    dark: str


#: What a mark means, and its colour.
COLOURS: Mapping[str, Colour] = {
    # Plots of one amount only: requests of a client, latencies, requests in flight.
    "amount": Colour("#2f6fca", "#6aa3f5"),
    # Refused, reset, wrong, after the lock.
    "failure": Colour("#c8372d", "#f2695f"),
    "throttled": Colour("#8f4a12", "#d99058"),
    # Series of names, by rank, and the sum of the smaller ones.
    "api-1": Colour("#4e79a7", "#7fa0c8"),
    "api-2": Colour("#f28e2b", "#ffb066"),
    "api-3": Colour("#59a14f", "#86cf7b"),
    "api-4": Colour("#af7aa1", "#d7a6ca"),
    "api-5": Colour("#9c755f", "#a8805f"),
    "api-6": Colour("#86bcb6", "#a5d8d2"),
    "error-1": Colour("#e15759", "#ff8f91"),
    "error-2": Colour("#8d4fa8", "#bd86d6"),
    "error-3": Colour("#b98a00", "#d9b13b"),
    "error-4": Colour("#3e4c59", "#a3b4c5"),
    "error-5": Colour("#d37295", "#f9cbe0"),
    "error-6": Colour("#3a6d7c", "#6fa3b1"),
    "others": Colour("#b8b8ae", "#5b606a"),
    # Delivery counts, from light to dark.
    "delivery-1": Colour("#9ecae1", "#4f8aad"),
    "delivery-2": Colour("#fdd08a", "#f7dcae"),
    "delivery-3": Colour("#fb9a5b", "#f4b98c"),
    "delivery-4": Colour("#e8604c", "#e8876a"),
    "delivery-5": Colour("#a50f15", "#d4503f"),
    "delivery-6": Colour("#5c0011", "#a3324a"),
    # Acknowledgements, and the states that they lead to.
    "accepted": Colour("#2a9d7f", "#4fc3a1"),
    "available": Colour("#e6a23c", "#f0c05c"),
    "rejected": Colour("#b0306e", "#e879b0"),
    "renewed": Colour("#4f5bd5", "#8f9bff"),
    "gap": Colour("#8f98a3", "#7b828d"),
    "exhausted": Colour("#7d3c98", "#b06fd0"),
    "not-acknowledged": Colour("#d3d0c2", "#434952"),
    "acquired": Colour("#14a3c7", "#45c8e8"),
    "archived": Colour("#6b3a2e", "#c08a7a"),
    "offsets": Colour("#6c7a89", "#93a1b1"),
    "state-read": Colour("#3b2f80", "#c3b6ff"),
    # How connections begin and end.
    "opened": Colour("#38b24a", "#7be06f"),
    "closed": Colour("#6f7d1c", "#97a13c"),
    "idle-closed": Colour("#cbb67c", "#d3caa0"),
    "ports-reused": Colour("#e07b39", "#ff8f3f"),
    "inactive": Colour("#8b8178", "#9b9188"),
    "open-at-end": Colour("#1d6f5e", "#2f9c86"),
    # Steps of group members.
    "joining": Colour("#e3c000", "#ffe066"),
    "syncing": Colour("#c04fd0", "#e59af0"),
    "member-odd": Colour("#3d5a99", "#86a5e8"),
    "member-even": Colour("#2b8a9e", "#74cfe0"),
    "left": Colour("#57534e", "#b8b2aa"),
    # Sizes of requests, and TCP issues.
    "below-1-kib": Colour("#d9480f", "#ff7a45"),
    "larger": Colour("#a5b4d4", "#51607f"),
    "retransmitted": Colour("#c77d0a", "#f3ae4a"),
    "zero-window": Colour("#8a1538", "#ff7aa2"),
    # The earlier of two captures; the later one is drawn as `amount`.
    "before": Colour("#7a8ba0", "#7f8da6"),
}


def class_of(meaning: str) -> str:
    """The CSS class of a meaning in the table. Raises: KeyError."""
    if meaning not in COLOURS:
        raise KeyError(meaning)
    return f"{PREFIX}{meaning}"


def rank_classes(names: Iterable[str], family: str, *, others: str) -> dict[str, str]:
    """A class for each name of a series: by its rank one of the family's, and that of the rest for `others`."""
    ranked = [name for name in names if name != others]
    classes = {name: class_of(f"{family}-{index}") for index, name in enumerate(ranked, 1)}
    return {name: classes.get(name, class_of("others")) for name in names}


def style_sheet() -> str:
    """CSS: a variable and a class for each meaning."""

    def variables(theme: str) -> str:
        return " ".join(f"--{PREFIX}{meaning}: {getattr(colour, theme)};" for meaning, colour in COLOURS.items())

    classes = " ".join(f".{PREFIX}{meaning} {{ fill: var(--{PREFIX}{meaning}); }}" for meaning in COLOURS)
    dark = f"@media (prefers-color-scheme: dark) {{ :root {{ {variables('dark')} }} }}"
    return f":root {{ {variables('light')} }}\n{dark}\n{classes}\n"
