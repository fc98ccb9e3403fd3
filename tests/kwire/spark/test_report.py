"""`kwire report`, from capture files to a page in a browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kwire.cli.main import main
from tests.kwire.spark.browser import Browser
from tests.kwire.spark.samples import HOSTILE
from tests.kwire.spark.sights import Reader, assert_all_is_seen
from tests.kwire.spark.traffic import CONTENT, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PARQUET = ("latency", "conformance", "attempts", "share_timeline", "connections", "contents")

CAPTURES = Path(__file__).parents[2] / "captures"
REAL = [str(CAPTURES / f"small_{name}.pcap") for name in ("aio", "ck", "ckz", "jshare", "kpy", "share", "txn")]


@pytest.fixture(scope="module")
def hostile_page(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report about a capture in which every name is hostile."""
    folder = tmp_path_factory.mktemp("hostile")
    write(folder / "capture.pcapng", HOSTILE)
    assert main(["report", str(folder / "capture.pcapng"), "-o", str(folder / "report.html")]) == 0
    return folder / "report.html"


@pytest.fixture(scope="module")
def open_page(spark: SparkSession, hostile_page: Path) -> Path:
    """The same with the contents of records, and with its tables beside it."""
    folder = hostile_page.parent
    options = ["--payload", "--parquet", str(folder / "tables"), "-o", str(folder / "open.html")]
    assert main(["report", str(folder / "capture.pcapng"), *options]) == 0
    return folder / "open.html"


