"""Benchmark of record batches against aiokafka (Cython) and kafka-python: decode and encode, with checksums.

`python -m tools.bench.records` prints the tables and writes them into docs/performance.md; `--dry-run` only prints.
"""

from __future__ import annotations

import argparse
import functools
import warnings
from collections.abc import Callable
from statistics import geometric_mean
from typing import Any

from kwire.accelerator import describe_implementation
from kwire.records import Codec, Record, parse_header, patch_offset_and_epoch, with_append_time, write_batch
from mockbroker.config.limits import BatchLimits
from mockbroker.state.storage.log_config import DECOMPRESSED_MAX
from mockbroker.state.storage.record_scan import scan_records
from tools.bench.history import Result, summarize_timing
from tools.bench.page import describe_machine, markdown_table, publish_section
from tools.bench.rounds import Timing, compare_candidates

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python's way of loading its schemas.
    from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
    from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder
from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder

Work = Callable[[], object]
#: The timings of each candidate, by row.
Results = dict[str, dict[str, Timing]]

US = 1e6
SMALL = "1,000 x 1 KiB"
#: The compression levels that aiokafka always uses; snappy has none.
LEVELS = {Codec.GZIP: 9, Codec.SNAPPY: None, Codec.LZ4: 9, Codec.ZSTD: 3}
#: Rows of a table, and how many times as fast as aiokafka the geometric mean of their ratios should be.
TARGETS = {"none": 2.0, "lz4, zstd, snappy": 1.2, "gzip": 1.0}
PEERS = ("aiokafka", "kafka-python")
SHAPES: dict[str, tuple[int, int, tuple[tuple[str, bytes], ...]]] = {
    SMALL: (1_000, 1_024, ()),
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


def build_encoders(records: list[Record], *, codec: Codec = Codec.NONE) -> dict[str, Work]:
    """The writers of one batch: all three without compression; kwire and aiokafka at aiokafka's level with it."""

    def peer(builder: Callable[..., Any]) -> Work:
        def write() -> object:
            batch = builder(magic=2, compression_type=int(codec), is_transactional=0, producer_id=-1, producer_epoch=-1,
                            base_sequence=-1, batch_size=1 << 26)  # fmt: skip
            for record in records:
                batch.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
            return batch.build()

        return write

    ours = functools.partial(write_batch, records, codec=codec, level=LEVELS.get(codec))
    both: dict[str, Work] = {"kwire": ours, "aiokafka": peer(AioBuilder)}
    return both | {"kafka-python": peer(KafkaPythonBuilder)} if codec is Codec.NONE else both


def measure(rounds: int) -> tuple[str, list[Result]]:
    """Run all measurements; returns the section as Markdown, and the results."""
    records = {shape: build_records(shape) for shape in SHAPES}
    decoded: dict[str, Results] = {"none": {}, "lz4, zstd, snappy": {}, "gzip": {}}
    encoded: dict[str, Results] = {"none": {}, "lz4, zstd, snappy": {}, "gzip": {}}
    for shape, rows in records.items():
        decoded["none"][shape] = compare_candidates(build_decoders(write_batch(rows)), rounds=rounds)
        encoded["none"][shape] = compare_candidates(build_encoders(rows), rounds=rounds)
    for codec, level in LEVELS.items():
        group = "gzip" if codec is Codec.GZIP else "lz4, zstd, snappy"
        name = f"{SMALL}, {codec.label}"
        # kafka-python reads snappy by a package that is not installed here.
        decoders = build_decoders(write_batch(records[SMALL], codec=codec), kafka_python=codec is not Codec.SNAPPY)
        decoded[group][name] = compare_candidates(decoders, rounds=rounds)
        name = name if level is None else f"{name} level {level}"
        encoded[group][name] = compare_candidates(build_encoders(records[SMALL], codec=codec), rounds=rounds)
    results = [
        summarize_timing(f"{work} {case}", peer, timing, is_ours=peer == "kwire")
        for work, groups in (("decode", decoded), ("encode", encoded))
        for by_case in groups.values()
        for case, timed in by_case.items()
        for peer, timing in timed.items()
    ]
    text = "\n\n".join(
        [
            "## Record batches (magic 2)",
            "Time of each library divided by the time of kwire: above 1 kwire is faster. All run alternately in\n"
            "one process, CPU time of the thread, median of the rounds' ratios; all verify the checksum and return\n"
            f"keys and values as bytes. kwire is {describe_implementation()}, aiokafka is compiled (Cython),\n"
            "kafka-python is Python.",
            "Decode:\n\n" + _render_rows(decoded),
            "Encode; the levels of compression are those that aiokafka always uses:\n\n" + _render_rows(encoded),
            "Targets, geometric means of aiokafka / kwire:\n\n" + _render_targets(decoded, encoded),
            "Work of a broker on a produced batch:\n\n" + _render_broker_path(rounds),
            f"{describe_machine()}.",
        ]
    )
    return text, results


def _render_rows(groups: dict[str, Results]) -> str:
    rows = []
    for name, timed in (row for results in groups.values() for row in results.items()):
        ours = timed["kwire"].seconds * US
        rows.append([name, f"{ours:,.0f}", *(_ratio_text(timed.get(peer)) for peer in PEERS)])
    return markdown_table(["batch", "kwire, us", *(f"{peer} / kwire" for peer in PEERS)], rows)


def _render_targets(decoded: dict[str, Results], encoded: dict[str, Results]) -> str:
    rows = []
    for work, groups in (("decode", decoded), ("encode", encoded)):
        for group, target in TARGETS.items():
            ratio = geometric_mean(timed["aiokafka"].ratio for timed in groups[group].values())
            rows.append([f"{work}, {group}", f"{target:.1f}", f"{ratio:.2f}", "yes" if ratio >= target else "no"])
    return markdown_table(["batches", "target", "measured", "met"], rows)


def _ratio_text(timed: Timing | None) -> str:
    return "-" if timed is None else f"{timed.ratio:.2f}"


def _render_broker_path(rounds: int) -> str:
    data = write_batch(build_records(SMALL)[:16])
    buffer, batch = bytearray(data), parse_header(data)
    timed = compare_candidates(
        {
            "read the header": lambda: parse_header(data),
            "verify the checksum": batch.check_crc,
            "scan the records": lambda: scan_records(batch, BatchLimits(), DECOMPRESSED_MAX),
            "write the base offset": lambda: patch_offset_and_epoch(buffer, 1_000_000, 3),
            "copy with append time": lambda: with_append_time(data, 1_700_000_000_000),
        },
        rounds=rounds,
    )
    rows = [[name, f"{timing.seconds * US:.2f}"] for name, timing in timed.items()]
    return markdown_table(["16 records of 1 KiB", "us"], rows)


def main() -> None:
    """Measure, print, and write unless only printing is requested."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--dry-run", action="store_true", help="print only")
    args = parser.parse_args()
    publish_section("records", *measure(args.rounds), write=not args.dry_run)


if __name__ == "__main__":
    main()
