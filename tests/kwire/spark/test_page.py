"""The report page: what it says, that text stays text, and how a browser shows it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from kwire.spark import page
from kwire.spark.model import Report, Timeline
from tests.kwire.spark.browser import Browser
from tests.kwire.spark.samples import HOSTILE, report
from tests.kwire.spark.sights import Reader, assert_all_is_seen


def empty() -> Report:
    nothing = Timeline(0, 1, 1, {})
    return Report(
        files=[], statuses={}, clients=0, connections=0, latency=[], traffic=nothing, errors=nothing, error_rows=[]
    )


def test_a_hostile_name_stays_text_everywhere() -> None:
    reader = Reader(page.render(report(HOSTILE)))

    assert "img" not in reader.tags
    assert reader.tags.count("script") == 2
    assert not [name for name in reader.attributes if name.startswith("on")]
    assert any(HOSTILE in text for text in reader.texts)
    assert json.loads(reader.data)["deliveries"][0]["group"] == HOSTILE


@pytest.mark.parametrize("name", ["a\u202egpj.exe", "line\nbreak\x1b[2J", "nul\x00"])
def test_a_name_cannot_hide_or_reorder_what_is_shown(name: str) -> None:
    text = page.render(report(name))

    assert not set(name) & set("\u202e\x1b\x00") & set(text)


def test_a_name_of_any_length_takes_bounded_room() -> None:
    shown = "".join(text for text in Reader(page.render(report("x" * 32_767))).texts if not text.startswith("{"))

    assert "x" * 81 not in shown
    assert "(32,687 more)" in shown


def test_the_page_loads_nothing_and_may_run_nothing_but_its_own_script() -> None:
    text = page.render(report())
    reader = Reader(text)

    assert [address for address in reader.addresses if not address.startswith(("#", "data:"))] == []
    assert "default-src &#x27;none&#x27;; style-src &#x27;sha256-" in text
    script = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in script]
    assert len(digests) == 1
    assert f"script-src &#x27;sha256-{digests[0]}&#x27;;" in text
    assert "style" not in reader.attributes
    assert "@import" not in text
    assert "url(" not in text


def test_every_number_of_a_plot_stands_in_a_table_too() -> None:
    texts = Reader(page.render(report())).texts

    for number in ("v12-v13", "1.75 ms", "INVALID_RECORD_STATE", "1,310", "700", "no response"):
        assert number in texts


def test_rows_that_are_left_out_are_counted() -> None:
    whole = report()
    groups = [replace(whole.groups[0], group=f"g{index}") for index in range(40)]
    texts = Reader(page.render(replace(whole, groups=groups, omitted={"acknowledgements": 7}))).texts

    assert "and 7 rows more" in texts
    assert any("Drawn are the 12 with the most redeliveries of 40." in text for text in texts)


def test_a_report_about_nothing_says_so() -> None:
    text = page.render(empty())

    assert "No Kafka request was found in these captures." in text
    assert "Share groups" not in text


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", ["orders", HOSTILE, "w" * 400])
def test_a_browser_shows_every_plot_inside_the_page(
    chromium: Browser, tmp_path: Path, width: int, dark: bool, name: str
) -> None:
    file = tmp_path / "report.html"
    file.write_text(page.render(report(name)), encoding="utf-8")

    chromium.open(file, width=width, dark=dark)

    assert_all_is_seen(chromium, plots_min=35)


def test_the_browser_helper_hears_a_broken_page(chromium: Browser, tmp_path: Path) -> None:
    file = tmp_path / "broken.html"
    file.write_text("<svg role=img></svg><script>nothing.here()</script><div style='width:2000px'>wide</div>")

    chromium.open(file, width=390)

    assert chromium.complaints != []
    assert not chromium.ask("document.documentElement.scrollWidth <= innerWidth")


SEARCH = """(words => {
    const input = document.getElementById('search');
    input.value = words;
    input.dispatchEvent(new Event('input'));
    const shown = selector => [...document.querySelectorAll(selector)].filter(each => each.offsetParent !== null);
    return {
        rows: shown('main tbody tr').length,
        sections: shown('main section').map(each => each.id),
        told: document.getElementById('found').textContent,
    };
})"""


def test_the_search_leaves_the_rows_that_hold_every_word(chromium: Browser, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(page.render(report()), encoding="utf-8")
    chromium.open(file, width=1280)

    everything = chromium.ask(f"{SEARCH}('')")
    found = chromium.ask(f"{SEARCH}('INVALID_record  shareack')")
    nothing = chromium.ask(f"{SEARCH}('no such thing')")

    assert everything["sections"] == [
        *("latency", "time", "share-groups", "locks", "clients", "connections", "groups", "conformance", "capture")
    ]
    assert everything["told"] == ""
    assert found == {"rows": 1, "sections": ["time"], "told": "1 row"}
    assert nothing == {"rows": 0, "sections": [], "told": "0 rows"}
    assert chromium.ask(f"{SEARCH}('')") == everything
    assert chromium.complaints == []


def test_a_search_for_a_title_shows_what_stands_below_it(chromium: Browser, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(page.render(report()), encoding="utf-8")
    chromium.open(file, width=1280)

    found = chromium.ask(f"{SEARCH}('groups and rebalances')")

    assert found["sections"] == ["groups"]
    assert (found["rows"], found["told"]) == (8, "8 rows")


def test_a_hostile_search_stays_text(chromium: Browser, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(page.render(report(HOSTILE)), encoding="utf-8")
    chromium.open(file, width=1280)

    found = chromium.ask(f"{SEARCH}({json.dumps(HOSTILE)})")

    assert found["rows"] > 10
    assert chromium.ask("document.images.length") == 0
    assert chromium.complaints == []


def test_injected_scripts_and_handlers_are_refused_by_the_page_s_own_policy(chromium: Browser, tmp_path: Path) -> None:
    """Should escaping ever fail, this is what stands behind it."""
    file = tmp_path / "report.html"
    hole = "<script>alert.called = 1</script><img src=x onerror='alert.called = 2'>"
    file.write_text(page.render(report()).replace("<main>", f"<main>{hole}"), encoding="utf-8")

    chromium.open(file, width=1280)

    assert chromium.ask("typeof alert.called") == "undefined"
    assert len(chromium.complaints) >= 2


def test_without_its_script_the_page_shows_everything_but_the_search() -> None:
    text = re.sub(r"<(script|style)>.*?</\1>", "", page.render(report()), flags=re.DOTALL)

    assert text.count(" hidden") == text.count('<p class="search" hidden>') == 1


def test_secrets_are_in_no_column_of_a_report_and_contents_in_one_that_is_left_out_unless_asked_for() -> None:
    whole = report()
    names = set(json.dumps(json.loads(Reader(page.render(whole)).data)).replace('"', " ").split())
    asked = replace(whole, poison=[replace(whole.poison[0], key="null", value=HOSTILE)])

    assert not names & {"password", "token", "principal", "auth_bytes", "body_request"}
    assert "Value" not in Reader(page.render(whole)).texts
    assert {"Value", HOSTILE} <= set(Reader(page.render(asked)).texts)
