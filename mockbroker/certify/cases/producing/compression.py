"""Compression of batches, by the client and by topic."""

from __future__ import annotations

from kwire.records import Codec
from mockbroker.certify.case import Case, ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.cases.producer_calls import acknowledged, send_error, sent_batches
from mockbroker.certify.driver.messages import SendRecord

_VALUE = "one espresso, " * 50


def compressed(codec: str) -> Case:
    """A case in which the client compresses with a codec."""

    @acknowledged
    def play(run: CaseRun) -> None:
        error = send_error(run.acked_producer(compression=codec), "orders", _VALUE, _VALUE)  # type: ignore[arg-type]

        produced = run.wire.requests("Produce")
        batches = sent_batches(produced)
        codecs = {each.batch.codec for each in batches}
        values = [value for each in batches for value in each.values]
        run.expect(error is None, "the records are delivered", seen=error, exchanges=produced)
        run.expect(codecs == {Codec[codec.upper()]}, f"batches with {codec}", seen=codecs, exchanges=produced)
        run.expect(values == [_VALUE.encode()] * 2, "the records, decompressed", seen=values, exchanges=produced)

    play.__doc__ = "The broker decompresses the batches, and appends them."
    return case(
        f"producing.compression.{codec}",
        title=f"Batches with {codec}",
        level=Level.MUST,
        rule=f"With {codec} the records of a batch are compressed as one block, and the attributes name the codec.",
        source=Source("Kafka documentation", "Record Batch", "kafka-clients ProducerConfig.COMPRESSION_TYPE_CONFIG"),
        needs=("producer", f"compression.{codec}"),
        settings_needed=("compression",),
        cluster=ClusterPlan(topics={"orders": 1}),
        on_kafka=True,
        decided_by=("Produce",),
    )(play)


gzip = compressed("gzip")
snappy = compressed("snappy")
lz4 = compressed("lz4")
zstd = compressed("zstd")


@case(
    "producing.compression.zstd-old-broker",
    title="zstd, and a broker that does not have it",
    level=Level.MUST,
    rule="zstd needs Produce 7: a client does not send it in an older version.",
    source=Source("KIP-110", "Public Interfaces"),
    needs=("producer", "compression.zstd"),
    settings_needed=("compression",),
    cluster=ClusterPlan(topics={"orders": 1}, versions={"Produce": 6}),
    decided_by=("Produce",),
)
@acknowledged
def zstd_old_broker(run: CaseRun) -> None:
    """ApiVersions lists Produce up to version 6 only."""
    error = send_error(run.acked_producer(compression="zstd"), "orders", _VALUE, timeout_ms=3000)

    produced = run.wire.requests("Produce")
    codecs = {each.batch.codec for each in sent_batches(produced)}
    run.note(f"the record {'fails with ' + error.name if error else 'is delivered with another codec'}")
    run.expect(Codec.ZSTD not in codecs, "no batch with zstd", seen=codecs, exchanges=produced)


@case(
    "producing.compression.topic-codec",
    title="A topic that compresses by itself",
    level=Level.MUST,
    rule="compression.type of a topic is the broker's affair: a client may send batches without compression.",
    source=Source("Kafka documentation", "compression.type"),
    needs=("producer",),
    cluster=ClusterPlan(topics={"orders": 1}, properties={"compression.type": "gzip"}),
    decided_by=("Produce",),
)
@acknowledged
def topic_codec(run: CaseRun) -> None:
    """The topic has compression.type=gzip: the broker compresses what arrives."""
    error = send_error(run.acked_producer(), "orders", _VALUE)

    values = [record.value for record in run.cluster.read("orders")]
    run.expect(error is None, "the record is delivered", seen=error, exchanges=run.wire.requests("Produce"))
    run.expect(
        values == [_VALUE.encode()], "the record as it was sent", seen=values, exchanges=run.wire.requests("Produce")
    )


@case(
    "producing.compression.headers",
    title="Keys, headers and null values",
    level=Level.MUST,
    rule="A record has a key, a value and headers, of which each value may be null or empty.",
    source=Source("Kafka documentation", "Record", "KIP-82; kafka-clients ProducerRecord"),
    needs=("producer",),
    cluster=ClusterPlan(topics={"orders": 1}),
    on_kafka=True,
    decided_by=("Produce",),
)
@acknowledged
def headers(run: CaseRun) -> None:
    """The broker appends the record."""
    record = SendRecord(value=None, key="", headers=(("a", ""), ("a", "second"), ("unicode", "\u00e9\u4e2d")))

    error = send_error(run.acked_producer(), "orders", record)

    produced = run.wire.requests("Produce")
    run.expect(error is None, "the record is delivered", seen=error, exchanges=produced)
    [sent] = sent_batches(produced)[0].batch.records()
    found = list(sent.headers)
    expected = [("a", b""), ("a", b"second"), ("unicode", "\u00e9\u4e2d".encode())]
    run.expect(
        (sent.key, sent.value) == (b"", None), "key '' and value null", seen=[sent.key, sent.value], exchanges=produced
    )
    run.expect(found == expected, "three headers in order", seen=found, exchanges=produced)
