"""The pages of a run: every result is reachable, text is escaped, nothing is loaded, and a case shows what decided."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest

from mockbroker.certify.report.write_pages import badge_names, write_pages
from mockbroker.certify.results import (
    CallRecord,
    CaseRecord,
    DecodedRecord,
    Details,
    DriverRecord,
    ExchangeRecord,
    ResultRecord,
    RunRecord,
)
from mockbroker.certify.verdicts import Verdict

HOSTILE = "<script>alert(1)</script>\x1b[2J\u202e&\"'"


class _Page(HTMLParser):
    """The links, ids and verdicts of a page, and the elements that load something."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.loads: list[str] = []
        self.scripts = 0
        self.text = ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.scripts += tag == "script"
        if tag == "a" and values.get("href"):
            self.links.append(values["href"] or "")
        if values.get("id"):
            self.ids.add(values["id"] or "")
        for name in ("src", "action", "data"):
            if name in values:
                self.loads.append(f"{tag} {name}={values[name]}")

    def handle_data(self, data: str) -> None:
        self.text += data


def _exchange(number: int, **fields: object) -> ExchangeRecord:
    values: dict[str, object] = {
        "number": number,
        "at_ms": number * 2.0,
        "answered_ms": number * 2.0 + 1,
        "clock_ms": number * 2,
        "node": number % 2,
        "connection": 1,
        "client_id": "c",
        "api": "ShareFetch",
        "version": 2,
        "correlation_id": 100 + number,
        "packet": 10 + number,
        "summary": f"ShareFetch v2 {HOSTILE}",
        "error": None,
        "faults": (),
        "closed": None,
        "request": {"group_id": HOSTILE},
        "response": None,
    }
    return ExchangeRecord(**{**values, **fields})  # type: ignore[arg-type]


def _case(case_id: str) -> CaseRecord:
    source = {"document": "KIP-932", "section": "Client", "contract": ""}
    return CaseRecord(
        id=case_id,
        family=case_id.partition(".")[0],
        title=f"title of {case_id} {HOSTILE}",
        level="MUST",
        rule=HOSTILE,
        source=source,
        broker="First line.\nSecond line.",
        needs=("share",),
        settings_needed=("retry_backoff_ms",),
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    details = Details(
        calls=[CallRecord(at_ms=0, answered_ms=1, driver=0, method="poll", params={"client": HOSTILE}, result={})],
        exchanges=[_exchange(1), _exchange(2, error="NOT_LEADER_OR_FOLLOWER", faults=(HOSTILE,))],
        decoded=[DecodedRecord(number=2, title="ShareFetch v2", request=f"00 01 {HOSTILE}\n02 03", response=None)],
    )
    path = tmp_path / "cases" / "0-a" / "share.a.moved.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(msgspec.json.encode(details))
    path.with_suffix(".log").write_text(f"line 1 {HOSTILE}\nline 2\n", encoding="utf-8")
    failed = ResultRecord(
        driver=0,
        case="share.a.moved",
        verdict=Verdict.FAILED,
        duration_ms=1500,
        expected=f"expected {HOSTILE}",
        seen="seen",
        notes=[HOSTILE],
        deciding=(2,),
        details="cases/0-a/share.a.moved.json",
        log="cases/0-a/share.a.moved.log",
    )
    results = [
        failed,
        ResultRecord(driver=0, case="groups.b.c", verdict=Verdict.OK, duration_ms=500),
        ResultRecord(driver=1, case="share.a.moved", verdict=Verdict.UNIMPLEMENTED, duration_ms=0, seen="no share"),
        ResultRecord(driver=1, case="groups.b.c", verdict=Verdict.NON_STRICT, duration_ms=20),
    ]
    run = RunRecord(
        seed=7,
        release="4.4",
        started="2026-01-31T12:00:00+00:00",
        drivers=[
            DriverRecord(command=f"driver {HOSTILE}", name=HOSTILE, version="1", language="Go"),
            DriverRecord(command="other", name="other", version="2.0", language="Rust"),
            DriverRecord(command="broken", error=f"it ended\n{HOSTILE}"),
        ],
        cases=[_case("groups.b.c"), _case("share.a.moved")],
        results=results,
    )
    write_pages(run, tmp_path)
    return tmp_path


def test_the_first_page_links_every_page_of_a_result(folder: Path) -> None:
    index = _Page(folder / "index.html")

    assert [link for link in index.links if not link.startswith("#")] == ["cases/0-a/share.a.moved.html"]
    assert {"groups.b.c", "share.a.moved"} <= index.ids
    for word in ("FAILED", "OK", "UNIMPLEMENTED", "NON-STRICT"):
        assert word in index.text


def test_the_page_of_a_result_leads_back_and_links_its_files(folder: Path) -> None:
    page = folder / "cases" / "0-a" / "share.a.moved.html"

    for link in _Page(page).links:
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in _Page(target).ids, link


def test_the_page_of_a_result_names_the_exchange_that_decided(folder: Path) -> None:
    text = _Page(folder / "cases" / "0-a" / "share.a.moved.html").text

    assert "at 4.0 ms, correlation id 102, packet 12" in text
    assert "--cases share.a.moved --seed 7 --release 4.4 --keep-captures -o certify-again" in text
    assert "needs settings" in text
    assert "15 s" in text
    assert "First line.\nSecond line." in text


@pytest.mark.parametrize("name", ["index.html", "cases/0-a/share.a.moved.html"])
def test_text_of_drivers_and_of_the_wire_is_escaped(folder: Path, name: str) -> None:
    content = (folder / name).read_text(encoding="utf-8")
    page = _Page(folder / name)

    assert page.scripts == 1
    assert "alert(1)" in content
    assert "\x1b" not in content
    assert "\u202e" not in content


@pytest.mark.parametrize("name", ["index.html", "cases/0-a/share.a.moved.html"])
def test_a_page_loads_nothing(folder: Path, name: str) -> None:
    content = (folder / name).read_text(encoding="utf-8")

    assert _Page(folder / name).loads == []
    assert re.search(r"url\(|@import|https?://", content) is None
    assert "default-src 'none'" in content.replace("&#x27;", "'")


def test_the_share_of_passed_cases_leaves_out_those_that_the_client_lacks(folder: Path) -> None:
    text = _Page(folder / "index.html").text

    assert "1/2" in text  # The first client: one of two failed.
    assert "1/1 +1" in text  # The second: a lapse passes, and one case was not judged.


def test_each_client_has_a_badge(folder: Path) -> None:
    badges = sorted((folder / "badges").iterdir())

    assert len(badges) == 3
    texts = {"".join(ET.fromstring(badge.read_text(encoding="utf-8")).itertext()) for badge in badges}
    assert any(text.endswith("kafka conformance1/1") for text in texts)
    assert any(text.endswith("kafka conformance1/2") for text in texts)
    assert any(text.endswith("kafka conformancenot judged") for text in texts)


def test_clients_with_the_same_name_have_badges_of_their_own() -> None:
    names = badge_names([DriverRecord(command="a", name=name) for name in ("franz-go", "a/b", "franz-go", "..", "")])

    assert names == ["franz-go-0.svg", "a-b.svg", "franz-go-2.svg", "client-3.svg", "client-4.svg"]
