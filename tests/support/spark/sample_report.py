"""A handwritten report with all fields, for tests of the page without Spark."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from kwire.report.model import Reading, Report, SharePanel, Timeline
from kwire.report.row_types import (
    AckRow,
    BatchRow,
    BreachRow,
    ClientRow,
    ConnectionRow,
    DeliveryRow,
    ErrorRow,
    FileRow,
    GroupRow,
    InFlightRow,
    LatencyRow,
    LockRow,
    LockUseRow,
    PoisonRow,
    RebalanceRow,
    RecordDeliveryRow,
    RuleRow,
    SlowRow,
    StepRow,
    VersionRow,
)

START_US = 1_795_257_723_000_000
CONNECTION = "127.0.0.1:40000>127.0.0.1:9092"
HOSTILE = "</script><img src=x onerror=alert(1)>"


def report(name: str = "orders") -> Report:
    """A report about a share group and other traffic; `name` is used for topic, group, member and client."""
    chance = random.Random(7)
    tops = {"ShareFetch": 40, "Produce": 22, "ShareAcknowledge": 12, "Metadata": 5, "FindCoordinator": 3}
    traffic = {api: [chance.randrange(top) for _ in range(48)] for api, top in tops.items()}
    traffic |= {api: [int(chance.random() < 0.2) for _ in range(48)] for api in ("ApiVersions", "ShareGroupHeartbeat")}
    errors = {
        "INVALID_RECORD_STATE": [int(20 < index < 29) * chance.randrange(4) for index in range(48)],
        "SHARE_SESSION_NOT_FOUND": [int(index == 31) * 2 for index in range(48)],
    }
    rules = [RuleRow("response out of order", 3, 1, *at(4, 9)), RuleRow("share-ack-lock-expired", 1, 1, *at(44, 44))]
    return Report(
        files=[FileRow(file(name), 1_502, 1_498, 9, START_US, START_US + 47_300_000)],
        statuses={"ok": 1_498, "no_response": 4, "undecodable": 1},
        clients=5,
        connections=9,
        latency=[
            LatencyRow("ShareFetch", "v1-v2", 812, 410_000, 502_000, 505_100, 509_320),
            LatencyRow("Produce", "v13", 260, 850, 4_300, 12_900, 48_210),
            LatencyRow("ShareAcknowledge", "v2", 204, 620, 2_010, 5_400, 5_410),
            LatencyRow("CreateTopics", "v7", 2, 18_000, 21_000, 21_000, 21_000),
            LatencyRow("Metadata", "v12-v13", 88, 310, 900, 1_750, 2_400),
            LatencyRow("ApiVersions", "v0-v4", 12, 95, 400, 410, 410),
        ],
        traffic=Timeline(START_US, 1_000_000, 48, traffic),
        errors=Timeline(START_US, 1_000_000, 48, errors),
        error_rows=[
            ErrorRow("ShareAcknowledge", "INVALID_RECORD_STATE", name, 0, 14, 1, *at(21, 28), file(name), 77, 4_021),
            ErrorRow("ShareFetch", "SHARE_SESSION_NOT_FOUND", None, None, 2, 1, *at(31, 31.2), file(name), 92, 5_310),
        ],
        error_responses=16,
        req_bytes=1_234_567,
        resp_bytes=98_765_432,
        slowest=[
            SlowRow("Produce", 13, name, 48_210, "NONE", START_US + 9_000_000, file(name), CONNECTION, 41, 901, 917),
            SlowRow("CreateTopics", 7, None, 21_000, None, None, file(name), CONNECTION, 2, None, None),
        ],
        share_traffic=Timeline(START_US, 1_000_000, 48, _deliveries_over_time()),
        groups=[GroupRow(name, 1_950, 1_840, 74, 4)],
        deliveries=[
            DeliveryRow(name, name, 0, 1_310, 1_200, 74, 4),
            DeliveryRow(name, f"{name}-eu", 1, 640, 640, 0, 1),
        ],
        delivery_counts={name: {1: 1_840, 2: 74, 3: 24, 4: 12}},
        outcomes={name: {"accepted": 1_790, "rejected": 26, "exhausted": 5, "released": 9, "open": 10}},
        acks=[
            AckRow(name, "q2Jm0sXlR8aYx1Yw0rA1Bg", f"{name}-1", {"accept": 900, "release": 31}, 0),
            AckRow(name, "7vYbqUQpQkGJmF2rLr3kHA", f"{name}-2", {"accept": 700, "reject": 26, "renew": 12}, 0),
            AckRow(name, "b4WcJk0hTz2sT7rKc1k9dw", f"{name}-3", {"accept": 190, "gap": 3}, 14),
        ],
        refused_acks=14,
        panels=[
            SharePanel(
                *(name, name, 0, START_US, 1_000_000),
                {"acquired": [10] * 48, "available": [0, 4] * 24, "acknowledged": [2] * 48, "archived": [1, 1, 0] * 16},
                peaks=[10, 12] * 24,
                starts=[None, *range(100, 1_275, 25)],
                ends=[None, *range(140, 1_315, 25)],
                readings=[Reading(1, "alter_offsets"), Reading(30, "load")],
                begin=100,
                end=1_300,
                deliveries_max=4,
                transitions=740,
                inferred=12,
            )
        ],
        **_locks(name),
        **_clients(name),
        **_connections(name),
        **_groups(name),
        rules=rules,
        breaches=[
            BreachRow(rules[0].rule, file(name), CONNECTION, name, "Fetch", 17, 300, 310, START_US, name[:60]),
            BreachRow(rules[1].rule, file(name), None, None, None, None, None, None, None, name[:60]),
        ],
        omitted={"conformance": 2},
    )


def _deliveries_over_time() -> dict[str, list[int]]:
    """As many deliveries of each count as in `delivery_counts`."""
    later = {"2": [10] * 7 + [4], "3": [3] * 8, "4": [1, 2] * 4}
    return {"1": [40] * 46 + [0, 0], **{count: [0] * 40 + records for count, records in later.items()}}


def file(name: str) -> str:
    """The path of the capture."""
    return f"/captures/{name}.pcapng"


def at(first_s: float, last_s: float) -> tuple[int, int]:
    """Two times, in seconds from the start."""
    return START_US + round(first_s * 1e6), START_US + round(last_s * 1e6)


def _locks(name: str) -> dict[str, Any]:
    def delivery(member: str, count: int, first: float, last: float | None, word: str | None) -> RecordDeliveryRow:
        """One delivery of record 77."""
        said = None if last is None else START_US + round(last * 1e6)
        start = START_US + round(first * 1e6)
        return RecordDeliveryRow(name, name, 0, 77, member, f"{member}-client", count, start, 10_000, said, word, None)

    def lock(index: int, share: float, word: str, error: str | None) -> LockRow:
        """A range of ten records."""
        moment = START_US + index * 470_000
        held, first = round(share * 10_000_000), index * 10
        return LockRow(
            *(name, name, 0, "m", name, moment, word, error, 10_000, 0, held, share, first, first + 9, 10),
            *(file(name), index, index * 7),
        )

    words = ["accept"] * 8 + ["release", "reject"]
    return {
        "poison": [
            PoisonRow(name, name, 0, 77, 5, 6, 2, "exhausted", file(name), 5_512),
            PoisonRow(name, None, 1, 9, 1, 1, 1, "rejected", file(name), None),
        ],
        "delivery_histories": [
            delivery("a", 1, 0.5, 6, "release"),
            delivery("b", 2, 6.5, None, None),
            delivery("a", 3, 17, 20, "release"),
            delivery("b", 4, 21, 22, "release"),
            delivery("a", 5, 30, None, None),
        ],
        "locks": [lock(index, 0.002 * (1 + index % 40) ** 1.7, words[index % 10], None) for index in range(96)]
        + [lock(97, 1.3, "accept", "INVALID_RECORD_STATE")],
        "lock_use": [
            LockUseRow(
                name, "q2Jm0sXlR8aYx1Yw0rA1Bg", f"{name}-1", 931, 93, 41_000, 900_000, 9_900_000, 10_000, 0, 0, 0
            ),
            LockUseRow(name, "b4WcJk0hTz2sT7rKc1k9dw", None, 193, 4, 52_000, 9_900_000, 13_000_000, 10_000, 12, 30, 14),
        ],
    }


def _clients(name: str) -> dict[str, Any]:
    return {
        "client_rows": [
            ClientRow(name, "apache-kafka-java 4.3.0", 812, 3, 5, 14, 81_200, 9_812_000, 17.2),
            ClientRow("loader", "librdkafka 2.16.0", 260, 1, 3, 0, 12_000_000, 21_000, None),
            ClientRow(None, "", 2, 1, 1, 0, 80, 90, None),
        ],
        "versions": [VersionRow(name, "ShareFetch", [1, 2], 812), VersionRow("loader", "Produce", [13], 260)],
        "batches": [
            BatchRow("loader", "Produce", 260, 5_200, 310_000, 810, 20, 190, ["lz4", "none"], file(name), 44),
            BatchRow(name, "ShareFetch", 12, 12_000, 9_100_000, 900_000, 1_000, 0, ["zstd"], None, None),
        ],
    }


def _connections(name: str) -> dict[str, Any]:
    def connection(port: int, first: float, last: float, ended: str, *issues: int) -> ConnectionRow:
        """One connection; `issues`: retransmits, lost bytes and zero windows."""
        return ConnectionRow(
            *(file(name), f"127.0.0.1:{port}>127.0.0.1:9092", 0, name, "kafka", ended, *at(first, last), port, 120, 3),
            *(100, 850, 4_000 * (1 + sum(issues)), 3, 0, 31, 1_900, 812_345, *issues, 200),
        )

    values = [(1 + (index * 7) % 5, 200 * (index > 40)) for index in range(48)]
    in_flight = [InFlightRow(file(name), CONNECTION, 0, name, index, 9, *both) for index, both in enumerate(values)]
    in_flight.append(InFlightRow(file(name), "127.0.0.1:40001>127.0.0.1:9092", 0, None, 3, 1, 1, 0))
    counts = {"opened": [1, 1] + [0] * 46, "closed": [0] * 30 + [2] + [0] * 17}
    sums = {"with_retransmits": 2, "retransmits": 14, "with_zero_windows": 1, "zero_windows": 3}
    return {
        "connection_rows": [
            connection(40_000, 0, 47, "end", 12, 0, 3),
            connection(40_001, 1, 30, "fin", 2, 1_460, 0),
            connection(40_002, 31, 31.01, "rst", 0, 0, 0),
        ],
        "connection_problems": {**sums, "resets": 1, "idle_closes": 0},
        "connection_churn": Timeline(START_US, 1_000_000, 48, counts),
        "requests_in_flight": in_flight,
    }


def _groups(name: str) -> dict[str, Any]:
    def step(member: str, state: str, seconds: tuple[float, float], epoch: int | None, error: str | None) -> StepRow:
        """One step of a member."""
        first, last = seconds
        return StepRow(name, member, name, "Share", state, epoch, error, *at(first, last), file(name), 5, 55)

    return {
        "rebalances": [RebalanceRow(name, "Share", 2, 3, 1, 1, 812_000)],
        "steps": [
            step("m1", "joining", (0, 1.5), None, None),
            step("m1", "member", (1.5, 20), 1, None),
            step("m1", "member", (20, 47), 2, None),
            step("m2", "joining", (18, 20), None, None),
            step("m2", "member", (20, 30), 2, None),
            step("m2", "error", (30, 32), None, "UNKNOWN_MEMBER_ID"),
            step("m2", "left", (32, 32.001), None, None),
        ],
    }


def changed_report(name: str = "orders") -> Report:
    """A second report to compare: slower, with new errors, another client and another version."""
    before = report(name)
    latency = [replace(row, p95_us=row.p95_us * 3) if row.api == "Produce" else row for row in before.latency]
    latency = [row for row in latency if row.api != "CreateTopics"]
    latency.append(LatencyRow("DeleteTopics", "v6", 1, 9_000, 9_000, 9_000, 9_000))
    newer = replace(before.versions[0], versions=[2])
    return replace(
        before,
        latency=latency,
        error_rows=[
            ErrorRow("Produce", "NOT_LEADER_OR_FOLLOWER", name, 3, 40, 1, *at(1, 2), file(name), 4, 9),
            replace(before.error_rows[0], failures=90),
        ],
        client_rows=[replace(before.client_rows[0], software="other 1.0"), ClientRow("x", "", 1, 1, 1, 0, 1, 1, None)],
        versions=[newer, *before.versions[1:]],
        rules=[RuleRow("response out of order", 30, 1, *at(4, 9))],
    )
