"""The analyses of a captured workload of share-group members agree with the broker's own journal and history."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from kwire.error_codes import name_of
from kwire.report import tables
from kwire.report.levels import read_levels
from kwire.spark import analyses
from kwire.uuids import to_text
from mockbroker import Cluster
from mockbroker.broker.inspection import HistoryEvent
from mockbroker.journal import Exchange
from mockbroker.server import Server
from tests.support.brokers.share_workload import LOCK_MS, PARTITIONS, TOPIC, MockTarget, ShareWorkload

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

pytestmark = pytest.mark.spark

KINDS = {0: "gap", 1: "accept", 2: "release", 3: "reject", 4: "renew"}
#: An expired lock. Once the start offset is past a record, a broker accepts any acknowledgement of it, without effect.
OVER = "over"
WORDS = {
    HistoryEvent.ACCEPTED: "accept",
    HistoryEvent.RELEASED: "release",
    HistoryEvent.REJECTED: "reject",
    HistoryEvent.GAP: "gap",
    HistoryEvent.EXPIRED: OVER,
}
STEPS, SEED = 140, 5


class Delivery(NamedTuple):
    """One delivery of a record, and the acknowledgement that ended it, if any."""

    member_id: str
    delivery_count: int
    word: str | None = None


class Work(NamedTuple):
    """The broker's journal and history, and the tables that Spark computed from the capture."""

    journal: list[Exchange]
    acquired: dict[tuple[int, int], list[int]]
    """Delivery counts of each record, by partition and offset, in order."""
    histories: dict[tuple[int, int], list[Delivery]]
    made: dict[str, list[Row]]


def acquisitions(server: Server) -> dict[tuple[int, int], list[int]]:
    counts: dict[tuple[int, int], list[int]] = defaultdict(list)
    for note in server.core.state.broker_storage.share_history:
        key: Any = note.key
        if note.event is HistoryEvent.ACQUIRED:
            for offset in range(note.first, note.last + 1):
                counts[key[2], offset].append(note.delivery_count)
    return dict(counts)


def delivery_histories(server: Server) -> dict[tuple[int, int], list[Delivery]]:
    histories: dict[tuple[int, int], list[Delivery]] = defaultdict(list)
    for note in server.core.state.broker_storage.share_history:
        key: Any = note.key
        for offset in range(note.first, note.last + 1) if note.event in {HistoryEvent.ACQUIRED, *WORDS} else ():
            mine = histories[key[2], offset]
            if note.event is HistoryEvent.ACQUIRED:
                mine.append(Delivery(note.member_id, note.delivery_count))
            else:
                mine[-1] = mine[-1]._replace(word=WORDS[note.event])
    return dict(histories)


