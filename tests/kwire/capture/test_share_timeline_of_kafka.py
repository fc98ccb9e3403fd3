"""`share_timeline` from captures of a real Apache Kafka 4.3.0: what it said of offsets, and what its leaders wrote."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kwire.capture.options import Options
from kwire.capture.pipeline import rows
from kwire.capture.rows import Row
from kwire.capture.share_timeline import CAUSES, share_timeline
from tests.kwire.capture.impaired import WAYS
from tests.kwire.capture.kafka_captures import CLUSTER, PLAY, SCRIPTS
from tests.kwire.capture.wire import ip_packets, pcap

Place = tuple[str, str, int]
#: Rows that tell what traffic between brokers shows of the state as a whole.
OF_BROKERS = {"load", "initialize", "delete_state", "alter_offsets"}


class Described(NamedTuple):
    """What DescribeShareGroupOffsets has said of a share partition, and when."""

    place: Place
    ts: int
    start_offset: int
    lag: int
    high_watermark: int


def is_between_brokers(row: Row) -> bool:
    return str(row["client_id"] or "").startswith("Persister-client-")


def timeline_of(path: Path, *, hides_brokers: bool) -> dict[Place, list[dict[str, Any]]]:
    found: dict[Place, list[dict[str, Any]]] = defaultdict(list)
    messages = [row for row in rows(path, "messages") if not (hides_brokers and is_between_brokers(row))]
    for row in share_timeline(messages, rows(path, "flows")):
        made: dict[str, Any] = row
        found[made["group_id"], made["topic_id"], made["partition"]].append(made)
    return found


def described(path: Path) -> Iterator[Described]:
    produced: list[dict[str, Any]] = [row for row in rows(path, "partitions") if row["api_name"] == "Produce"]
    for row in rows(path, "messages"):
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
                        place = group["groupId"], topic["topicId"], each["partitionIndex"]
                        yield Described(place, row["resp_ts"], each["startOffset"], each["lag"], max(ends, default=0))


@pytest.mark.parametrize("hides_brokers", [False, True], ids=["with traffic between brokers", "clients alone"])
@pytest.mark.parametrize("path", [PLAY, SCRIPTS, CLUSTER], ids=lambda path: path.stem)
def test_the_timeline_stands_where_the_real_broker_says_that_it_stands(path: Path, hides_brokers: bool) -> None:
    timeline = timeline_of(path, hides_brokers=hides_brokers)
    # In one conversation a client writes state as if it were a broker, and so says what is stored.
    written = [row for row in rows(path, "messages") if row["api_name"] == "WriteShareGroupState"]
    meddled = {row["group_id"] for row in written if not is_between_brokers(row)}
    told = [one for one in described(path) if one.place[0] not in meddled]

    for one in told:
        now = [row for row in timeline[one.place] if row["ts"] <= one.ts][-1]
        settled = now["stored_start_offset"] + now["delivery_complete_count"]
        assert (now["stored_start_offset"], one.high_watermark - settled) == (one.start_offset, one.lag), one
    assert len(told) >= 2


def test_what_is_inferred_from_clients_alone_is_what_the_leaders_wrote() -> None:
    causes: set[str] = set()
    for path in (PLAY, SCRIPTS, CLUSTER):
        shown, inferred = timeline_of(path, hides_brokers=False), timeline_of(path, hides_brokers=True)
        for place in shown.keys() | inferred.keys():
            of_brokers, of_clients = (lives(found[place]) for found in (shown, inferred))
            assert of_clients == of_brokers, place
            causes |= {one[0] for life in of_clients.values() for one in life}

    assert causes == {"acquire", "accept", "release", "reject", "gap", "renew", "lock_timeout", "session_close"}


def test_a_real_leader_that_moves_is_told_as_a_state_that_is_read_anew() -> None:
    """Three brokers, of which one stops; what is read anew stands in ReadShareGroupState as well."""
    for hides_brokers in (False, True):
        found = timeline_of(CLUSTER, hides_brokers=hides_brokers)
        loads = [row for rows_of in found.values() for row in rows_of if row["cause"] == "load"]
        assert {row["is_inferred"] for row in loads} == ({True} if hides_brokers else {True, False})
        assert not [row for rows_of in found.values() for row in rows_of if row["cause"] == "unseen"]


def lives(found: list[dict[str, Any]]) -> dict[int, list[tuple[str, str, int | None, str | None]]]:
    """What happened to each record, in order."""
    made = defaultdict(list)
    for row in found:
        if row["cause"] not in OF_BROKERS:
            for offset in range(row["first_offset"], row["last_offset"] + 1):
                made[offset].append((row["cause"], row["state"], row["delivery_count"], row["member_id"]))
    return dict(made)


def test_a_capture_in_two_files_gives_the_same_timeline_where_no_exchange_is_cut() -> None:
    wires = ip_packets(PLAY)
    spans: list[Any] = [(row["req_ts"], row["resp_end_ts"]) for row in rows(PLAY, "messages")]
    quiet = [at for at, wire in enumerate(wires) if not any(first < wire.ts <= last for first, last in spans)]
    whole = steps_of([Part(pcap(wires), Options())])

    for cut in quiet[1 :: len(quiet) // 6]:
        halves = ((wires[:cut], "first"), (wires[cut:], "second"))
        assert steps_of([Part(pcap(half), Options(name=name)) for half, name in halves]) == whole, cut
    assert len(quiet) > 20


class Part(NamedTuple):
    """A capture, and how it is read."""

    data: bytes
    options: Options


def steps_of(parts: list[Part]) -> list[tuple[object, ...]]:
    messages = [row for part in parts for row in rows(part.data, "messages", part.options)]
    flows = [row for part in parts for row in rows(part.data, "flows", part.options)]
    names = ("partition", "cause", "first_offset", "last_offset", "state", "delivery_count", "member_id")
    return [tuple(row[name] for name in names) for row in share_timeline(messages, flows)]


@pytest.mark.parametrize("way", [way for way in WAYS if way != "whole"])
def test_an_impaired_capture_gives_a_timeline_that_says_what_it_had_to_guess(way: str) -> None:
    wires = ip_packets(PLAY)
    whole = set(steps_of([Part(pcap(wires), Options())]))
    parts = [Part(pcap(part), Options()) for part in WAYS[way](wires, random.Random(way))]
    steps = steps_of(parts)

    # What comes twice is nothing else; in another order, or with a part missing, most of it still stands. Of cut
    # packets hardly a body is left.
    least = {"doubled": len(whole), "snaplen": 0}.get(way, len(whole) // 3)
    assert least <= sum(step in whole for step in steps) <= len(whole)
    assert all(step[1] in CAUSES for step in steps)
