"""What the index says of packets is what the exact functions say, whatever the format, the link and the damage."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from kwire.capture import arrow, index
from kwire.capture.index.walking.head_pass import TROUBLES_MAX
from kwire.capture.ip import segments
from kwire.capture.options import Options
from kwire.capture.packets import packets
from kwire.capture.pipeline import rows, rows_of
from kwire.capture.schemas import LEVELS
from tests.kwire.capture.index.kit import FILES, fragments, made, pcapng_with_blocks
from tests.kwire.capture.wire import Wire, block, enhanced, interface, ip_packets, option, pcap, section

MADE = made()


@pytest.mark.parametrize("name", MADE)
def test_segments_read_by_offset_are_those_of_the_generators(name: str) -> None:
    found = index.segments_of([index.built(MADE[name])])

    assert list(found) == list(segments(packets(MADE[name])))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_segments_of_real_captures_are_those_of_the_generators(path: Path) -> None:
    found = index.segments_of([index.built(path)])

    assert list(found) == list(segments(packets(path)))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_generators_make_the_same_rows_of_indexed_segments(path: Path, level: str) -> None:
    own = index.built(path)
    found = rows_of(index.segments_of([own]), level, own.file, Options(), own.keys())

    assert list(found) == list(rows(path, level))


@pytest.mark.parametrize("name", MADE)
def test_each_flow_alone_has_its_own_segments(name: str) -> None:
    own = index.built(MADE[name])
    alone = [list(index.segments_of([own], [flow.key], troubles=False)) for flow in own.flows]

    assert [len(found) for found in alone] == [flow.packets for flow in own.flows]
    together = [each for found in alone for each in found]
    assert sorted(together, key=lambda each: each.packet) == list(index.segments_of([own], troubles=False))


def test_flows_that_span_files_come_in_the_order_of_the_files(tmp_path: Path) -> None:
    path = FILES[0]
    whole = index.built(path)
    key = whole.flows[0].key

    found = list(index.segments_of([whole, whole], [key], troubles=False))

    assert found == list(index.segments_of([whole], [key])) * 2


def test_blocks_between_packets_end_no_span_of_the_file() -> None:
    capture = pcapng_with_blocks(ip_packets(), "<")

    assert index.built(capture).spans == [(0, len(capture))]
    assert len(index.built(b"".join(capture for _ in range(3))).spans) == 1


def test_an_interface_counts_from_where_it_is_described() -> None:
    early, later, again = (enhanced(each.ts, each.packet, number=1) for each in ip_packets()[:3])
    first = section() + interface()

    good = first + interface() + early + later
    assert list(index.segments_of([index.built(good)])) == list(segments(packets(good)))
    with pytest.raises(index.NotIndexed):
        index.built(first + early + interface() + later + again)
    # What is bad at the end of a section is not made up for by the next.
    with pytest.raises(index.NotIndexed):
        index.built(first + early + good)


def many(*wires: Wire, link: int = 101) -> bytes:
    """A capture of these packets, so often that there are more of each than an index holds troubles."""
    return pcap(list(wires) * (TROUBLES_MAX + 1), link=link)


def test_a_capture_with_too_many_troubles_or_fragments_is_streamed_by_the_exact_reader() -> None:
    wires = ip_packets()
    whole = next(each for each in wires if len(each.packet) > 100)
    drop = block(5, struct.pack("<III", 0, 0, 0) + option(5, struct.pack("<Q", 1)))
    captures = {
        "links that nobody knows": many(wires[0], link=147),
        "headers that are cut": many(wires[0]._replace(kept=30)),
        "fragments": many(*fragments(whole)),
        "drops that are told": section() + interface() + drop * (TROUBLES_MAX + 1),
    }

    for name, capture in captures.items():
        with pytest.raises(index.NotIndexed):
            pytest.fail(f"{name}: {len(index.built(capture).troubles)} troubles")
    capture = captures["headers that are cut"]
    streamed = [row for batch in arrow.batches(capture, "messages") for row in batch.to_pylist()]
    assert [row["issues"] for row in streamed] == [row["issues"] for row in rows(capture, "messages")]


def test_what_is_packed_or_no_file_has_no_index(tmp_path: Path) -> None:
    import gzip

    packed = tmp_path / "packed.pcap.gz"
    packed.write_bytes(gzip.compress(FILES[0].read_bytes()))

    with pytest.raises(index.NotIndexed):
        index.built(packed)
    with pytest.raises(index.NotIndexed):
        index.built(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(index.NotIndexed):
        index.built(tmp_path / "pipe")
