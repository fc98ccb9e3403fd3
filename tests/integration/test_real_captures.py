"""Captures of real clients and Apache Kafka: every request with a response in the file is matched and decoded."""

from __future__ import annotations

import subprocess
from collections import Counter

import pytest

from kwire.capture.model import Row
from kwire.capture.reader import read_rows
from tests.support import needs
from tests.support.captures.capture_files import CAPTURES, collect_issue_kinds

REQUESTS = {"aio": 22, "ck": 55, "ckz": 40, "jshare": 35, "kpy": 33, "share": 44, "txn": 34}
UNANSWERED = {"ck": 3, "jshare": 1}


def read_level(name: str, level: str = "messages") -> list[Row]:
    return list(read_rows(CAPTURES / f"small_{name}.pcap", level))


@pytest.mark.parametrize("name", REQUESTS)
def test_every_request_has_a_row_and_only_known_ones_have_no_response(name: str) -> None:
    rows = read_level(name)

    statuses = Counter(row["status"] for row in rows)
    assert len(rows) == REQUESTS[name]
    assert statuses == Counter(ok=REQUESTS[name] - UNANSWERED.get(name, 0), no_response=UNANSWERED.get(name, 0))
    assert collect_issue_kinds(rows) <= {"no_response"}


def test_all_files_together_have_263_requests_of_which_259_are_ok() -> None:
    rows = [row for name in REQUESTS for row in read_level(name)]

    assert len(rows) == 263
    assert Counter(row["status"] for row in rows) == Counter(ok=259, no_response=4)


@pytest.mark.parametrize("name", REQUESTS)
def test_requests_by_api_and_version_are_those_of_the_client(name: str) -> None:
    counts = Counter(f"{row['api_name']} v{row['api_version']}" for row in read_level(name))

    assert [f"{api}: {count}" for api, count in sorted(counts.items())] == ", ".join(BY_API[name]).split(", ")


def test_tls_is_reported_and_has_no_other_rows() -> None:
    rows = read_level("tlskey")

    assert [(row["tls"], row["status"], row["api_key"]) for row in rows] == [(True, "undecodable", None)] * 2
    assert collect_issue_kinds(rows) == {"tls"}


def test_responses_are_in_the_order_of_requests_and_after_them() -> None:
    for name in REQUESTS:
        matched = [row for row in read_level(name) if row["status"] == "ok"]
        assert all(row["order_ok"] for row in matched)
        assert all(isinstance(row["latency_us"], int) and row["latency_us"] >= 0 for row in matched)


def test_rows_of_a_share_consumer_have_topic_names() -> None:
    acquired, acks = read_level("share", "share_acquired"), read_level("share", "share_acks")

    share_rows = [
        (row["group_id"], row["topic"], row["partition"], row["first_offset"], row["last_offset"]) for row in acquired
    ]
    assert share_rows == [("sg1", "t-share", 1, 102, 203), ("sg1", "t-share", 0, 98, 195)]
    assert [row["delivery_count"] for row in acquired] == [1, 1]
    assert [row["lock_timeout_ms"] for row in acquired] == [2000, 2000]
    assert [(row["first_offset"], row["last_offset"], row["ack_name"], row["error_name"]) for row in acks] == [
        (102, 203, "accept", "NONE")
    ]


def test_produced_records_have_the_offsets_at_which_they_are_fetched() -> None:
    rows = read_level("share", "records")
    offsets = {
        direction: sorted((row["partition"], row["offset"]) for row in rows if row["direction"] == direction)
        for direction in ("produce", "share_fetch")
    }

    assert len(offsets["produce"]) == 200
    assert offsets["produce"] == offsets["share_fetch"]
    assert all(row["key"] is None and row["value"] is None for row in rows)


def test_zstd_batches_have_their_codec() -> None:
    produced = [row for row in read_level("ckz", "partitions") if row["api_name"] == "Produce"]

    assert {row["codec"] for row in produced} == {"zstd"}
    assert all(row["error_name"] == "NONE" for row in produced)


