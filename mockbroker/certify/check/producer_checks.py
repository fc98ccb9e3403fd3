"""Checks of producers: records, errors, compression, transactions."""

from __future__ import annotations

from mockbroker.certify.check.model import GROUP, TOPIC, Check, CheckRun
from mockbroker.certify.driver.messages import SendRecord
from mockbroker.certify.driver.settings import ProducerSettings

_TIMESTAMP = 1_700_000_000_000


def send_records(run: CheckRun) -> None:
    """Keys, values, headers, timestamps and partitions arrive as they were given, deliveries in order."""
    records = [
        SendRecord(value="a", key="k", headers=(("h", "x"), ("h", "y")), timestamp=_TIMESTAMP),
        SendRecord(value=None, key="é"),
        SendRecord(value="c", partition=1),
    ]
    deliveries = run.clients.acked_producer().send(TOPIC, *records, partition=0)
    run.expect(len(deliveries) == 3, f"send: 3 deliveries are expected for 3 records; there are {len(deliveries)}")
    errors = [str(each.error) for each in deliveries if each.error is not None]
    run.expect(not errors, f"send: {'; '.join(errors)}")
    places = [(each.partition, each.offset) for each in deliveries]
    expected = [(0, 0), (0, 1), (1, 0)]
    run.expect(places == expected, f"send: deliveries in order of the records are {expected}; the answer has {places}")
    first, second, third = run.cluster.read(TOPIC)
    run.expect(
        (first.key, first.value) == (b"k", b"a"), f"send: key 'k', value 'a' arrived as {first.key!r}, {first.value!r}"
    )
    headers = [(name, value) for name, value in first.headers]
    run.expect(headers == [("h", b"x"), ("h", b"y")], f"send: headers h='x', h='y' arrived as {headers}")
    run.expect(first.timestamp_ms == _TIMESTAMP, f"send: timestamp {_TIMESTAMP} arrived as {first.timestamp_ms}")
    run.expect((second.key, second.value) == ("é".encode(), None), f"send: value null arrived as {second.value!r}")
    run.expect(third.partition == 1, "send: the partition of a record takes precedence over that of the request")


def report_errors(run: CheckRun) -> None:
    """An error of one record is in its delivery, under Kafka's name."""
    name = "TOPIC_AUTHORIZATION_FAILED"
    run.cluster.faults.add("Produce", error=name)
    [delivery] = run.clients.acked_producer().send(TOPIC, "a")
    run.expect(delivery.error is not None, f"send: Produce was answered with {name}; the delivery has no error")
    seen = delivery.error and delivery.error.name
    run.expect(seen == name, f"send: Produce was answered with {name}; the delivery has {seen}")


def compress(codec: str) -> Check:
    """The check of a codec."""

    def check(run: CheckRun) -> None:
        settings: ProducerSettings = {"compression": codec}  # type: ignore[typeddict-item]
        run.clients.acked_producer(**settings).send(TOPIC, "a" * 5000, partition=0)
        sizes = [exchange.request_bytes for exchange in run.cluster.requests("Produce")]
        run.expect(sizes and sizes[0] < 4000, f"compression {codec}: 5000 equal characters took {sizes} bytes")

    return Check(f"compression {codec}", ("producer", f"compression.{codec}"), check)


def transact(run: CheckRun) -> None:
    """One transaction is committed, one is aborted."""
    producer = run.clients.producer(transactional_id="t")
    producer.init_transactions()
    for value in ("committed", "aborted"):
        producer.begin()
        producer.send(TOPIC, value)
        producer.commit_transaction() if value == "committed" else producer.abort_transaction()
    ends = [exchange.request.committed for exchange in run.cluster.requests("EndTxn")]
    run.expect(ends == [True, False], f"commit_transaction, abort_transaction: EndTxn with committed {ends}")
    values = [record.value for record in run.cluster.read(TOPIC, isolation="read_committed")]
    run.expect(values == [b"committed"], f"transactions: the committed records are {values}")


def send_offsets(run: CheckRun) -> None:
    """Offsets of a group are committed by a transaction."""
    run.fill("a")
    consumer = run.group_consumer()
    run.subscribe(consumer)
    run.poll(consumer, 1)
    producer = run.clients.producer(transactional_id="t")
    producer.init_transactions()
    producer.begin()
    producer.send_offsets(consumer, (TOPIC, 0, 1))
    producer.commit_transaction()
    commits = run.cluster.requests("TxnOffsetCommit", group=GROUP)
    run.expect(commits, "send_offsets: no TxnOffsetCommit was sent")
    group = commits[0].request
    run.expect(
        group.member_id, "send_offsets: TxnOffsetCommit has no member id; use the group metadata of the consumer"
    )


PRODUCER_CHECKS = (
    Check("send", ("producer",), send_records),
    Check("send, errors", ("producer",), report_errors),
    *map(compress, ("gzip", "snappy", "lz4", "zstd")),
    Check("init_transactions, begin, commit_transaction, abort_transaction", ("producer.transactions",), transact),
    Check("send_offsets", ("producer.transactions", "consumer.classic"), send_offsets),
)
