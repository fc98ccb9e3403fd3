"""The report page: its content, escaping of text, and how a browser renders it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from kwire.report import page
from kwire.report.colours import COLOURS, class_of
from kwire.report.model import Report, Timeline
from tests.support.browser import Browser
from tests.support.spark.report_page import Reader, assert_page_is_rendered
from tests.support.spark.sample_report import HOSTILE, report

pytestmark = pytest.mark.slow


def open_page(chromium: Browser, folder: Path, text: str, *, width: int = 1280, dark: bool = False) -> None:
    file = folder / "page.html"
    file.write_text(text, encoding="utf-8")
    chromium.open(file, width=width, dark=dark)


def empty() -> Report:
    nothing = Timeline(0, 1, 1, {})
    return Report(
        files=[], statuses={}, clients=0, connections=0, latency=[], traffic=nothing, errors=nothing, error_rows=[]
    )


def test_a_hostile_name_stays_text_everywhere() -> None:
    reader = Reader(page.render_report(report(HOSTILE)))

    assert "img" not in reader.tags
    assert reader.tags.count("script") == 2
    assert not [name for name in reader.attributes if name.startswith("on")]
    assert any(HOSTILE in text for text in reader.texts)
    assert json.loads(reader.data)["deliveries"][0]["group"] == HOSTILE


@pytest.mark.parametrize("name", ["a\u202egpj.exe", "line\nbreak\x1b[2J", "nul\x00"])
def test_a_name_cannot_hide_or_reorder_what_is_shown(name: str) -> None:
    text = page.render_report(report(name))

    assert not set(name) & set("\u202e\x1b\x00") & set(text)


def test_a_long_name_is_cut() -> None:
    shown = "".join(text for text in Reader(page.render_report(report("x" * 32_767))).texts if not text.startswith("{"))

    assert "x" * 81 not in shown
    assert "(32,687 more)" in shown


def test_the_page_loads_nothing_and_its_policy_allows_only_its_own_script() -> None:
    text = page.render_report(report())
    reader = Reader(text)

    assert [address for address in reader.addresses if not address.startswith(("#", "data:"))] == []
    assert "default-src &#x27;none&#x27;; style-src &#x27;sha256-" in text
    script = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in script]
    assert len(digests) == 1
    assert f"script-src &#x27;sha256-{digests[0]}&#x27;;" in text
    assert "style" not in reader.attributes
    assert "@import" not in text
    assert "url(" not in text


def test_every_number_of_a_plot_is_in_a_table_too() -> None:
    texts = Reader(page.render_report(report())).texts

    for number in ("v12-v13", "2.01 ms", "INVALID_RECORD_STATE", "1,310", "700", "no response"):
        assert number in texts


def test_an_empty_report_has_a_finding_about_it() -> None:
    text = page.render_report(empty())

    assert "No Kafka request was found in these captures." in text
    assert "Share groups" not in text


def test_percentiles_of_few_requests_are_not_on_the_page() -> None:
    few = [replace(row, requests=4) for row in report().latency]
    uses = [replace(row, ranges=4) for row in report().lock_use]
    connections = [replace(row, answered=4, p50_us=851) for row in report().connection_rows]

    for whole, is_shown in (
        (report(), True),
        (replace(report(), latency=few, lock_use=uses, connection_rows=connections), False),
    ):
        texts = Reader(page.render_report(whole)).texts
        for number in ("620 µs", "2.01 ms", "41 ms", "900 ms"):
            assert (number in texts) is is_shown, number
        assert "851 µs" not in texts
        assert "5.41 ms" in texts


# What one colour stands for, where it has more than one name: an acknowledgement, the outcome and the state after it.
SYNONYMS = [
    {"accept", "accepted", "acknowledged"},
    {"release", "released", "available"},
    {"reject", "rejected"},
    {"open", "not acknowledged"},
    {"acquired", "most acquired within the step"},
    {"refused", "reset", "error"},
]
LEGENDS = """[...document.querySelectorAll('.legend:not(.marks) li')].map(entry => {
    const style = getComputedStyle(entry.querySelector('rect'));
    return [entry.textContent, style.fill];
})"""


@pytest.mark.parametrize("dark", [False, True])
def test_a_colour_has_one_meaning_on_the_whole_page(chromium: Browser, tmp_path: Path, dark: bool) -> None:
    open_page(chromium, tmp_path, page.render_report(report()), dark=dark)
    names: dict[str, set[str]] = {}
    colours: dict[str, set[str]] = {}
    for name, colour in chromium.evaluate(LEGENDS):
        # The shades of a heat map are steps of one amount.
        if not name.startswith("up to "):
            names.setdefault(colour, set()).add(name)
            colours.setdefault(name, set()).add(colour)

    assert len(names) >= 25
    assert [one for one in names.values() if len(one) > 1 and not any(one <= synonyms for synonyms in SYNONYMS)] == []
    # The sums of small series of both plots are `others`.
    assert {name: one for name, one in colours.items() if len(one) > 1} == {}


def test_every_mark_has_a_colour_of_the_table() -> None:
    text = page.render_report(report())
    used = set(re.findall(r'class="(?:[\w-]+ )*(m-[\w-]+)', text))

    assert used
    assert used <= {class_of(meaning) for meaning in COLOURS}
    assert not re.search(r'class="(mark )?[cde][0-9]', text)


# How far the last row of plots reaches, as a part of the width of their card.
FILL = """[...document.querySelectorAll('.panels')].map(list => {
    const last = list.lastElementChild.getBoundingClientRect(), whole = list.getBoundingClientRect();
    return (last.right - whole.left) / whole.width;
})"""


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 6, 8])
def test_the_plots_of_share_partitions_fill_their_card(
    chromium: Browser, tmp_path: Path, count: int, width: int
) -> None:
    open_page(chromium, tmp_path, page.render_report(replace(report(), panels=report().panels * count)), width=width)

    assert chromium.evaluate(FILL) == [pytest.approx(1, abs=0.01)]


TICKS = """[...document.querySelectorAll('text.tick')].filter(tick => tick.getBoundingClientRect().width).map(tick => {
    const box = tick.getBoundingClientRect(), plot = tick.closest('figure').getBoundingClientRect();
    return {text: tick.textContent, row: Math.round(box.top), left: box.left, right: box.right,
            inside: box.left >= plot.left && box.right <= plot.right};
})"""


@pytest.mark.parametrize("width", [1280, 390])
def test_time_ticks_are_round_and_apart_in_every_plot(chromium: Browser, tmp_path: Path, width: int) -> None:
    open_page(chromium, tmp_path, page.render_report(report()), width=width)
    ticks = chromium.evaluate(TICKS)

    assert len(ticks) >= 25
    # The capture lasts 47 s from 10:42:03 on: every plot has its ticks at tens of seconds.
    assert {tick["text"][-3:] for tick in ticks} == {":10", ":20", ":30", ":40", ":50"}
    assert all(tick["inside"] for tick in ticks)
    for first, second in combinations(ticks, 2):
        if first["row"] == second["row"]:
            assert first["right"] < second["left"] or second["right"] < first["left"], (first, second)


def test_deliveries_have_one_name_on_the_page() -> None:
    texts = " ".join(text for text in Reader(page.render_report(report())).texts if not text.startswith("{")).lower()
    words = set(re.findall(r"[a-z-]+", re.sub(r"<style>.*?</style>", "", texts)))

    assert {"delivery", "deliveries", "redelivered"} <= words
    assert not words & {"acquisitions", "attempts", "hand-outs", "handed"}


def test_no_number_one_has_a_plural() -> None:
    whole = report()
    states = {"acquired": [1], "available": [0], "acknowledged": [0], "archived": [0]}
    panel = replace(whole.panels[0], series=states, peaks=[1], starts=[1], ends=[2], readings=[])
    one = replace(
        whole,
        latency=[replace(row, requests=1) for row in whole.latency],
        panels=[panel],
        poison=[replace(whole.poison[0], deliveries=1)],
        connection_rows=[replace(whole.connection_rows[0], requests=1, retransmits=1, zero_windows=0)],
        omitted={"conformance": 1},
    )
    text = re.sub(r"<(style|script)[^>]*>.*?</\1>", "", page.render_report(one), flags=re.DOTALL)

    # Not the end of a larger number, and no unit: "1 ms".
    assert re.findall(r"(?<![\d.,:])1 [a-z]{3,}s\b", text) == []
    for phrase in ("1 request<", "1 TCP issue<", "1 delivery, ", "at most 1 record in flight", "and 1 more row<"):
        assert phrase in text, phrase


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", ["orders", HOSTILE, "w" * 400])
def test_a_browser_renders_every_plot_inside_the_page(
    chromium: Browser, tmp_path: Path, width: int, dark: bool, name: str
) -> None:
    open_page(chromium, tmp_path, page.render_report(report(name)), width=width, dark=dark)

    assert_page_is_rendered(chromium, plots_min=35)


def test_the_browser_helper_detects_a_broken_page(chromium: Browser, tmp_path: Path) -> None:
    broken = "<svg role=img></svg><script>nothing.here()</script><div style='width:2000px'>wide</div>"
    open_page(chromium, tmp_path, broken, width=390)

    assert chromium.errors != []
    assert not chromium.evaluate("document.documentElement.scrollWidth <= innerWidth")


SEARCH = """(words => {
    const input = document.getElementById('search');
    input.value = words;
    input.dispatchEvent(new Event('input'));
    const shown = selector => [...document.querySelectorAll(selector)].filter(element => element.offsetParent !== null);
    return {
        rows: shown('main tbody tr').length,
        sections: shown('main section').map(element => element.id),
        result: document.getElementById('found').textContent,
    };
})"""


def test_the_search_shows_the_rows_that_contain_every_word(chromium: Browser, tmp_path: Path) -> None:
    open_page(chromium, tmp_path, page.render_report(report()))

    everything = chromium.evaluate(f"{SEARCH}('')")
    found = chromium.evaluate(f"{SEARCH}('INVALID_record  shareack')")
    nothing = chromium.evaluate(f"{SEARCH}('no such thing')")

    assert everything["sections"] == [
        *("latency", "time", "share-groups", "locks", "clients", "connections", "groups", "conformance", "capture")
    ]
    assert everything["result"] == ""
    assert found == {"rows": 1, "sections": ["time"], "result": "1 row"}
    assert nothing == {"rows": 0, "sections": [], "result": "0 rows"}
    assert chromium.evaluate(f"{SEARCH}('')") == everything
    assert chromium.errors == []


def test_a_search_for_a_title_shows_the_whole_section(chromium: Browser, tmp_path: Path) -> None:
    open_page(chromium, tmp_path, page.render_report(report()))

    found = chromium.evaluate(f"{SEARCH}('groups and rebalances')")

    assert found["sections"] == ["groups"]
    assert (found["rows"], found["result"]) == (8, "8 rows")


def test_a_hostile_search_stays_text(chromium: Browser, tmp_path: Path) -> None:
    open_page(chromium, tmp_path, page.render_report(report(HOSTILE)))

    found = chromium.evaluate(f"{SEARCH}({json.dumps(HOSTILE)})")

    assert found["rows"] > 10
    assert chromium.evaluate("document.images.length") == 0
    assert chromium.errors == []


def test_injected_scripts_and_handlers_are_refused_by_the_page_s_own_policy(chromium: Browser, tmp_path: Path) -> None:
    """The protection in case escaping fails."""
    injection = "<script>alert.called = 1</script><img src=x onerror='alert.called = 2'>"
    open_page(chromium, tmp_path, page.render_report(report()).replace("<main>", f"<main>{injection}"))

    assert chromium.evaluate("typeof alert.called") == "undefined"
    assert len(chromium.errors) >= 2


def test_without_its_script_the_page_hides_only_the_search() -> None:
    text = re.sub(r"<(script|style)>.*?</\1>", "", page.render_report(report()), flags=re.DOTALL)

    assert text.count(" hidden") == text.count('<p class="search" hidden>') == 1


def test_secrets_are_in_no_column_of_a_report() -> None:
    names = set(json.dumps(json.loads(Reader(page.render_report(report())).data)).replace('"', " ").split())

    assert not names & {"password", "token", "principal", "auth_bytes", "body_request"}
