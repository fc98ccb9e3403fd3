"""What is read arrives as it was written: compression, contents, large batches, limits."""

from __future__ import annotations

from mockbroker.certify.case import Case, ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.seen_values import describe_seen

_FORMAT = Source("Kafka documentation", "Implementation, Message Format")


def _compression(codec: str) -> Case:
    def play(run: CaseRun) -> None:
        run.cluster.create_topic("packed", 1, configs={"compression.type": codec})
        values = [f"record {number} " + "x" * 200 for number in range(50)]
        run.produce("packed", *values)
        consumer = run.consumer()
        consumer.assign(("packed", 0, "earliest"))

        polled = consumer.poll_until(records=50)

        fetched = run.wire.requests("Fetch", topic="packed")
        run.expect(polled.values == values, "the 50 records in order", seen=polled.values[:3], exchanges=fetched)

    play.__doc__ = f"No fault: the topic has compression.type={codec}, so that its batches are compressed."
    decorate = case(
        f"fetching.compression.{codec}",
        title=f"Batches in {codec}",
        level=Level.MUST,
        rule="A consumer reads batches in each compression that the message format has.",
        source=_FORMAT,
        needs=("consumer.assign", f"compression.{codec}"),
        cluster=ClusterPlan(topics={}),
        decided_by=("Fetch",),
    )
    return decorate(play)


compression_gzip = _compression("gzip")
compression_snappy = _compression("snappy")
compression_lz4 = _compression("lz4")
compression_zstd = _compression("zstd")


@case(
    "fetching.records.contents",
    title="Keys, headers, timestamps and null values",
    level=Level.MUST,
    rule="A record has its key, value, headers in order and timestamp; null and empty are different.",
    source=_FORMAT,
    needs=("consumer.assign",),
    cluster=ClusterPlan(topics={"orders": 1}),
    quick=True,
    decided_by=("Fetch",),
)
def contents(run: CaseRun) -> None:
    """No fault: three records, and each field that is not named here is null or empty.

    The first has the key "deleted" and the value null, the second the key null and an empty value, the third an empty
    key, the value "value" and two headers of the same name, trace=1 and trace=2. Their timestamps are a second apart.
    """
    headers = [("trace", b"1"), ("trace", b"2")]
    times = [run.cluster.clock.now_ms() - age_ms for age_ms in (3_000, 2_000, 1_000)]
    written = [("deleted", None), (None, ""), ("", "value")]
    for (key, value), time_ms, given in zip(written, times, ([], [], headers), strict=True):
        run.cluster.produce("orders", value, key=key, timestamp_ms=time_ms, headers=given)
    consumer = run.consumer()
    consumer.assign(("orders", 0, "earliest"))

    records = consumer.poll_until(records=3).records

    fetched = run.wire.requests("Fetch")
    seen = [(each.key, each.value) for each in records]
    run.expect(seen == written, f"keys and values as written: {describe_seen(written)}", seen=seen, exchanges=fetched)
    found = [tuple(header) for header in records[2].headers or ()]
    expected = [(name, value.decode()) for name, value in headers]
    run.expect(found == expected, f"both headers in order: {describe_seen(expected)}", seen=found, exchanges=fetched)
    seen_times = [each.timestamp for each in records]
    run.expect(seen_times == times, f"timestamps {describe_seen(times)}", seen=seen_times, exchanges=fetched)


