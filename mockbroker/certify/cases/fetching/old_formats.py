"""Messages of magic 0 and 1, which a cluster that was upgraded from Kafka 0.10 or earlier still has on its disks."""

from __future__ import annotations

from typing import Literal

from kwire.records import read_batches
from mockbroker.certify.case import Case, CaseFunction, ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.driver.handles import Polled
from mockbroker.certify.seen_values import describe_seen
from mockbroker.cluster_methods.topics import RecordFields

_STORED = Source(
    "KIP-724", "Public Interfaces, Apache Kafka 4.0", "kafka-clients AbstractLegacyRecordBatch, LegacyRecord"
)
_TIMESTAMPS = Source("KIP-32", "Proposed Changes", "kafka-clients AbstractLegacyRecordBatch")
_OFFSETS = Source("KIP-31", "Proposed Changes", "kafka-clients AbstractLegacyRecordBatch")
_LZ4 = Source("KIP-57", "Proposed Changes", "kafka-clients Lz4BlockInputStream")
_MIDDLE = Source(_OFFSETS.document, _OFFSETS.section, "kafka-clients KafkaConsumer.seek")
_ONE = ClusterPlan(topics={"orders": 1})
_NO_TIMESTAMP = -1
_Compression = Literal["gzip", "snappy", "lz4"]


def _timed(run: CaseRun, *values: str) -> list[RecordFields]:
    """Records with these values, each a second later than the one before."""
    first_ms = run.cluster.clock.now_ms() - 60_000
    return [{"value": value, "timestamp_ms": first_ms + 1_000 * number} for number, value in enumerate(values)]


def _times(records: list[RecordFields]) -> list[int | None]:
    return [each["timestamp_ms"] for each in records]


def _read(run: CaseRun, count: int, offset: int | str = "earliest") -> Polled:
    consumer = run.consumer()
    consumer.assign(("orders", 0, offset))
    return consumer.poll_until(records=count)


def _expect_records(run: CaseRun, polled: Polled, values: list[str], first_offset: int = 0) -> None:
    """Expect these values, at consecutive offsets."""
    fetched = run.wire.requests("Fetch")
    run.expect(polled.values == values, f"the values {describe_seen(values)}", seen=polled.values, exchanges=fetched)
    offsets = list(range(first_offset, first_offset + len(values)))
    run.expect(
        polled.offsets == offsets, f"the offsets {describe_seen(offsets)}", seen=polled.offsets, exchanges=fetched
    )


def _expect_times(run: CaseRun, polled: Polled, times: list[int | None]) -> None:
    seen, fetched = [each.timestamp for each in polled.records], run.wire.requests("Fetch")
    run.expect(seen == times, f"the timestamps {describe_seen(times)}", seen=seen, exchanges=fetched)


@case(
    "fetching.old-formats.magic-0",
    title="Messages of magic 0",
    level=Level.MUST,
    rule="A broker returns messages of magic 0 as it has them on its disk: a consumer reads their keys and values.",
    source=_STORED,
    needs=("consumer.assign",),
    cluster=_ONE,
    decided_by=("Fetch",),
)
def magic_0(run: CaseRun) -> None:
    """No fault: the log has three messages of magic 0, with a null value, a null key, and an empty key."""
    written = [("deleted", None), (None, ""), ("", "value")]
    run.cluster.append_old_messages("orders", [{"key": key, "value": value} for key, value in written], magic=0)

    polled = _read(run, 3)

    fetched = run.wire.requests("Fetch")
    seen = [(each.key, each.value) for each in polled.records]
    run.expect(seen == written, f"keys and values as written: {describe_seen(written)}", seen=seen, exchanges=fetched)
    run.expect(polled.offsets == [0, 1, 2], "offsets 0 to 2", seen=polled.offsets, exchanges=fetched)


@case(
    "fetching.old-formats.magic-0-no-timestamp",
    title="The timestamp of a message of magic 0",
    level=Level.SHOULD,
    rule="A message of magic 0 has no timestamp: the application sees -1 or none, and no time that was made up.",
    source=Source("KIP-32", "Public Interfaces", "kafka-clients ConsumerRecord.NO_TIMESTAMP"),
    needs=("consumer.assign",),
    cluster=_ONE,
    decided_by=("Fetch",),
)
def magic_0_no_timestamp(run: CaseRun) -> None:
    """No fault: the log has a message of magic 0."""
    run.cluster.append_old_messages("orders", [{"value": "first"}], magic=0)

    polled = _read(run, 1)

    seen = polled.records[0].timestamp
    run.expect(
        seen in (None, _NO_TIMESTAMP), "the timestamp -1, or none", seen=seen, exchanges=run.wire.requests("Fetch")
    )