@pytest.mark.parametrize("name", REQUESTS)
def test_wireshark_counts_the_same_requests_by_api(name: str) -> None:
    tshark = needs.tool("tshark")
    path = CAPTURES / f"small_{name}.pcap"
    command = [tshark, "-r", str(path), "-d", "tcp.port==21092,kafka", "-Y", "kafka.request_key"]
    command += ["-T", "fields", "-e", "kafka.request_key", "-e", "tcp.dstport"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()

    # tshark repeats the key for a response, and lists several requests of a packet in one line.
    request_keys = [line.split("\t")[0] for line in lines if line.endswith("\t21092")]
    counts = Counter(int(key) for keys in request_keys for key in keys.split(","))
    assert counts == Counter(row["api_key"] for row in read_level(name))


#: Requests by API and version; each text is a part of one line.
BY_API: dict[str, tuple[str, ...]] = {
    "aio": (
        "ApiVersions v0: 5, Fetch v11: 2, FindCoordinator v1: 1, JoinGroup v5: 2, LeaveGroup v1: 1",
        "ListOffsets v3: 1, Metadata v5: 5, OffsetCommit v3: 1, OffsetFetch v3: 1, Produce v7: 2, SyncGroup v3: 1",
    ),
    "ck": (
        "ApiVersions v3: 10, ConsumerGroupHeartbeat v1: 1, CreateTopics v4: 1, Fetch v16: 3, FindCoordinator v2: 6",
        "Heartbeat v3: 1, InitProducerId v4: 2, JoinGroup v5: 3, LeaveGroup v1: 1, ListOffsets v7: 2",
        "Metadata v13: 12, OffsetCommit v9: 2, OffsetFetch v9: 1, Produce v10: 9, SyncGroup v3: 1",
    ),
    "ckz": (
        "ApiVersions v3: 7, CreateTopics v4: 1, Fetch v16: 2, FindCoordinator v2: 3, Heartbeat v3: 1",
        "InitProducerId v4: 2, JoinGroup v5: 2, LeaveGroup v1: 1, Metadata v13: 8, OffsetCommit v9: 2",
        "OffsetFetch v9: 1, Produce v10: 9, SyncGroup v3: 1",
    ),
    "jshare": (
        "ApiVersions v4: 7, FindCoordinator v6: 2, Metadata v13: 2, ReadShareGroupState v0: 2",
        "ShareAcknowledge v2: 1, ShareFetch v2: 16, ShareGroupHeartbeat v1: 5",
    ),
    "kpy": (
        "ApiVersions v4: 5, Fetch v12: 7, FindCoordinator v6: 1, Heartbeat v4: 1, InitProducerId v4: 1",
        "JoinGroup v7: 3, LeaveGroup v5: 1, ListOffsets v11: 1, Metadata v13: 6, OffsetCommit v8: 2",
        "OffsetFetch v8: 1, Produce v9: 2, SyncGroup v5: 2",
    ),
    "share": (
        "ApiVersions v3: 9, CreateTopics v4: 1, FindCoordinator v2: 3, IncrementalAlterConfigs v1: 1",
        "InitProducerId v4: 2, Metadata v13: 9, Produce v10: 9, ReadShareGroupState v0: 2, ShareAcknowledge v1: 1",
        "ShareFetch v1: 2, ShareGroupHeartbeat v1: 3, WriteShareGroupState v1: 2",
    ),
    "txn": (
        "AddPartitionsToTxn v0: 3, AddPartitionsToTxn v5: 2, ApiVersions v3: 7, ApiVersions v4: 2",
        "CreateTopics v4: 1, EndTxn v1: 2, FindCoordinator v2: 1, InitProducerId v4: 2, Metadata v13: 7",
        "Produce v10: 5, WriteTxnMarkers v2: 2",
    ),
}
