"""`python -m tools.demo`: from real share consumers to a report, and three counts; exits 1 if they differ."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from mockbroker import Cluster
from tools.demo import counts
from tools.demo.members import Member

GROUP, TOPIC = "demo-group", "orders"
#: Five members share two partitions three to one, so that somebody is always left to take what two of them drop.
PARTITIONS = 2
LOCK_MS = 3_000
HABITS = ("accept", "reject", "release", "crash", "stall")
RECORDS = 900
#: Small batches, so that every member gets some.
BATCH_RECORDS = 10


def main() -> int:
    """Run the demo."""
    parser = argparse.ArgumentParser(prog="python -m tools.demo", description=__doc__)
    parser.add_argument("-o", "--out", type=Path, default=Path("out/demo"), help="where capture and report go")
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    capture = out / "demo.pcapng"
    started = time.monotonic()

    printed, journalled, recordings = _run_cluster(capture)
    _tell(printed, recordings)
    code = _compare(capture, out / "report.html", printed, journalled)
    say(f"took {time.monotonic() - started:.0f} s")
    return code


def say(text: str) -> None:
    """One line of progress."""
    print(f"==> {text}", flush=True)


def _run_cluster(capture: Path) -> tuple[counts.Counts, counts.Counts, dict[str, Member]]:
    properties = {
        "group.share.min.record.lock.duration.ms": 1_000,
        "group.share.record.lock.duration.ms": LOCK_MS,
    }
    with Cluster(nodes=3, topics={TOPIC: PARTITIONS}, properties=properties, capture=capture) as cluster:
        say(f"a cluster of 3 nodes at {cluster.bootstrap_servers}; records are locked for {LOCK_MS / 1000:g} s")
        _start_at_earliest(cluster.bootstrap_servers)
        with _members(cluster.bootstrap_servers) as members:
            say(f"{len(members)} share consumers join {GROUP}: {', '.join(members)}")
            _wait(lambda: _assigned(cluster) >= len(members), "every member to have partitions")
            _produce(cluster.bootstrap_servers)
            _wait(lambda: members["crash"].holding and members["stall"].holding, "two members to hold records")
            say("crash is killed with records in its hands; they come back with the disconnect")
            members["crash"].kill()
            say("stall keeps its connection and does nothing; its records come back when the lock expires")
            _wait(lambda: len(_settled(members)) == RECORDS, f"all {RECORDS} records to be accepted or rejected")
            for member in members.values():
                member.stop()
        journalled = counts.from_journal(cluster.exchanges())
        assert cluster.journal.dropped == 0, "the journal was too small for the demo"
    return counts.from_clients(member.told for member in members.values()), journalled, members


@contextmanager
def _members(bootstrap: str) -> Iterator[dict[str, Member]]:
    members: dict[str, Member] = {}
    try:
        for habit in HABITS:
            members[habit] = Member(bootstrap, GROUP, TOPIC, habit)
        yield members
    finally:
        for member in members.values():
            member.stop()


def _start_at_earliest(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, GROUP, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(10)


def _assigned(cluster: Cluster) -> int:
    """How many members have been told partitions, as the journal shows."""
    told = {
        exchange.client_id
        for exchange in cluster.exchanges("ShareGroupHeartbeat")
        if (response := exchange.response) is not None
        and (assignment := getattr(response, "assignment", None)) is not None
        and assignment.topic_partitions
    }
    return len(told)


def _produce(bootstrap: str) -> None:
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
    say(f"{RECORDS} records produced to {TOPIC}, {PARTITIONS} partitions")


def _settled(members: dict[str, Member]) -> set[tuple[int, int]]:
    return set().union(*(member.told.settled for member in members.values()))


def _wait(condition: Callable[[], bool], what: str, *, patience_s: float = 45.0) -> None:
    deadline = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {patience_s:g} s in vain for {what}")
        time.sleep(0.05)


def _tell(printed: counts.Counts, members: dict[str, Member]) -> None:
    say("what became of the records")
    by_count = Counter(printed.delivery_count.values())
    for count in sorted(by_count):
        times = "once" if count == 1 else f"{count} times"
        print(f"    {by_count[count]:4d} records were delivered {times}")
    kinds = printed.acknowledged
    accepted, rejected, released = (kinds[name] for name in ("accept", "reject", "release"))
    print(f"    {accepted:4d} acknowledged, {rejected} archived after a reject, {released} releases")
    for habit, member in members.items():
        got, did = sum(member.told.deliveries.values()), dict(sorted(member.told.acknowledged.items()))
        print(f"    {habit:8s} got {got:4d} deliveries, and told {did or 'nothing'}")


def _compare(capture: Path, report: Path, printed: counts.Counts, journalled: counts.Counts) -> int:
    from kwire import spark as kafka_spark
    from kwire.spark.report import write

    say("Spark reads the capture")
    spark = kafka_spark.session(is_short=True)
    try:
        reader = spark.read.format("kafka_capture")
        acquired = reader.option("level", "share_acquired").load(str(capture))
        acks = reader.option("level", "share_acks").load(str(capture))
        captured = counts.from_capture(acquired, acks)
        write(spark, [str(capture)], report, progress=lambda step: print(f"    {step}", flush=True))
    finally:
        kafka_spark.end(spark)
    sources = {"clients": printed, "journal": journalled, "capture": captured}
    for name, source in sources.items():
        deliveries, records = sum(source.deliveries.values()), len(source.deliveries)
        told = dict(sorted(source.acknowledged.items()))
        print(f"    {name:8s} {deliveries} deliveries of {records} records; {told}")
    code = 0
    for name in ("clients", "capture"):
        for line in sources["journal"].difference(sources[name]):
            code = 1
            print(f"    DIFFERENT, journal against {name}: {line}")
    say("the three counts agree" if code == 0 else "the counts differ")
    say(f"capture: {capture}")
    say(f"report:  {report}")
    return code


if __name__ == "__main__":
    sys.exit(main())
