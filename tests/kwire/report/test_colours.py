"""The table of colours: each meaning has a colour of its own."""

from __future__ import annotations

import re
from collections import Counter
from itertools import combinations

import pytest

from kwire.report.colours import COLOURS, class_of, rank_classes, style_sheet
from kwire.report.plots.share_partitions import STATES
from kwire.report.sections import clients, connections, groups, shares

# The distance of two colours in Oklab from which they can be distinguished side by side, and within a legend.
DISTANCE_MIN = 0.03
LEGEND_DISTANCE_MIN = 0.07


def oklab(colour: str) -> tuple[float, float, float]:
    """A colour in Oklab, by the matrices of its definition."""
    values = [int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5)]
    red, green, blue = (value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in values)
    long = (0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue) ** (1 / 3)
    middle = (0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue) ** (1 / 3)
    short = (0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue) ** (1 / 3)
    return (
        0.2104542553 * long + 0.7936177850 * middle - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * middle + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * middle - 0.8086757660 * short,
    )


def distance(first: str, second: str) -> float:
    return float(sum((one - other) ** 2 for one, other in zip(oklab(first), oklab(second), strict=True)) ** 0.5)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_two_meanings_have_the_same_colour(theme: str) -> None:
    colours = {meaning: getattr(colour, theme) for meaning, colour in COLOURS.items()}

    close = [
        (first, second)
        for first, second in combinations(colours, 2)
        if distance(colours[first], colours[second]) < DISTANCE_MIN
    ]
    assert close == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(
    "classes",
    [
        {str(rank): class_of(f"api-{rank}") for rank in range(1, 7)},
        {str(rank): class_of(f"error-{rank}") for rank in range(1, 7)},
        shares.COUNT_CLASSES,
        shares.OUTCOME_CLASSES,
        shares.DELIVERY_CLASSES,
        connections.ENDED_CLASSES,
        connections.CHURN_CLASSES,
        connections.TCP_ISSUE_CLASSES,
        clients.TINY_CLASSES,
        groups.CLASSES,
        STATES,
    ],
)
def test_the_colours_of_one_legend_are_far_apart(classes: dict[str, str], theme: str) -> None:
    colours = {name: getattr(COLOURS[class_.removeprefix("m-")], theme) for name, class_ in classes.items()}

    close = [
        (first, second)
        for first, second in combinations(colours, 2)
        if distance(colours[first], colours[second]) < LEGEND_DISTANCE_MIN
    ]
    assert close == []


def test_the_style_sheet_has_every_meaning_for_both_themes() -> None:
    variables = Counter(re.findall(r"--m-([\w-]+): #[0-9a-f]{6};", style_sheet()))

    assert variables == dict.fromkeys(COLOURS, 2)
    assert all(f".{class_of(meaning)} {{ fill: var(--m-{meaning}); }}" in style_sheet() for meaning in COLOURS)


def test_a_meaning_that_is_not_in_the_table_is_an_error() -> None:
    with pytest.raises(KeyError, match="colourless"):
        class_of("colourless")


def test_series_of_names_are_coloured_by_rank_and_the_rest_as_others() -> None:
    classes = rank_classes(["Fetch", "Produce", "others"], "api", others="others")

    assert classes == {"Fetch": "m-api-1", "Produce": "m-api-2", "others": "m-others"}
