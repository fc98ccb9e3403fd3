"""The accelerator finds the records of a pcap file as the Python code does."""

from __future__ import annotations

import struct

import pytest

from kwire.accelerator import NATIVE, is_accelerated
from kwire.capture.files import pcap
from kwire.capture.files.pcap import PcapLayout
from kwire.capture.index.scan.pcap_scanner import find_records, find_records_in_python

SIZES = (0, 3, 200, 0)


def records(layout: PcapLayout, *sizes: int) -> bytes:
    parts = []
    for size in sizes:
        head = bytearray(layout.header_size)
        struct.pack_into(layout.order + "I", head, layout.captured_at, size)
        parts.append(bytes(head) + bytes(min(size, 1000)))
    return b"".join(parts)


@pytest.mark.parametrize("find", [find_records, find_records_in_python])
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("header_size", "captured_at"), [(16, 8), (24, 8), (16, 12)])
def test_records_are_found_up_to_the_limit_or_an_incomplete_one(
    find: object, order: str, header_size: int, captured_at: int
) -> None:
    assert callable(find)
    layout = PcapLayout(order, 1, header_size, captured_at)
    data = records(layout, *SIZES)
    starts = [0, header_size, 2 * header_size + 3, 3 * header_size + 203]
    cases = {
        (data, len(data)): (starts, len(data)),
        (data, 2**40): (starts, len(data)),
        (data, 0): ([], 0),
        (data, starts[2]): (starts[:2], starts[2]),
        (data, starts[2] + 1): (starts[:3], starts[3]),
        (data[:-1], 2**40): (starts[:3], starts[3]),
        (data[: starts[3] - 1], 2**40): (starts[:2], starts[2]),
        (b"", 10): ([], 0),
        (records(layout, 3, pcap.PACKET_SIZE_MAX + 1, 3), 2**40): (starts[:1], header_size + 3),
        (records(layout, 2**32 - 1), 2**40): ([], 0),
    }

    for (given, limit), expected in cases.items():
        offsets, at = find(given, limit, layout)
        assert (offsets.tolist(), at) == expected


@pytest.mark.skipif(not is_accelerated(), reason="the accelerator is not built")
def test_a_layout_without_place_for_the_size_is_refused() -> None:
    assert NATIVE is not None
    for layout in ((0, 0, False, 9), (16, 13, False, 9), (16, -1, True, 9), (3, 0, True, 9)):
        with pytest.raises(ValueError, match="not in the header"):
            NATIVE.find_pcap_records(bytes(64), 64, layout)
    for arguments in ((b"", 0), ("", 0, (16, 8, False, 9)), (b"", "0", (16, 8, False, 9)), (b"", 0, (16, 8))):
        with pytest.raises(TypeError):
            NATIVE.find_pcap_records(*arguments)
