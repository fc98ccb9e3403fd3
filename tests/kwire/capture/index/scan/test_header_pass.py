"""Any number of packets that are read one by one can be indexed."""

from __future__ import annotations

import pytest

from kwire.capture import index
from kwire.capture.index.stored_payload import STORED_BASE
from tests.support.captures.capture_files import (
    build_pcap,
    read_ip_packets,
)
from tests.support.captures.index_captures import (
    fragment_packet,
    tcp_payload,
)

pytestmark = pytest.mark.slow

COUNT = 10_001


def test_any_number_of_fragments_can_be_indexed() -> None:
    whole = next(each for each in read_ip_packets() if len(each.data) > 100)
    capture = build_pcap(
        [each._replace(ts=each.ts + number) for number in range(COUNT) for each in fragment_packet(whole)]
    )

    found = index.build_index(capture)
    assert found.issues == []
    assert found.stored == [(STORED_BASE, COUNT * len(tcp_payload(whole)))]