@case(
    "fetching.old-formats.magic-1",
    title="Messages of magic 1",
    level=Level.MUST,
    rule="A broker returns messages of magic 1 as it has them on its disk: a consumer reads them and their timestamps.",
    source=_STORED,
    needs=("consumer.assign",),
    cluster=_ONE,
    quick=True,
    decided_by=("Fetch",),
)
def magic_1(run: CaseRun) -> None:
    """No fault: the log has three messages of magic 1, whose timestamps are a second apart."""
    records = _timed(run, "first", "second", "third")
    run.cluster.append_old_messages("orders", records, magic=1)

    polled = _read(run, 3)

    _expect_records(run, polled, ["first", "second", "third"])
    _expect_times(run, polled, _times(records))


def _compressed(magic: Literal[0, 1], codec: _Compression) -> Case:
    kind = "count from the first one, and that of the outer message is the last one's" if magic else "are absolute"
    decorate = case(
        f"fetching.old-formats.magic-{magic}-{codec}",
        title=f"Messages of magic {magic} in {codec}",
        level=Level.MUST,
        rule=f"Compressed messages of magic {magic} are in the value of another one. Their offsets {kind}.",
        source=_OFFSETS,
        needs=("consumer.assign", f"compression.{codec}"),
        cluster=_ONE,
        decided_by=("Fetch",),
    )
    return decorate(_play_compressed(magic, codec))


def _play_compressed(magic: Literal[0, 1], codec: _Compression) -> CaseFunction:
    values = [f"record {number} " + "x" * 200 for number in range(10)]

    def play(run: CaseRun) -> None:
        records = _timed(run, *values)
        run.cluster.append_old_messages("orders", [{"value": "before"}], magic=magic)
        run.cluster.append_old_messages("orders", records, magic=magic, compression=codec)
        run.cluster.append_old_messages("orders", [{"value": "after"}], magic=magic)

        polled = _read(run, 12)

        _expect_records(run, polled, ["before", *values, "after"])
        if magic:
            _expect_times(run, Polled(polled.records[1:-1], []), _times(records))

    play.__doc__ = f"No fault: the log has a message in {codec} with ten messages of magic {magic}, between two others."
    return play


magic_0_gzip = _compressed(0, "gzip")
magic_0_snappy = _compressed(0, "snappy")
magic_1_gzip = _compressed(1, "gzip")
magic_1_snappy = _compressed(1, "snappy")
magic_1_lz4 = _compressed(1, "lz4")

magic_0_lz4 = case(
    "fetching.old-formats.magic-0-lz4",
    title="Messages of magic 0 in lz4",
    level=Level.SHOULD,
    rule="The frames of messages of magic 0 have a wrong checksum of their header, which a consumer does not check.",
    source=_LZ4,
    needs=("consumer.assign", "compression.lz4"),
    cluster=_ONE,
    decided_by=("Fetch",),
)(_play_compressed(0, "lz4"))


@case(
    "fetching.old-formats.compacted",
    title="Compressed messages of magic 1 after compaction",
    level=Level.MUST,
    rule="Messages that compaction has removed leave gaps: the others in the outer message keep their offsets.",
    source=_OFFSETS,
    needs=("consumer.assign", "compression.gzip"),
    cluster=_ONE,
    decided_by=("Fetch",),
)
def compacted(run: CaseRun) -> None:
    """No fault: of a message in gzip the records with the offsets 0, 2 and 5 are left, and a record with offset 6
    follows."""
    kept = _timed(run, "first", "third", "sixth")
    run.cluster.append_old_messages("orders", kept, magic=1, compression="gzip", offsets=[0, 2, 5])
    run.cluster.append_old_messages("orders", [{"value": "seventh"}], magic=1)

    polled = _read(run, 4)

    fetched, expected = run.wire.requests("Fetch"), [("first", 0), ("third", 2), ("sixth", 5), ("seventh", 6)]
    seen = [(each.value, each.offset) for each in polled.records]
    run.expect(seen == expected, f"values and offsets {describe_seen(expected)}", seen=seen, exchanges=fetched)