@pytest.fixture(scope="module")
def work(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Work:
    path = tmp_path_factory.mktemp("work") / "share.pcapng"
    properties = {"group.share.record.lock.duration.ms": LOCK_MS}
    cluster = Cluster(topics={TOPIC: PARTITIONS}, properties=properties, seed=SEED, capture=path)
    with cluster, ShareWorkload(MockTarget(cluster), SEED) as workload:
        workload.run(STEPS)
        journal, acquired, histories = cluster.exchanges(), cluster.run(acquisitions), cluster.run(delivery_histories)
    return Work(journal, acquired, histories, made(spark, path))


def made(spark: SparkSession, path: Path) -> dict[str, list[Row]]:
    levels = read_levels(spark, [str(path)], {})
    frames = tables.build_tables(levels, start_us=0, step_us=1_000_000_000_000, has_shares=True)
    sizes = analyses.request_sizes(levels.partitions)
    wanted = ["latency", "clients", "client_versions", "errors", "outcomes", "acknowledgements", "deliveries_by_count"]
    wanted += ["attempts", "connections", "conformance", "connection_churn"]
    return {**{name: frames[name].collect() for name in wanted}, "sizes": sizes.collect()}


def answered(journal: list[Exchange]) -> Iterator[tuple[Exchange, Any]]:
    return ((exchange, exchange.response) for exchange in journal if exchange.response is not None)


def test_latency_is_from_arrival_of_the_request_to_departure_of_the_response(work: Work) -> None:
    spans: dict[str, list[int]] = defaultdict(list)
    for exchange, _ in answered(work.journal):
        spans[exchange.api_name].append((exchange.departed_ns - exchange.arrived_ns) // 1_000)
    rows = {row["api_name"]: row for row in work.made["latency"]}

    assert {name: row["requests"] for name, row in rows.items()} == {name: len(times) for name, times in spans.items()}
    for name, times in spans.items():
        in_order = sorted(times)
        assert abs(rows[name]["max_us"] - in_order[-1]) <= 1
        assert in_order[0] <= rows[name]["p50_us"] <= in_order[len(in_order) // 2] + 1


def test_clients_and_their_versions_are_those_of_the_journal(work: Work) -> None:
    asked = Counter(str(exchange.client_id) for exchange in work.journal)
    versions: dict[tuple[str, str], set[int]] = defaultdict(set)
    for exchange in work.journal:
        versions[str(exchange.client_id), exchange.api_name].add(exchange.api_version)

    requests = Counter({row["client_id"]: 0 for row in work.made["clients"]})
    for row in work.made["clients"]:
        requests[row["client_id"]] += row["requests"]
    assert requests == asked
    client_versions = {
        (row["client_id"], row["api_name"]): set(row["versions"]) for row in work.made["client_versions"]
    }
    assert client_versions == versions


def test_errors_of_partitions_are_those_of_the_responses(work: Work) -> None:
    expected: Counter[tuple[object, ...]] = Counter()
    for exchange, response in answered(work.journal):
        if exchange.api_name not in ("ShareFetch", "ShareAcknowledge"):
            continue
        rows = [row for topic in response.responses for row in topic.partitions]
        for row in rows:
            code = row.error_code or getattr(row, "acknowledge_error_code", 0)
            if code:
                expected[exchange.api_name, name_of(code), TOPIC, row.partition_index] += 1
        if response.error_code and not any(row.error_code for row in rows):
            expected[exchange.api_name, name_of(response.error_code), None, None] += 1

    keys = ("api_name", "error_name", "topic", "partition")
    assert {tuple(row[key] for key in keys): row["failures"] for row in work.made["errors"]} == expected
    assert len(expected) >= 3


def test_redeliveries_are_those_of_the_broker_s_history(work: Work) -> None:
    outcomes = {(row["partition"], row["offset"]): row for row in work.made["outcomes"]}

    assert {key: (row["deliveries"], row["delivery_count_max"]) for key, row in outcomes.items()} == {
        key: (len(counts), max(counts)) for key, counts in work.acquired.items()
    }
    by_count = Counter(count for counts in work.acquired.values() for count in counts)
    assert {row["delivery_count"]: row["records"] for row in work.made["deliveries_by_count"]} == by_count
    assert max(by_count) >= 3


def test_the_acknowledgements_of_each_member_are_those_that_it_sent(work: Work) -> None:
    expected: Counter[tuple[object, ...]] = Counter()
    for exchange, response in answered(work.journal):
        request: Any = exchange.request
        if exchange.api_name not in ("ShareFetch", "ShareAcknowledge"):
            continue
        codes = {
            (topic.topic_id, row.partition_index): getattr(row, "acknowledge_error_code", row.error_code)
            for topic in response.responses
            for row in topic.partitions
        }
        for topic in request.topics:
            for place in topic.partitions:
                code = codes.get((topic.topic_id, place.partition_index), response.error_code)
                for batch in place.acknowledgement_batches:
                    size = batch.last_offset - batch.first_offset + 1
                    types = list(batch.acknowledge_types)
                    for kind in types * size if len(types) == 1 else types:
                        expected[request.member_id, KINDS[kind], bool(code)] += 1

    keys = ("member_id", "ack_name", "refused")
    assert {tuple(row[key] for key in keys): row["records"] for row in work.made["acknowledgements"]} == expected
    assert {kind for _, kind, _ in expected} == set(KINDS.values())


def test_produce_requests_carry_the_records_that_were_written(work: Work) -> None:
    sent: list[int] = []
    for exchange in work.journal:
        request: Any = exchange.request
        if exchange.api_name == "Produce":
            assert {to_text(topic.topic_id) for topic in request.topic_data} != set()
            sent += [len(bytes(row.records)) for topic in request.topic_data for row in topic.partition_data]
    requests = [row for row in work.made["sizes"] if row["api_name"] == "Produce"]

    assert sorted(row["batch_bytes"] for row in requests) == sorted(sent)
    highest = max(offset for partition, offset in work.acquired if partition == 0)
    assert sum(row["records"] for row in requests) >= highest + 1


def test_deliveries_and_acknowledgements_of_each_record_are_those_of_the_history(work: Work) -> None:
    histories: dict[tuple[int, int], list[Delivery]] = defaultdict(list)
    for row in sorted(work.made["attempts"], key=lambda row: row["acquired_ts"] or row["ack_ts"]):
        if row["delivery_count"] is not None:
            word = row["ack_name"] if row["ack_error"] in (None, "NONE") else None
            histories[row["partition"], row["offset"]].append(Delivery(row["member_id"], row["delivery_count"], word))

    assert histories.keys() == work.histories.keys()
    for key, expected in work.histories.items():
        captured = sorted(histories[key], key=lambda delivery: delivery.delivery_count)
        for mine, theirs in zip(captured, expected, strict=True):
            assert mine == (theirs if theirs.word != OVER else theirs._replace(word=mine.word)), key


def test_connections_are_those_of_the_journal_and_break_only_the_rules_that_they_break_on_purpose(work: Work) -> None:
    expected = Counter(f"{exchange.client}" for exchange in work.journal)
    requests = {row["conn_id"].split(">")[0]: row["requests"] for row in work.made["connections"]}
    closed = sum(row["count"] for row in work.made["connection_churn"] if row["name"] == "closed")

    assert requests == expected
    assert closed == sum(row["ended"] == "fin" for row in work.made["connections"]) >= 4
    # By `ShareWorkload.acknowledge_wrongly`, and by late acknowledgements.
    assert {row["rule"] for row in work.made["conformance"]} <= {"share-ack-lock-expired", "share-ack-not-held"}
