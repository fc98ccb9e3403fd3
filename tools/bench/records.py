"""Benchmark of record batches against aiokafka (Cython) and kafka-python: decode and encode, with checksums.

`python -m tools.bench.records` prints the tables; with `--write` they are written into docs/performance.md.
"""

from __future__ import annotations

import argparse
import functools
import warnings
from collections.abc import Callable
from statistics import geometric_mean
from typing import Any

from kwire.records import Codec, Record, parse_header, patch_offset_and_epoch, with_append_time, write_batch
from tools.bench.page import describe_machine, markdown_table, publish_section
from tools.bench.rounds import Timing, compare_candidates

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python's way of loading its schemas.
    from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
    from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder
from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder

Work = Callable[[], object]

US = 1e6
PEERS = ("aiokafka", "kafka-python")
SHAPES: dict[str, tuple[int, int, tuple[tuple[str, bytes], ...]]] = {
    "1,000 x 1 KiB": (1_000, 1_024, ()),
    "1,000 x 1 KiB, 2 headers each": (1_000, 1_024, (("trace", b"0123456789abcdef"), ("kind", b"order"))),
    "10,000 x 100 bytes": (10_000, 100, ()),
}


def build_records(shape: str) -> list[Record]:
    """Records of a shape, with values that repeat a little, as in practice."""
    count, size, headers = SHAPES[shape]
    text = b"".join(b"field-%d=%d;" % (number % 40, number * 7919 % 1000) for number in range(size))
    return [
        Record(index, 1_700_000_000_000 + index, b"key-%d" % index, text[index % 50 :][:size], headers)
        for index in range(count)
    ]


def build_decoders(data: bytes, *, kafka_python: bool = True) -> dict[str, Work]:
    """The three readers of one batch."""

    def ours() -> object:
        batch = parse_header(data)
        batch.check_crc()
        return batch.records()

    def peer(reader: Callable[[bytes], Any]) -> Work:
        def read() -> object:
            batch = reader(data)
            assert batch.validate_crc()
            return list(batch)

        return read

    peers = {"kwire": ours, "aiokafka": peer(AioBatch)}
    return peers | {"kafka-python": peer(KafkaPythonBatch)} if kafka_python else peers


def build_encoders(records: list[Record]) -> dict[str, Work]:
    """The three writers of one batch without compression; compression levels differ too much for a fair comparison."""

    def peer(builder: Callable[..., Any]) -> Work:
        def write() -> object:
            batch = builder(magic=2, compression_type=0, is_transactional=0, producer_id=-1, producer_epoch=-1,
                            base_sequence=-1, batch_size=1 << 26)  # fmt: skip
            for record in records:
                batch.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
            return batch.build()

        return write

    ours = functools.partial(write_batch, records)
    return {"kwire": ours, "aiokafka": peer(AioBuilder), "kafka-python": peer(KafkaPythonBuilder)}


def measure(rounds: int) -> str:
    """Run all measurements; returns the section as Markdown."""
    batches = {shape: write_batch(build_records(shape)) for shape in SHAPES}
    decoded = {shape: compare_candidates(build_decoders(batch), rounds=rounds) for shape, batch in batches.items()}
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        data = write_batch(build_records("1,000 x 1 KiB"), codec=codec)
        # kafka-python reads snappy by a package that is not installed here.
        candidates = build_decoders(data, kafka_python=codec is not Codec.SNAPPY)
        decoded[f"1,000 x 1 KiB, {codec.label}"] = compare_candidates(candidates, rounds=rounds)
    encoded = {shape: compare_candidates(build_encoders(build_records(shape)), rounds=rounds) for shape in SHAPES}
    return "\n\n".join(
        [
            "## Record batches (magic 2)",
            "Time of each library divided by the time of kwire: above 1 kwire is faster. All run alternately in\n"
            "one process, CPU time of the thread, median of the rounds' ratios; all verify the checksum and return\n"
            "keys and values as bytes. aiokafka is compiled (Cython), the other two are Python.",
            "Decode:\n\n" + _render_rows(decoded),
            "Encode, without compression:\n\n" + _render_rows(encoded),
            "Work of a broker on a produced batch:\n\n" + _render_broker_path(rounds),
            f"{describe_machine()}.",
        ]
    )


def _render_rows(results: dict[str, dict[str, Timing]]) -> str:
    rows = []
    for name, timed in results.items():
        ours = timed["kwire"].seconds * US
        rows.append([name, f"{ours:,.0f}", *(_ratio_text(timed.get(peer)) for peer in PEERS)])
    ratios = [[timed[peer].ratio for timed in results.values() if peer in timed] for peer in PEERS]
    rows.append(["**geometric mean**", "", *(f"{geometric_mean(peer_ratios):.2f}" for peer_ratios in ratios)])
    return markdown_table(["batch", "kwire, us", *(f"{peer} / kwire" for peer in PEERS)], rows)


def _ratio_text(timed: Timing | None) -> str:
    return "-" if timed is None else f"{timed.ratio:.2f}"


def _render_broker_path(rounds: int) -> str:
    data = write_batch(build_records("1,000 x 1 KiB")[:16])
    buffer, batch = bytearray(data), parse_header(data)
    timed = compare_candidates(
        {
            "read the header": lambda: parse_header(data),
            "verify the checksum": batch.check_crc,
            "write the base offset": lambda: patch_offset_and_epoch(buffer, 1_000_000, 3),
            "copy with append time": lambda: with_append_time(data, 1_700_000_000_000),
        },
        rounds=rounds,
    )
    rows = [[name, f"{timing.seconds * US:.2f}"] for name, timing in timed.items()]
    return markdown_table(["16 records of 1 KiB", "us"], rows)


def main() -> None:
    """Measure, print, and write if requested."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--write", action="store_true", help="write the tables into docs/performance.md")
    args = parser.parse_args()
    publish_section("records", measure(args.rounds), write=args.write)


if __name__ == "__main__":
    main()
