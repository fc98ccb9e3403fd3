"""`kwire report`, from capture files to a page in a browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kwire.cli.main import main
from tests.support.browser import Browser
from tests.support.captures.small_capture import CONTENT, write
from tests.support.cli.commands import Capsys, run_kwire
from tests.support.spark.report_page import Reader, assert_page_is_rendered
from tests.support.spark.sample_report import HOSTILE

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
    """The same with the contents of records, and with its tables next to it."""
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
    """The numbers embedded in the page."""
    data: dict[str, Any] = json.loads(Reader(page.read_text(encoding="utf-8")).data)
    return data


def select(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    """The values of these fields."""
    return [tuple(row[name] for name in names) for row in rows]


def test_the_report_has_the_counts_of_the_capture(hostile_page: Path) -> None:
    report = numbers(hostile_page)

    assert select(report["files"], "requests", "ok", "connections") == [(5, 5, 1)]
    requests = {row["api"]: row["requests"] for row in report["latency"]}
    assert requests == {"Metadata": 1, "ShareFetch": 2, "ShareAcknowledge": 2}
    assert {row["p50_us"] for row in report["latency"]} == {2_000}
    assert report["delivery_counts"] == {HOSTILE: {"1": 10, "2": 2}}
    partition = {"group": HOSTILE, "topic": HOSTILE, "partition": 0}
    counts = {"acquisitions": 12, "records": 10, "redelivered": 2, "delivery_count_max": 2}
    assert report["deliveries"] == [{**partition, **counts}]
    traffic = {name: sum(values) for name, values in report["share_traffic"]["series"].items()}
    assert traffic == {"1": 10, "2": 2}
    assert report["outcomes"] == {HOSTILE: {"accepted": 3, "rejected": 1, "open": 6}}
    acks = select(report["acks"], "member", "client", "records", "refused")
    assert acks == [(HOSTILE, HOSTILE, {"accept": 3, "reject": 1}, 1)]
    errors = select(report["error_rows"], "api_name", "error_name", "topic", "partition", "failures")
    assert errors == [("ShareAcknowledge", "INVALID_RECORD_STATE", HOSTILE, 0, 1)]


def test_a_hostile_topic_group_member_and_client_stay_text(hostile_page: Path) -> None:
    reader = Reader(hostile_page.read_text(encoding="utf-8"))

    assert "img" not in reader.tags
    assert reader.tags.count("script") == 2
    assert not [name for name in reader.attributes if name.startswith("on")]
    assert sum(HOSTILE in text for text in reader.texts) >= 12


def test_contents_of_records_are_not_in_the_report(hostile_page: Path) -> None:
    text = hostile_page.read_text(encoding="utf-8")

    assert "a secret" not in text
    poison = numbers(hostile_page)["poison"]
    assert select(poison, "offset", "key", "value") == [(3, None, None), (4, None, None)]


def test_poison_records_locks_and_states_are_those_of_the_capture(hostile_page: Path) -> None:
    report = numbers(hostile_page)

    poison = select(report["poison"], "offset", "outcome", "deliveries", "resp_packet")
    assert poison == [(3, "rejected", 2, 9), (4, "open", 2, 9)]
    deliveries = select(report["delivery_histories"], "offset", "delivery_count", "ack_name", "ack_error")
    assert sorted(deliveries, key=lambda delivery: delivery[:2]) == [
        (3, 1, None, None),
        (3, 2, "reject", None),
        (4, 1, None, None),
        (4, 2, "accept", "INVALID_RECORD_STATE"),
    ]
    locks = select(report["locks"], "first_offset", "ack_name", "ack_error")
    assert set(locks) == {(0, "accept", None), (3, "reject", None), (4, "accept", "INVALID_RECORD_STATE")}
    assert select(report["panels"], "topic", "partition", "deliveries_max") == [(HOSTILE, 0, 2)]


def test_requested_contents_are_shown_as_text(open_page: Path) -> None:
    reader = Reader(open_page.read_text(encoding="utf-8"))

    expected = [("a secret key", f"{CONTENT} {offset}") for offset in (3, 4)]
    assert select(numbers(open_page)["poison"], "key", "value") == expected
    assert f"{CONTENT} 3" in reader.texts
    assert not {"b", "img"} & set(reader.tags)


def test_every_table_can_be_written_as_parquet(spark: SparkSession, open_page: Path) -> None:
    folder = open_page.parent / "tables"
    tables = {name: spark.read.parquet(str(folder / name)) for name in PARQUET}

    assert len(list(folder.iterdir())) >= 25
    assert {row["api_name"]: row["requests"] for row in tables["latency"].collect()}["ShareFetch"] == 2
    assert tables["attempts"].count() == 12
    assert {row["offset"] for row in tables["contents"].collect()} == {3, 4}
    assert tables["share_timeline"].filter("state = 'Acquired'").count() >= 1


def test_two_captures_are_compared_on_one_page(spark: SparkSession, tmp_path: Path, hostile_page: Path) -> None:
    page = tmp_path / "changes.html"

    code = main(["report", "--compare", REAL[5], str(hostile_page.parent / "capture.pcapng"), "-o", str(page)])
    reader = Reader(page.read_text(encoding="utf-8"))
    changes = json.loads(reader.data)

    assert code == 0
    latency = {row["api"]: row for row in changes["latency"]}["ShareAcknowledge"]
    assert None not in (latency["before"], latency["after"])
    assert [HOSTILE] in [row["name"] for row in changes["clients"]]
    errors = select(changes["errors"], "name", "before", "after")
    assert (["INVALID_RECORD_STATE", "ShareAcknowledge"], 0, 1) in errors
    assert reader.tags.count("script") == 2


def test_the_report_of_real_captures_has_every_request(real_page: Path) -> None:
    report = numbers(real_page)

    assert sum(row["requests"] for row in report["files"]) == 263
    assert sum(row["ok"] for row in report["files"]) == 259
    assert report["statuses"]["no_response"] == 4
    assert [row["name"] for row in report["files"]] == REAL
    assert sum(sum(counts) for counts in report["traffic"]["series"].values()) == 263
    assert report["deliveries"]
    assert report["acks"]


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("which", ["hostile_page", "real_page"])
def test_a_browser_renders_the_report_without_errors_and_overflow(
    chromium: Browser, request: pytest.FixtureRequest, which: str, width: int
) -> None:
    chromium.open(request.getfixturevalue(which), width=width)

    assert_page_is_rendered(chromium, plots_min=15)


def test_progress_goes_to_stderr_and_the_page_s_path_to_stdout(
    spark: SparkSession, tmp_path: Path, capsys: Capsys
) -> None:
    page = tmp_path / "report.html"

    code, lines, err = run_kwire(capsys, "report", REAL[0], "--port", "21092", "-o", page)

    assert (code, lines) == (0, [str(page)])
    assert "decoding 1 capture file\n" in err
    assert "done: 22 requests" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.pcap", "-o", "report.html"], "no capture file matches 'missing.pcap'"),
        ([REAL[0], "-o", "no/such/place/report.html"], "no/such/place"),
        ([REAL[0], "-o", "."], ".: Is a directory"),
        ([REAL[0], "-o", "report.html", "--edition", "9.9"], "9.9"),
        ([REAL[0], "-o", "report.html", "--port", "70000"], "70000"),
        ([__file__, "-o", "report.html"], Path(__file__).name),
        (["--compare", REAL[0], "-o", "report.html"], "--compare takes two captures, not 1"),
        (["--compare", REAL[0], REAL[1], "--parquet", "t", "-o", "report.html"], "--parquet writes the tables of one"),
        ([REAL[0], "--parquet", "/", "-o", "report.html"], "/: Exists already"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    monkeypatch.chdir(tmp_path)

    assert main(["report", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_capture_without_kafka_gives_a_page_with_that_finding_and_exit_code_1(
    spark: SparkSession, tmp_path: Path
) -> None:
    capture, page = tmp_path / "empty.pcap", tmp_path / "report.html"
    # A pcap header (little-endian, microseconds, Ethernet) with no packet after it.
    capture.write_bytes(bytes.fromhex("d4c3b2a1 0200 0400 00000000 00000000 ffff0000 01000000"))

    assert main(["report", str(capture), "-o", str(page)]) == 1
    assert "No Kafka request was found" in page.read_text(encoding="utf-8")


def test_connections_without_requests_are_not_counted_as_requests(spark: SparkSession, tmp_path: Path) -> None:
    """Two rows are about TLS connections that cannot be decrypted: neither is a request."""
    page = tmp_path / "report.html"

    assert main(["report", str(CAPTURES / "small_tlskey.pcap"), "-o", str(page)]) == 1