@case(
    "fetching.records.larger-than-limit",
    title="A batch that is larger than max.partition.fetch.bytes",
    level=Level.MUST,
    rule="The limit is not absolute: a first batch that is larger is returned whole, so that the consumer goes on.",
    source=Source("KIP-74", "Proposed Changes", "kafka-clients ConsumerConfig.MAX_PARTITION_FETCH_BYTES_DOC"),
    needs=("consumer.assign",),
    settings_needed=("max_partition_fetch_bytes",),
    cluster=ClusterPlan(topics={"orders": 1}),
    on_kafka=True,
    decided_by=("Fetch",),
)
def larger_than_limit(run: CaseRun) -> None:
    """No fault: a record of 20,000 bytes, read with a limit of 1,000 bytes."""
    run.produce("orders", "x" * 20_000)
    run.produce("orders", "after")
    consumer = run.consumer(max_partition_fetch_bytes=1_000)
    consumer.assign(("orders", 0, "earliest"))

    polled = consumer.poll_until(records=2)

    fetched = run.wire.requests("Fetch")
    sizes = [len(value or "") for value in polled.values]
    run.expect(sizes == [20_000, 5], "both records", seen=f"sizes {sizes}", exchanges=fetched)
    limits = {each.partition_max_bytes for one in fetched for topic in one.request.topics for each in topic.partitions}
    # A client may add what the headers of a batch take: kafka-go asks for 1,064 bytes.
    run.should(max(limits) < 2_000, "requests with a limit of about 1,000 bytes", seen=limits, exchanges=fetched)


@case(
    "fetching.records.partial-batch",
    title="A batch of many records is read from its middle",
    level=Level.MUST,
    rule="A broker returns whole batches: records before the position are not given to the application.",
    source=Source("Kafka documentation", "Implementation, Message Format", "kafka-clients KafkaConsumer.seek"),
    needs=("consumer.assign",),
    cluster=ClusterPlan(topics={"orders": 1}),
    on_kafka=True,
    decided_by=("Fetch",),
)
def partial_batch(run: CaseRun) -> None:
    """No fault: the ten records of one batch are read from offset 6 on."""
    run.produce("orders", *(f"record {number}" for number in range(10)))
    consumer = run.consumer()
    consumer.assign(("orders", 0, 6))

    polled = consumer.poll_until(records=4)

    run.expect(
        polled.offsets == [6, 7, 8, 9],
        "offsets 6 to 9",
        seen=polled.offsets,
        exchanges=run.wire.requests("Fetch"),
    )


@case(
    "fetching.records.offset-gaps",
    title="Offsets of records have gaps",
    level=Level.MUST,
    rule="Offsets need not be consecutive: a marker has one, and a consumer goes on behind it and does not return it.",
    source=Source("KIP-98", "Fetch, control records"),
    needs=("consumer.assign", "producer.transactions"),
    cluster=ClusterPlan(topics={"orders": 1}),
    on_kafka=True,
    decided_by=("Fetch",),
)
def offset_gaps(run: CaseRun) -> None:
    """No fault: a transaction is committed between two records, so that its marker has an offset."""
    run.produce("orders", "first")
    producer = run.producer(transactional_id="shop")
    producer.init_transactions()
    producer.begin()
    producer.send("orders", "second")
    producer.commit_transaction()
    run.produce("orders", "third")
    consumer = run.consumer()
    consumer.assign(("orders", 0, "earliest"))

    polled = consumer.poll_until(records=3)

    run.expect(polled.values == ["first", "second", "third"], "three records, no marker", seen=polled.values)
    run.expect(polled.offsets == [0, 1, 3], "offsets 0, 1 and 3", seen=polled.offsets)


@case(
    "fetching.records.no-busy-loop",
    title="Nothing is to be had",
    level=Level.SHOULD,
    rule="The broker holds a Fetch request back until there are records or fetch.max.wait.ms is over: one at a time.",
    source=Source("Kafka documentation", "fetch.max.wait.ms", "kafka-clients ConsumerConfig.FETCH_MAX_WAIT_MS_DOC"),
    needs=("consumer.assign",),
    settings_needed=("fetch_max_wait_ms",),
    cluster=ClusterPlan(topics={"orders": 1}),
    on_kafka=True,
    decided_by=("Fetch",),
)
def no_busy_loop(run: CaseRun) -> None:
    """No fault: an empty partition is read for a second."""
    consumer = run.consumer(fetch_max_wait_ms=200)
    consumer.assign(("orders", 0, "earliest"))
    consumer.poll(timeout_ms=1_000)

    fetched = run.wire.requests("Fetch")
    run.expect(fetched, "Fetch requests", seen="none")
    run.expect(len(fetched) <= 20, "at most 20 Fetch requests in a second", seen=f"{len(fetched)}", exchanges=fetched)
