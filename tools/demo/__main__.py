"""`python -m tools.demo`: real share consumers, a fault, a capture and a report, and three counts that must agree.

Exit code 1 if the counts differ.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from confluent_kafka import Producer

from mockbroker import Cluster
from tools.bench.client_workload import start_at_earliest, wait_until
from tools.demo import counts
from tools.demo.members import Member

GROUP, TOPIC = "demo-group", "orders"
#: Five members share two partitions, so that others remain for the records that two of them drop.
PARTITIONS = 2
LOCK_MS = 3_000
#: How many requests of the producer the fault refuses.
FAULT_HITS = 3
BEHAVIOURS = ("accept", "reject", "release", "crash", "stall")
RECORDS = 900
_wait_until = partial(wait_until, timeout_s=45.0, pause_s=0.05)
#: Small batches, so that every member gets some.
BATCH_RECORDS = 10


def main() -> int:
    """Run the demo."""
    parser = argparse.ArgumentParser(prog="python -m tools.demo", description=__doc__)
    parser.add_argument("-o", "--out", type=Path, default=Path("out/demo"), help="the folder for capture and report")
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    capture = out / "demo.pcapng"
    started = time.monotonic()

    printed, journalled, recordings = _run_cluster(capture)
    _print_outcome(printed, recordings)
    code = _compare_counts(capture, out / "report.html", printed, journalled)
    print_progress(f"took {time.monotonic() - started:.0f} s")
    return code


def print_progress(text: str) -> None:
    """One line of progress."""
    print(f"==> {text}", flush=True)


def _run_cluster(capture: Path) -> tuple[counts.Counts, counts.Counts, dict[str, Member]]:
    properties = {"group.share.min.record.lock.duration.ms": 1_000, "group.share.record.lock.duration.ms": LOCK_MS}
    with Cluster(nodes=3, topics={TOPIC: PARTITIONS}, properties=properties, capture=capture, control=0) as cluster:
        bootstrap = cluster.bootstrap_servers
        print_progress(f"a cluster of 3 nodes at {bootstrap}; records are locked for {LOCK_MS / 1000:g} s")
        print_progress(f"the live page, until the last record is acknowledged: {cluster.control_url}/")
        start_at_earliest(bootstrap, GROUP)
        with _run_members(bootstrap) as members:
            crash, stall = members["crash"], members["stall"]
            print_progress(f"{len(members)} share consumers join {GROUP}: {', '.join(members)}")
            _wait_until(lambda: _assigned_count(cluster) >= len(members), "partitions of every member")
            fault = cluster.faults.add("Produce", topic=TOPIC, times=FAULT_HITS, error="NOT_LEADER_OR_FOLLOWER")
            print_progress(f"a fault: {fault.name}")
            _produce_records(bootstrap)
            print_progress(f"the fault has acted {fault.hits} times, and the producer has sent these records again")
            _wait_until(lambda: crash.is_holding and stall.is_holding, "two members that hold records")
            print_progress("crash is killed while it holds records; they are released when it disconnects")
            crash.kill()
            print_progress(
                "stall keeps its connection and does nothing; its records are released when their locks expire"
            )
            every_record = f"all {RECORDS} records accepted or rejected"
            _wait_until(lambda: len(_completed_records(members)) == RECORDS, every_record)
            for member in members.values():
                member.stop()
        journalled = counts.count_journal(cluster.exchanges())
        assert cluster.journal.dropped == 0, "the journal was too small for the demo"
    return counts.count_client_output(member.output for member in members.values()), journalled, members


@contextmanager
def _run_members(bootstrap: str) -> Iterator[dict[str, Member]]:
    members: dict[str, Member] = {}
    try:
        for behaviour in BEHAVIOURS:
            members[behaviour] = Member(bootstrap, GROUP, TOPIC, behaviour)
        yield members
    finally:
        for member in members.values():
            member.stop()


def _assigned_count(cluster: Cluster) -> int:
    """The number of members with assigned partitions, by the journal."""
    exchanges = cluster.exchanges("ShareGroupHeartbeat")
    answers = [(exchange.client_id, getattr(exchange.response, "assignment", None)) for exchange in exchanges]
    return len({client for client, assignment in answers if assignment is not None and assignment.topic_partitions})


def _produce_records(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "batch.num.messages": BATCH_RECORDS})
    failures: list[object] = []
    for number in range(RECORDS):
        producer.produce(
            TOPIC,
            key=f"order-{number}",
            value=f'{{"order": {number}}}',
            partition=number // BATCH_RECORDS % PARTITIONS,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
        if number % BATCH_RECORDS == BATCH_RECORDS - 1:
            producer.flush(10)
    if failures or producer.flush(10):
        raise RuntimeError(f"not every record could be produced: {failures[:3]}")
    print_progress(f"{RECORDS} records produced to {TOPIC}, {PARTITIONS} partitions")


def _completed_records(members: dict[str, Member]) -> set[tuple[int, int]]:
    return set().union(*(member.output.completed for member in members.values()))


def _print_outcome(printed: counts.Counts, members: dict[str, Member]) -> None:
    print_progress("results of the records")
    by_count = Counter(printed.delivery_count.values())
    for count in sorted(by_count):
        times = "once" if count == 1 else f"{count} times"
        print(f"    {by_count[count]:4d} records were delivered {times}")
    kinds = printed.acknowledged
    accepted, rejected, released = (kinds[name] for name in ("accept", "reject", "release"))
    print(f"    {accepted:4d} acknowledged, {rejected} archived after a reject, {released} releases")
    for behaviour, member in members.items():
        delivered = sum(member.output.deliveries.values())
        acknowledged = dict(sorted(member.output.acknowledged.items()))
        print(f"    {behaviour:8s} {delivered:4d} deliveries, acknowledged {acknowledged or 'nothing'}")


def _compare_counts(capture: Path, report: Path, printed: counts.Counts, journalled: counts.Counts) -> int:
    from kwire import spark as kafka_spark
    from kwire.report.write import write_report

    print_progress("Spark reads the capture")
    spark = kafka_spark.session(is_short=True)
    try:
        reader = spark.read.format("kafka_capture")
        acquired = reader.option("level", "share_acquired").load(str(capture))
        acks = reader.option("level", "share_acks").load(str(capture))
        captured = counts.count_capture(acquired, acks)
        write_report(spark, [str(capture)], report, progress=lambda step: print(f"    {step}", flush=True))
    finally:
        kafka_spark.end(spark)
    sources = {"clients": printed, "journal": journalled, "capture": captured}
    for name, source in sources.items():
        deliveries, records = sum(source.deliveries.values()), len(source.deliveries)
        types = dict(sorted(source.acknowledged.items()))
        print(f"    {name:8s} {deliveries} deliveries of {records} records; {types}")
    lines = [(name, line) for name in ("clients", "capture") for line in journalled.difference(sources[name])]
    for name, line in lines:
        print(f"    DIFFERENT, journal against {name}: {line}")
    print_progress("the counts differ" if lines else "the three counts agree")
    print_progress(f"capture: {capture}")
    print_progress(f"report:  {report}")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