@case(
    "fetching.old-formats.append-time",
    title="Compressed messages of magic 1 with the time of the broker",
    level=Level.MUST,
    rule="With LogAppendTime the timestamp of the outer message is that of all messages in it, whatever they have.",
    source=_TIMESTAMPS,
    needs=("consumer.assign", "compression.gzip"),
    cluster=_ONE,
    decided_by=("Fetch",),
)
def append_time(run: CaseRun) -> None:
    """No fault: the log has a message in gzip with LogAppendTime; those in it have earlier timestamps of their own."""
    time_ms = run.cluster.clock.now_ms() - 5_000
    records = _timed(run, "first", "second", "third")
    run.cluster.append_old_messages("orders", records, magic=1, compression="gzip", append_time_ms=time_ms)

    polled = _read(run, 3)

    _expect_records(run, polled, ["first", "second", "third"])
    _expect_times(run, polled, [time_ms] * 3)


def _from_the_middle(magic: Literal[0, 1]) -> Case:
    def play(run: CaseRun) -> None:
        values = [f"record {number}" for number in range(10)]
        run.cluster.append_old_messages("orders", _timed(run, *values), magic=magic, compression="gzip")

        polled = _read(run, 4, offset=6)

        _expect_records(run, polled, values[6:], first_offset=6)

    play.__doc__ = f"No fault: ten messages of magic {magic} are in one in gzip, and are read from offset 6 on."
    decorate = case(
        f"fetching.old-formats.magic-{magic}-middle",
        title=f"Compressed messages of magic {magic} are read from their middle",
        level=Level.MUST,
        rule="A broker returns the whole outer message: records before the position are not given to the application.",
        source=_MIDDLE,
        needs=("consumer.assign", "compression.gzip"),
        cluster=_ONE,
        decided_by=("Fetch",),
    )
    return decorate(play)


magic_0_middle = _from_the_middle(0)
magic_1_middle = _from_the_middle(1)


@case(
    "fetching.old-formats.partial-message",
    title="The end of an answer cuts a message of magic 1",
    level=Level.MUST,
    rule="An answer may end in the middle of a message: the consumer asks for it again, at its offset.",
    source=Source("Kafka protocol guide", "Fetch API", "kafka-clients ByteBufferLogInputStream.nextBatch"),
    needs=("consumer.assign",),
    settings_needed=("max_partition_fetch_bytes",),
    cluster=_ONE,
    decided_by=("Fetch",),
)
def partial_message(run: CaseRun) -> None:
    """No fault: 20 messages of magic 1 with 400 bytes each are read with a limit of 1,000 bytes, the end of which
    is in a message."""
    values = [f"record {number:02d} " + "x" * 390 for number in range(20)]
    run.cluster.append_old_messages("orders", _timed(run, *values), magic=1)
    consumer = run.consumer(max_partition_fetch_bytes=1_000)
    consumer.assign(("orders", 0, "earliest"))

    polled = consumer.poll_until(records=20)

    if not any(_is_cut(records) for records in _fetched_records(run)):
        run.not_exercised("no answer to the client's Fetch requests ends in a message")
    _expect_records(run, polled, values)


def _fetched_records(run: CaseRun) -> list[bytes]:
    """The records of all Fetch answers."""
    return [
        bytes(partition.records)
        for exchange in run.wire.requests("Fetch").answered()
        for topic in exchange.response.responses
        for partition in topic.partitions
        if partition.records
    ]


def _is_cut(records: bytes) -> bool:
    return sum(batch.size for batch in read_batches(records, partial_ok=True)) < len(records)


@case(
    "fetching.old-formats.upgraded-log",
    title="A log with all message formats",
    level=Level.MUST,
    rule="Each batch says its own format: an answer may have messages of magic 0 and 1, and batches of magic 2.",
    source=_STORED,
    needs=("consumer.assign", "compression.gzip"),
    cluster=_ONE,
    quick=True,
    decided_by=("Fetch",),
)
def upgraded_log(run: CaseRun) -> None:
    """No fault: two messages of magic 0 are followed by two of magic 1, two in one in gzip, and a batch of magic 2."""
    run.cluster.append_old_messages("orders", _timed(run, "0-1", "0-2"), magic=0)
    run.cluster.append_old_messages("orders", _timed(run, "1-1", "1-2"), magic=1)
    run.cluster.append_old_messages("orders", _timed(run, "1-3", "1-4"), magic=1, compression="gzip")
    run.produce("orders", "2-1")

    polled = _read(run, 7)

    _expect_records(run, polled, ["0-1", "0-2", "1-1", "1-2", "1-3", "1-4", "2-1"])
