"""Record batches against aiokafka (Cython) and kafka-python: decode and encode, everybody checking the checksum.

`python -m tools.bench.records` prints the tables; with `--write` they go into docs/performance.md.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from statistics import geometric_mean
from typing import Any

from kwire.records import Codec, Record, parse_header, place, with_append_time, write_batch
from tools.bench.page import machine, table, write_section
from tools.bench.rounds import Timed, compare

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python's way of loading its schemas.
    from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
    from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder
from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder

Work = Callable[[], object]

US = 1e6
SHAPES: dict[str, tuple[int, int, tuple[tuple[str, bytes], ...]]] = {
    "1,000 x 1 KiB": (1_000, 1_024, ()),
    "1,000 x 1 KiB, 2 headers each": (1_000, 1_024, (("trace", b"0123456789abcdef"), ("kind", b"order"))),
    "10,000 x 100 bytes": (10_000, 100, ()),
}


def records(shape: str) -> list[Record]:
    """Records of a shape; the values repeat a little, as real ones do."""
    count, size, headers = SHAPES[shape]
    text = b"".join(b"field-%d=%d;" % (number % 40, number * 7919 % 1000) for number in range(size))
    return [
        Record(number, 1_700_000_000_000 + number, b"key-%d" % number, text[number % 50 :][:size], headers)
        for number in range(count)
    ]


def decoders(data: bytes, *, kafka_python: bool = True) -> dict[str, Work]:
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


def encoders(made: list[Record]) -> dict[str, Work]:
    """The three writers of one batch without compression; levels differ too much for a fair race with it."""

    def peer(builder: Callable[..., Any]) -> Work:
        def write() -> object:
            batch = builder(magic=2, compression_type=0, is_transactional=0, producer_id=-1, producer_epoch=-1,
                            base_sequence=-1, batch_size=1 << 26)  # fmt: skip
            for record in made:
                batch.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
            return batch.build()

        return write

    return {"kwire": lambda: write_batch(made), "aiokafka": peer(AioBuilder), "kafka-python": peer(KafkaPythonBuilder)}


def measure(rounds: int) -> str:
    """Run everything; the section as Markdown."""
    decoded = {shape: compare(decoders(write_batch(records(shape))), rounds=rounds) for shape in SHAPES}
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        data = write_batch(records("1,000 x 1 KiB"), codec=codec)
        # kafka-python reads snappy by another package, which is not installed here.
        candidates = decoders(data, kafka_python=codec is not Codec.SNAPPY)
        decoded[f"1,000 x 1 KiB, {codec.label}"] = compare(candidates, rounds=rounds)
    encoded = {shape: compare(encoders(records(shape)), rounds=rounds) for shape in SHAPES}
    return "\n\n".join(
        [
            "## Record batches (magic 2)",
            "Time of the peer divided by ours: above 1 kwire is faster. All take turns in one process, CPU time of\n"
            "the thread, median of the rounds' ratios; all check the checksum and give keys and values as bytes.\n"
            "aiokafka is compiled (Cython), the other two are Python.",
            "Decode:\n\n" + _rows(decoded),
            "Encode, without compression:\n\n" + _rows(encoded),
            "What a broker does with a batch it was sent:\n\n" + _hot_path(rounds),
            f"{machine()}.",
        ]
    )


def _rows(results: dict[str, dict[str, Timed]]) -> str:
    rows = []
    for name, timed in results.items():
        ours = timed["kwire"].seconds * US
        rows.append([name, f"{ours:,.0f}", *(_ratio(timed.get(peer)) for peer in ("aiokafka", "kafka-python"))])
    means = [
        f"{geometric_mean([timed[peer].ratio for timed in results.values() if peer in timed]):.2f}"
        for peer in ("aiokafka", "kafka-python")
    ]
    return table(
        ["batch", "kwire, us", "aiokafka / kwire", "kafka-python / kwire"], [*rows, ["**geometric mean**", "", *means]]
    )


def _ratio(timed: Timed | None) -> str:
    return "-" if timed is None else f"{timed.ratio:.2f}"


def _hot_path(rounds: int) -> str:
    data = write_batch(records("1,000 x 1 KiB")[:16])
    buffer, batch = bytearray(data), parse_header(data)
    timed = compare(
        {
            "read the header": lambda: parse_header(data),
            "compare the checksum": batch.check_crc,
            "place at an offset": lambda: place(buffer, 1_000_000, 3),
            "copy with append time": lambda: with_append_time(data, 1_700_000_000_000),
        },
        rounds=rounds,
    )
    return table(["16 records of 1 KiB", "us"], [[name, f"{one.seconds * US:.2f}"] for name, one in timed.items()])


def main() -> None:
    """Measure, print, and write if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--write", action="store_true", help="put the tables into docs/performance.md")
    args = parser.parse_args()
    text = measure(args.rounds)
    print(text)
    if args.write:
        write_section("records", text)


if __name__ == "__main__":
    main()
