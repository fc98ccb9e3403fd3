"""The live page: its files, and how it works in a browser, with a cluster whose names are hostile."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing

import pytest

from kwire import Client
from kwire.messages.list_groups import ListGroupsRequest
from kwire.report.colours import COLOURS
from mockbroker import Cluster
from mockbroker.control.page_files import FOLDER, POLICY, read_page_file
from tests.support.brokers.control_client import ControlClient
from tests.support.brokers.share_client import ACCEPT, REJECT, RELEASE, ShareClient
from tests.support.browser import Browser

HOSTILE = "<img src=x onerror=alert(1)>\u202egpj"
TOKEN = "coffee"


@pytest.fixture(scope="module")
def kafka() -> Iterator[Cluster]:
    """A share group with records in every state, at a clock that does not move."""
    with Cluster(control=0, topics=["orders"], seed=1) as cluster:
        for number in range(8):
            cluster.produce("orders", f"record {number}")
        with closing(ShareClient(cluster, HOSTILE, "orders", client_id=HOSTILE)) as member:
            cluster.clock.freeze()
            cluster.wait_until(lambda: member.fetch(6), timeout_s=20)
            member.acknowledge({0: RELEASE, 1: ACCEPT, 2: ACCEPT, 3: REJECT})
            yield cluster


@pytest.fixture
def page(kafka: Cluster, chromium: Browser) -> Iterator[Browser]:
    """The page in a browser, which reports no error during the test."""
    open_page(kafka, chromium)
    yield chromium
    assert chromium.errors == []


def open_page(kafka: Cluster, chromium: Browser, *, width: int = 1280, dark: bool = False) -> None:
    chromium.open(f"{kafka.control_url}/", width=width, dark=dark)
    chromium.wait_for("document.querySelector('#exchanges-table tbody tr') && document.querySelector('.strip .part')")


def test_the_page_may_load_its_own_files_only_and_runs_no_script_in_its_text(kafka: Cluster) -> None:
    client = ControlClient(kafka.control_url)
    answers = {
        name: client.send("GET", f"/page/{name}") for name in ("main.js", "page.css", "colours.css", "names.json")
    }
    first = client.send("GET", "/")

    assert first.headers["content-type"] == "text/html; charset=utf-8"
    assert [answer.status for answer in answers.values()] == [200] * 4
    for answer in (first, *answers.values()):
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'; script-src 'self'" in POLICY
    assert "unsafe" not in POLICY
    assert all(f"--m-{meaning}" in answers["colours.css"].body.decode() for meaning in COLOURS)
    assert "ShareFetch" in answers["names.json"].body["apis"]
    for path in ("/page/../app.py", "/page/%2e%2e/app.py", "/page/index.html", "/page/"):
        assert client.send("GET", path).status == 404


def test_no_file_writes_markup_or_names_another_server() -> None:
    for path in FOLDER.iterdir():
        text = read_page_file(path.name).content.decode()
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "http://", "https://"):
            assert word not in text, (path.name, word)


def test_a_strip_has_the_states_of_records_as_colour_pattern_and_text(page: Browser) -> None:
    parts = page.evaluate("[...document.querySelectorAll('.strip .part')].map(part => [part.title, part.className])")
    looks = page.evaluate(
        "[...document.querySelectorAll('.strip .part')].map(part => { const style = getComputedStyle(part);"
        "return `${style.backgroundColor} ${style.backgroundImage} ${style.boxShadow}`; })"
    )
    label = page.evaluate("document.querySelector('.strip').getAttribute('aria-label')")
    rows = page.evaluate(
        "[...document.querySelectorAll('#share-list tbody tr')].map(row => row.innerText.split('\\t'))"
    )

    assert [title for title, _ in parts] == [
        "0: available",
        "1 to 2: acknowledged",
        "3: archived",
        "4 to 5: acquired",
        "6 to 7: not fetched yet",
    ]
    assert len(set(looks)) == len(parts)
    assert label.endswith("1 available, 2 acknowledged, 1 archived, 2 acquired, 2 not fetched yet")
    acquired = next(row for row in rows if row[1].strip() == "acquired")
    assert (acquired[0], acquired[2], acquired[4]) == ("4 to 5", "1", "30.0 s")


def test_hostile_names_stay_text(page: Browser) -> None:
    shown = page.evaluate("document.querySelector('#groups-list').innerText")

    assert "<img src=x onerror=alert(1)>\\u202egpj" in shown
    assert page.evaluate("document.querySelectorAll('img, script:not([src])').length") == 0
    assert "\u202e" not in page.evaluate("document.body.textContent")


def test_a_fault_is_added_hit_and_removed(kafka: Cluster, page: Browser) -> None:
    page.evaluate("document.querySelector('#fault-form [name=api]').value = 'ListGroups'")
    page.evaluate("document.querySelector('#fault-form [name=error]').value = 'COORDINATOR_NOT_AVAILABL'")
    page.click("#fault-form button")
    problem = page.wait_for("document.querySelector('#fault-form .problem').textContent")
    page.evaluate("document.querySelector('#fault-form [name=error]').value = 'COORDINATOR_NOT_AVAILABLE'")
    page.click("#fault-form button")
    page.wait_for("document.querySelector('#faults-table tbody tr')")
    with Client(kafka.bootstrap_servers, client_id="lists") as client:
        code = client.send(ListGroupsRequest()).error_code
    page.wait_for("document.querySelector('#faults-table tbody td.number').textContent === '1'")
    page.wait_for("document.querySelector('#exchanges-table tbody').innerText.includes('COORDINATOR_NOT_AVAILABLE')")
    (fault,) = kafka.faults.list()
    page.click("#faults-table tbody button")
    page.wait_for("!document.querySelector('#faults-table tbody tr')")

    assert "did you mean 'COORDINATOR_NOT_AVAILABLE'" in problem
    assert code == 15
    assert (fault.hits, fault.is_active) == (1, False)
    # The browser itself reports the refused request; the page shows the problem.
    page.errors[:] = [text for text in page.errors if "status of 422" not in text]


def test_a_chaos_profile_is_started_and_stopped(kafka: Cluster, page: Browser) -> None:
    page.evaluate("document.querySelector('#chaos-form [name=profile]').value = 'slow-network'")
    page.evaluate("document.querySelector('#chaos-form [name=seed]').value = 7")
    page.click("#chaos-form button")
    text = page.wait_for("document.querySelector('#chaos-runs li')?.innerText")
    (chaos,) = kafka.faults.list_chaos()
    page.click("#chaos-runs button")
    page.wait_for("!document.querySelector('#chaos-runs li') && !document.querySelector('#faults-table tbody tr')")

    assert text.startswith("slow-network, seed 7, ")
    assert (chaos.profile, chaos.seed, any(fault.is_active for fault in chaos.faults)) == ("slow-network", 7, False)


def test_a_paused_list_stands_still_until_it_is_resumed(kafka: Cluster, page: Browser) -> None:
    newest = "document.querySelector('#exchanges-table tbody th').textContent"
    before = page.evaluate(newest)
    page.click("#exchanges-pause")
    with Client(kafka.bootstrap_servers, client_id="later") as client:
        client.send(ListGroupsRequest())
    page.wait_for("document.querySelector('#exchanges-about').textContent.includes('2 requests came since')")
    paused = page.evaluate(newest)
    page.click("#exchanges-pause")
    resumed = page.wait_for(f"{newest} !== '{before}' && {newest}")

    assert paused == before
    assert int(resumed) == int(before) + 2


def test_the_clock_is_moved_by_keyboard_alone(kafka: Cluster, page: Browser) -> None:
    before_ms = kafka.clock.now_ms()
    page.evaluate("document.querySelector('#clock-advance [name=amount]').focus()")
    page.evaluate("document.activeElement.select()")
    page.type("2")
    page.press("Tab")
    page.press("Tab")
    focused = page.evaluate("document.activeElement.innerText")
    ring = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    page.press("Enter", text="\r")
    page.wait_for("[...document.querySelectorAll('[data-deadline]')].some(cell => cell.textContent === '28.0 s')")

    assert (focused, ring) == ("Advance", "solid")
    assert kafka.clock.now_ms() == before_ms + 2_000
    assert page.evaluate("document.querySelector('#clock-mode').textContent") == "frozen"


def test_an_exchange_opens_with_its_fields_and_bytes_and_returns_the_focus(page: Browser) -> None:
    page.evaluate("document.querySelector('#exchanges-filter [name=filter]').value = 'api=ShareAcknowledge'")
    page.click("#exchanges-filter button")
    page.wait_for("document.querySelectorAll('#exchanges-table tbody tr').length === 1")
    page.evaluate("document.querySelector('#exchanges-table tbody button').focus()")
    page.press("Enter", text="\r")
    decoded = page.wait_for("document.querySelector('#detail[open] #detail-request')?.innerText")
    page.click("[name=view][value=tree]")
    tree = page.wait_for("document.querySelector('#detail-request pre')?.textContent")
    page.click("[name=view][value=hex]")
    page.wait_for("document.querySelector('#detail-response pre')?.textContent.includes('ShareAcknowledgeResponse.')")
    page.press("Escape")
    page.wait_for("!document.querySelector('#detail').open")

    assert "acknowledgementBatches" in decoded
    assert "acknowledge_types: []int8 = [3]" in tree
    assert page.evaluate("document.activeElement.getAttribute('aria-label')").startswith("Open exchange ")


def test_a_wrong_condition_is_a_message_and_changes_nothing(page: Browser) -> None:
    count = page.evaluate("document.querySelectorAll('#exchanges-table tbody tr').length")
    page.evaluate("document.querySelector('#exchanges-filter [name=filter]').value = 'latncy>1s'")
    page.click("#exchanges-filter button")
    problem = page.wait_for("document.querySelector('#exchanges-filter .problem').textContent")

    assert "latency" in problem
    assert page.evaluate("document.querySelectorAll('#exchanges-table tbody tr').length") == count
    page.errors[:] = [text for text in page.errors if "status of 422" not in text]


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_is_no_wider_than_its_window_and_every_control_has_a_name(
    kafka: Cluster, chromium: Browser, width: int, dark: bool
) -> None:
    open_page(kafka, chromium, width=width, dark=dark)
    nameless = chromium.evaluate(
        "[...document.querySelectorAll('button, input, select, textarea')].filter(one => !(one.innerText.trim()"
        "|| one.labels?.length || one.getAttribute('aria-label') || one.closest('[hidden], dialog')))"
        ".map(one => one.outerHTML)"
    )

    assert chromium.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert nameless == []
    assert chromium.errors == []


def test_a_token_is_asked_for_and_a_lost_stream_is_opened_again(chromium: Browser) -> None:
    with Cluster(control=0, control_token=TOKEN, topics=["orders"]) as cluster:
        address = cluster.control_url.removeprefix("http://")
        chromium.open(f"{cluster.control_url}/", width=1280)
        for token in ("tea", TOKEN):
            chromium.wait_for("document.querySelector('#token').open && !document.querySelector('#token input').value")
            chromium.click("#token input")
            chromium.type(token)
            chromium.press("Enter", text="\r")
        chromium.wait_for("document.querySelector('#stream').textContent === 'live'")
        stored = chromium.evaluate("JSON.stringify([Object.values(sessionStorage), localStorage.length])")
    lost = chromium.wait_for(
        "document.querySelector('#stream').dataset.state === 'lost' && document.querySelector('#stream').textContent"
    )
    with Cluster(control=address, control_token=TOKEN, topics=["beans"]):
        chromium.wait_for("document.querySelector('#topics-table').innerText.includes('beans')")
        text = chromium.evaluate("document.querySelector('#topics-table').innerText")

    assert json.loads(stored) == [[TOKEN], 0]
    assert "connection lost; trying again" in lost
    assert "orders" not in text
