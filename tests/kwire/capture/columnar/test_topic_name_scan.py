"""Topic names by the index, compared with those of the stream."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.capture import index
from kwire.capture.columnar.exchange_builder import ExchangeBuilder
from kwire.capture.columnar.topic_name_scan import find_topic_names
from kwire.capture.kafka.exchange import Exchange
from kwire.capture.kafka.topic_naming import topic_naming_messages
from kwire.capture.options import Options
from tests.support.capture_model.pipeline import read_topic_names
from tests.support.captures.capture_files import CAPTURES, build_pcap, read_ip_packets

FILES = sorted(CAPTURES.glob("*.pcap*"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_index_finds_the_same_topic_names_as_the_stream(file: Path) -> None:
    assert find_topic_names(index.open_index(file), Options()) == read_topic_names(file, Options())


def test_names_of_the_options_are_included() -> None:
    known = {"A" * 22: "mine"}

    names = find_topic_names(index.open_index(CAPTURES / "small_share.pcap"), Options(topics=known))

    assert names.items() > known.items()


def test_cut_exchanges_of_other_apis_are_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The names in a capture of packets that are cut, most of which are of fetches."""
    built: list[str] = []
    build_exchange = ExchangeBuilder._build_exchange

    def build(self: ExchangeBuilder, row: tuple[int, ...]) -> Exchange:
        exchange = build_exchange(self, row)
        assert exchange.request is not None
        built.append(exchange.request.name)
        return exchange

    monkeypatch.setattr(ExchangeBuilder, "_build_exchange", build)
    packets = [packet._replace(stored_size=150) for packet in read_ip_packets(CAPTURES / "small_share.pcap")]
    file = build_pcap(packets)
    names = find_topic_names(index.build_index(file), Options())

    assert names == read_topic_names(file, Options())
    assert built
    naming = {name.removesuffix("Request").removesuffix("Response") for name in topic_naming_messages()}
    assert {name.removesuffix("Request") for name in built} <= naming