@pytest.fixture(scope="module")
def real_page(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report about the captures of real clients with a real broker."""
    page = tmp_path_factory.mktemp("real") / "report.html"
    assert main(["report", *REAL, "-o", str(page)]) == 0
    return page


def numbers(page: Path) -> dict[str, Any]:
    """The numbers that the page carries."""
    data: dict[str, Any] = json.loads(Reader(page.read_text(encoding="utf-8")).data)
    return data


def test_the_report_counts_what_the_capture_holds(hostile_page: Path) -> None:
    found = numbers(hostile_page)

    assert [(row["requests"], row["ok"], row["connections"]) for row in found["files"]] == [(5, 5, 1)]
    assert {row["api"]: row["requests"] for row in found["latency"]} == {
        "Metadata": 1,
        "ShareFetch": 2,
        "ShareAcknowledge": 2,
    }
    assert {row["p50_us"] for row in found["latency"]} == {2_000}
    assert found["delivery_counts"] == {HOSTILE: {"1": 10, "2": 2}}
    assert found["deliveries"] == [
        {
            "group": HOSTILE,
            "topic": HOSTILE,
            "partition": 0,
            "acquisitions": 12,
            "records": 10,
            "redelivered": 2,
            "delivery_count_max": 2,
        }
    ]
    assert {name: sum(values) for name, values in found["share_traffic"]["series"].items()} == {
        "first time": 10,
        "again": 2,
    }
    assert found["outcomes"] == {HOSTILE: {"accepted": 3, "rejected": 1, "open": 6}}
    assert [(row["member"], row["client"], row["records"], row["refused"]) for row in found["acks"]] == [
        (HOSTILE, HOSTILE, {"accept": 3, "reject": 1}, 1)
    ]
    assert [
        (row["api_name"], row["error_name"], row["topic"], row["partition"], row["failures"])
        for row in found["error_rows"]
    ] == [("ShareAcknowledge", "INVALID_RECORD_STATE", HOSTILE, 0, 1)]


def test_a_hostile_topic_group_member_and_client_stay_text(hostile_page: Path) -> None:
    reader = Reader(hostile_page.read_text(encoding="utf-8"))

    assert "img" not in reader.tags
    assert reader.tags.count("script") == 2
    assert not [name for name in reader.attributes if name.startswith("on")]
    assert sum(HOSTILE in text for text in reader.texts) >= 12


def test_what_records_hold_is_nowhere_in_the_report(hostile_page: Path) -> None:
    text = hostile_page.read_text(encoding="utf-8")

    assert "a secret" not in text
    assert [(row["offset"], row["key"], row["value"]) for row in numbers(hostile_page)["poison"]] == [
        (3, None, None),
        (4, None, None),
    ]


def test_poison_records_locks_and_states_are_those_of_the_capture(hostile_page: Path) -> None:
    found = numbers(hostile_page)

    assert [(row["offset"], row["outcome"], row["deliveries"], row["resp_packet"]) for row in found["poison"]] == [
        (3, "rejected", 2, 9),
        (4, "open", 2, 9),
    ]
    lives = [(row["offset"], row["delivery_count"], row["ack_name"], row["ack_error"]) for row in found["lives"]]
    assert sorted(lives, key=lambda life: life[:2]) == [
        (3, 1, None, None),
        (3, 2, "reject", None),
        (4, 1, None, None),
        (4, 2, "accept", "INVALID_RECORD_STATE"),
    ]
    assert {(row["first_offset"], row["ack_name"], row["ack_error"]) for row in found["locks"]} == {
        (0, "accept", None),
        (3, "reject", None),
        (4, "accept", "INVALID_RECORD_STATE"),
    }
    assert [(each["topic"], each["partition"], each["deliveries_max"]) for each in found["panels"]] == [(HOSTILE, 0, 2)]


def test_contents_that_were_asked_for_are_shown_as_text(open_page: Path) -> None:
    reader = Reader(open_page.read_text(encoding="utf-8"))

    assert [(row["key"], row["value"]) for row in numbers(open_page)["poison"]] == [
        ("a secret key", f"{CONTENT} 3"),
        ("a secret key", f"{CONTENT} 4"),
    ]
    assert f"{CONTENT} 3" in reader.texts
    assert not {"b", "img"} & set(reader.tags)


def test_every_table_can_be_had_as_parquet(spark: SparkSession, open_page: Path) -> None:
    folder = open_page.parent / "tables"
    found = {name: spark.read.parquet(str(folder / name)) for name in PARQUET}

    assert len(list(folder.iterdir())) >= 25
    assert {row["api_name"]: row["requests"] for row in found["latency"].collect()}["ShareFetch"] == 2
    assert found["attempts"].count() == 12
    assert {row["offset"] for row in found["contents"].collect()} == {3, 4}
    assert found["share_timeline"].filter("state = 'Acquired'").count() >= 1


def test_two_captures_are_compared_on_one_page(spark: SparkSession, tmp_path: Path, hostile_page: Path) -> None:
    page = tmp_path / "changes.html"

    code = main(["report", "--compare", REAL[5], str(hostile_page.parent / "capture.pcapng"), "-o", str(page)])
    reader = Reader(page.read_text(encoding="utf-8"))
    found = json.loads(reader.data)

    assert code == 0
    assert {row["api"]: (row["before"] is None, row["after"] is None) for row in found["latency"]}[
        "ShareAcknowledge"
    ] == (False, False)
    assert [HOSTILE] in [row["name"] for row in found["clients"]]
    assert (["INVALID_RECORD_STATE", "ShareAcknowledge"], 0, 1) in [
        (row["name"], row["before"], row["after"]) for row in found["errors"]
    ]
    assert reader.tags.count("script") == 2


def test_the_report_about_real_captures_has_every_request(real_page: Path) -> None:
    found = numbers(real_page)

    assert sum(row["requests"] for row in found["files"]) == 263
    assert sum(row["ok"] for row in found["files"]) == 259
    assert found["statuses"]["no_response"] == 4
    assert [row["name"] for row in found["files"]] == REAL
    assert sum(sum(counts) for counts in found["traffic"]["series"].values()) == 263
    assert found["deliveries"]
    assert found["acks"]


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("which", ["hostile_page", "real_page"])
def test_a_browser_shows_the_report_without_complaint_and_without_overflow(
    chromium: Browser, request: pytest.FixtureRequest, which: str, width: int
) -> None:
    chromium.open(request.getfixturevalue(which), width=width)

    assert_all_is_seen(chromium, plots_min=15)


def test_progress_goes_to_stderr_and_the_page_s_path_to_stdout(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "report.html"

    code = main(["report", REAL[0], "--port", "21092", "-o", str(page)])
    told = capsys.readouterr()

    assert code == 0
    assert told.out == f"{page}\n"
    assert "decoding 1 capture file\n" in told.err
    assert "done: 22 requests" in told.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["missing.pcap", "-o", "report.html"], "no capture file matches 'missing.pcap'"),
        ([REAL[0], "-o", "no/such/place/report.html"], "no/such/place"),
        ([REAL[0], "-o", "."], ".: Is a directory"),
        ([REAL[0], "-o", "report.html", "--edition", "9.9"], "9.9"),
        ([REAL[0], "-o", "report.html", "--port", "70000"], "70000"),
        ([__file__, "-o", "report.html"], "test_report.py"),
        (["--compare", REAL[0], "-o", "report.html"], "--compare takes two captures, not 1"),
        (["--compare", REAL[0], REAL[1], "--parquet", "t", "-o", "report.html"], "--parquet writes the tables of one"),
        ([REAL[0], "--parquet", "/", "-o", "report.html"], "/: Exists already"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(
    arguments: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    assert main(["report", *arguments]) == 2
    assert told in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_capture_without_kafka_makes_a_page_that_says_so_and_exit_code_1(spark: SparkSession, tmp_path: Path) -> None:
    capture, page = tmp_path / "empty.pcap", tmp_path / "report.html"
    # A pcap header (little-endian, microseconds, Ethernet) with no packet after it.
    capture.write_bytes(bytes.fromhex("d4c3b2a1 0200 0400 00000000 00000000 ffff0000 01000000"))

    assert main(["report", str(capture), "-o", str(page)]) == 1
    assert "No Kafka request was found" in page.read_text(encoding="utf-8")


def test_what_is_no_request_is_not_counted_as_one(spark: SparkSession, tmp_path: Path) -> None:
    """Two rows tell of TLS connections that cannot be read: neither is a request, so nothing was found."""
    page = tmp_path / "report.html"

    assert main(["report", str(CAPTURES / "small_tlskey.pcap"), "-o", str(page)]) == 1
