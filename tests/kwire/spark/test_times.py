"""Between which times a capture lies, told from its two ends or from its index."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from kwire.capture import index
from kwire.spark import times
from kwire.spark.times import Span
from tests.kwire.spark.pieces import records_of

CAPTURES = Path(__file__).parents[2] / "captures"
PLAIN = sorted(file for file in CAPTURES.iterdir() if file.suffix in (".pcap", ".pcapng"))
SHARE = CAPTURES / "small_share.pcap"


def span_by_index(file: Path) -> Span:
    found = index.built(file)
    return Span(found.first_ts, found.last_ts)


@pytest.mark.parametrize("file", PLAIN, ids=lambda file: file.name)
def test_the_ends_of_a_capture_tell_its_times(file: Path) -> None:
    assert times.from_ends(str(file)) == span_by_index(file)


@pytest.mark.parametrize("cut", [0, 5, 20], ids=["whole", "inside_a_header", "inside_a_packet"])
def test_the_end_of_a_long_file_is_found_though_its_last_packet_is_cut(tmp_path: Path, cut: int) -> None:
    head, records = records_of(SHARE)
    file = tmp_path / "long.pcap"
    file.write_bytes(head + b"".join(records * 40) + records[-1][:cut])

    assert file.stat().st_size > 2 * 1024 * 1024
    assert times.from_ends(str(file)) == span_by_index(SHARE)


def test_the_end_of_a_long_pcapng_is_found_backwards(tmp_path: Path) -> None:
    small = next(file for file in PLAIN if file.suffix == ".pcapng")
    whole = small.read_bytes()
    preamble = times._preamble(whole)
    file = tmp_path / "long.pcapng"
    file.write_bytes(preamble + whole[len(preamble) :] * (3 * 1024 * 1024 // len(whole)))

    assert times.from_ends(str(file)) == span_by_index(small)


def test_a_file_whose_ends_tell_nothing_has_no_times(tmp_path: Path) -> None:
    head, records = records_of(SHARE)
    contents = {
        "empty.pcap": head,
        "nothing.pcap": b"",
        "other.pcap": b"no capture at all" * 1000,
        "packed.pcap.gz": gzip.compress(SHARE.read_bytes()),
        # What came first lies behind what came last.
        "backwards.pcap": head + b"".join(records[-20:] * 200) + b"".join(records[:20] * 200),
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)

    assert [name for name in (*contents, "gone.pcap") if times.from_ends(str(tmp_path / name))] == []


def test_an_index_tells_exactly_and_ends_tell_about(tmp_path: Path) -> None:
    span, cache = span_by_index(SHARE), str(tmp_path)

    before = times.spans_of([str(SHARE)], cache, 2.0)
    unknown = times.spans_of([str(SHARE)], cache, None)
    index.of(SHARE, cache=cache)
    after = times.spans_of([str(SHARE)], cache, 2.0)

    assert before == {str(SHARE): Span(span.first - 2 * 10**9, span.last + 2 * 10**9)}
    assert unknown == {}
    assert after == {str(SHARE): span}
