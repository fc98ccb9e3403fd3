"""`share_timeline` of captures of Apache Kafka 4.3.0, compared with described offsets and written states."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kwire.capture.model import Row
from kwire.capture.options import Options
from kwire.capture.reader import read_rows
from kwire.capture.share_timeline import CAUSES, share_timeline
from tests.support.captures.capture_files import build_pcap, read_ip_packets
from tests.support.captures.impaired_captures import IMPAIRMENTS
from tests.support.captures.kafka_captures import CLUSTER, PLAY, SCRIPTS

Place = tuple[str, str, int]
#: APIs between brokers that contain the persisted state.
OF_BROKERS = {"load", "initialize", "delete_state", "alter_offsets"}


class Described(NamedTuple):
    """A share partition in a DescribeShareGroupOffsets response, with the time."""

    partition_key: Place
    ts: int
    start_offset: int
    lag: int
    high_watermark: int


def is_between_brokers(row: Row) -> bool:
    return str(row["client_id"] or "").startswith("Persister-client-")


def timeline_of(path: Path, *, hides_brokers: bool) -> dict[Place, list[dict[str, Any]]]:
    found: dict[Place, list[dict[str, Any]]] = defaultdict(list)
    messages = [row for row in read_rows(path, "messages") if not (hides_brokers and is_between_brokers(row))]
    for row in share_timeline(messages, read_rows(path, "flows")):
        made: dict[str, Any] = row
        found[made["group_id"], made["topic_id"], made["partition"]].append(made)
    return found


def described(path: Path) -> Iterator[Described]:
    produced: list[dict[str, Any]] = [row for row in read_rows(path, "partitions") if row["api_name"] == "Produce"]
    for row in read_rows(path, "messages"):
        if row["api_name"] != "DescribeShareGroupOffsets":
            continue
        for group in json.loads(str(row["body_response"]))["groups"]:
            for topic in group["topics"]:
                for each in topic["partitions"]:
                    if not each["errorCode"] and each["startOffset"] >= 0:
                        assert isinstance(row["resp_ts"], int)
                        ends = [
                            sent["base_offset"] + sent["records"]
                            for sent in produced
                            if topic["topicName"] == sent["topic"]
                            and (sent["partition"], sent["error_code"]) == (each["partitionIndex"], 0)
                            and sent["ts"] < row["resp_ts"]
                        ]
                        partition_key = group["groupId"], topic["topicId"], each["partitionIndex"]
                        yield Described(
                            partition_key, row["resp_ts"], each["startOffset"], each["lag"], max(ends, default=0)
                        )


@pytest.mark.parametrize("hides_brokers", [False, True], ids=["with traffic between brokers", "clients alone"])
@pytest.mark.parametrize("path", [PLAY, SCRIPTS, CLUSTER], ids=lambda path: path.stem)
def test_the_timeline_has_the_offsets_that_the_broker_describes(path: Path, hides_brokers: bool) -> None:
    timeline = timeline_of(path, hides_brokers=hides_brokers)
    # In one conversation a client writes state as a broker does, and changes the persisted state.
    written = [row for row in read_rows(path, "messages") if row["api_name"] == "WriteShareGroupState"]
    meddled = {row["group_id"] for row in written if not is_between_brokers(row)}
    descriptions = [one for one in described(path) if one.partition_key[0] not in meddled]

    for one in descriptions:
        now = [row for row in timeline[one.partition_key] if row["ts"] <= one.ts][-1]
        settled = now["stored_start_offset"] + now["delivery_complete_count"]
        assert (now["stored_start_offset"], one.high_watermark - settled) == (one.start_offset, one.lag), one
    assert len(descriptions) >= 2


def test_changes_inferred_from_client_traffic_are_those_that_the_leaders_wrote() -> None:
    causes: set[str] = set()
    for path in (PLAY, SCRIPTS, CLUSTER):
        shown, inferred = timeline_of(path, hides_brokers=False), timeline_of(path, hides_brokers=True)
        for partition_key in shown.keys() | inferred.keys():
            of_brokers, of_clients = (histories(found[partition_key]) for found in (shown, inferred))
            assert of_clients == of_brokers, partition_key
            causes |= {one[0] for changes in of_clients.values() for one in changes}

    assert causes == {"acquire", "accept", "release", "reject", "gap", "renew", "lock_timeout", "session_close"}


def test_a_leader_change_of_kafka_is_a_load_of_the_persisted_state() -> None:
    """Three brokers, of which one stops; the state that is read is also in ReadShareGroupState."""
    for hides_brokers in (False, True):
        found = timeline_of(CLUSTER, hides_brokers=hides_brokers)
        loads = [row for rows_of in found.values() for row in rows_of if row["cause"] == "load"]
        assert {row["is_inferred"] for row in loads} == ({True} if hides_brokers else {True, False})
        assert not [row for rows_of in found.values() for row in rows_of if row["cause"] == "unseen"]


def histories(found: list[dict[str, Any]]) -> dict[int, list[tuple[str, str, int | None, str | None]]]:
    """What happened to each record, in order."""
    made = defaultdict(list)
    for row in found:
        if row["cause"] not in OF_BROKERS:
            for offset in range(row["first_offset"], row["last_offset"] + 1):
                made[offset].append((row["cause"], row["state"], row["delivery_count"], row["member_id"]))
    return dict(made)


def test_a_capture_in_two_files_has_the_same_timeline_if_no_exchange_is_cut() -> None:
    packets = read_ip_packets(PLAY)
    spans: list[Any] = [(row["req_ts"], row["resp_end_ts"]) for row in read_rows(PLAY, "messages")]
    quiet = [at for at, packet in enumerate(packets) if not any(first < packet.ts <= last for first, last in spans)]
    whole = steps_of([Part(build_pcap(packets), Options())])

    for cut in quiet[1 :: len(quiet) // 6]:
        halves = ((packets[:cut], "first"), (packets[cut:], "second"))
        assert steps_of([Part(build_pcap(half), Options(name=name)) for half, name in halves]) == whole, cut
    assert len(quiet) > 20


class Part(NamedTuple):
    """A capture, and how it is read."""

    data: bytes
    options: Options


def steps_of(parts: list[Part]) -> list[tuple[object, ...]]:
    messages = [row for part in parts for row in read_rows(part.data, "messages", part.options)]
    flows = [row for part in parts for row in read_rows(part.data, "flows", part.options)]
    names = ("partition", "cause", "first_offset", "last_offset", "state", "delivery_count", "member_id")
    return [tuple(row[name] for name in names) for row in share_timeline(messages, flows)]


@pytest.mark.parametrize("impairment", [impairment for impairment in IMPAIRMENTS if impairment != "whole"])
def test_the_timeline_of_an_impaired_capture_marks_inferred_changes(impairment: str) -> None:
    packets = read_ip_packets(PLAY)
    whole = set(steps_of([Part(build_pcap(packets), Options())]))
    parts = [Part(build_pcap(part), Options()) for part in IMPAIRMENTS[impairment](packets, random.Random(impairment))]
    steps = steps_of(parts)

    # Duplicate packets change nothing; with reordered or missing packets most of the timeline is the same. Cut
    # packets have almost no bodies, and one direction has no pairs.
    least = {"doubled": len(whole), "snaplen": 0, "one direction": 0}.get(impairment, len(whole) // 3)
    assert least <= sum(step in whole for step in steps) <= len(whole)
    assert all(step[1] in CAUSES for step in steps)
