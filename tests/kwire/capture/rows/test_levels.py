"""Rows of a level are made from some messages: other bodies are not decoded, without a loss of rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire import registry
from kwire.capture import index
from kwire.capture.kafka.exchange import Exchange
from kwire.capture.options import Options
from kwire.capture.pipeline import make_row_builder, order_rows
from kwire.capture.reader import read_outcomes, read_table
from kwire.capture.rows.levels import options_for_level
from tests.support.capture_model.indexed_segments import read_segments
from tests.support.capture_model.pipeline import outcomes_from_segments
from tests.support.captures.decode_counts import record_decoded_responses

FILES = sorted((Path(__file__).parents[3] / "captures").glob("*.pcap*"))
EVERY = frozenset(f"{registry.api_name(key)}{side}" for key in registry.API_KEYS for side in ("Request", "Response"))
FEW = ("share_acquired", "share_acks", "records")


@pytest.mark.parametrize("level", FEW)
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_rows_are_the_same_as_with_all_bodies(file: Path, level: str) -> None:
    everything = Options(decoded_messages=EVERY)

    whole = list(order_rows(read_outcomes(file, everything, level), make_row_builder(level, "", everything)))
    found = list(order_rows(read_outcomes(file, Options(), level), make_row_builder(level, "", Options())))

    assert found == whole


def test_a_body_that_is_not_needed_is_not_decoded() -> None:
    found = index.open_index(FILES[0].with_name("small_share.pcap"))
    exchanges = outcomes_from_segments(read_segments([found], None), Options(), found.key_log(), "share_acks")

    bodies = {
        side.name
        for each in exchanges
        if isinstance(each, Exchange)
        for side in (each.request, each.response)
        if side is not None and side.body is not None
    }

    assert {"ShareAcknowledgeRequest", "MetadataResponse"} <= bodies
    assert bodies.isdisjoint({"ProduceRequest", "ProduceResponse", "HeartbeatRequest", "ApiVersionsResponse"})


@pytest.mark.parametrize("level", ["partitions", "records"])
def test_excluded_exchanges_are_decoded_only_if_they_name_topics(level: str) -> None:
    capture = FILES[0].with_name("small_share.pcap")
    with record_decoded_responses() as decoded:
        found = read_table([capture], level, Options(apis=frozenset({"ShareFetch"})))

    assert set(found["api_name"].to_pylist()) == {"ShareFetch"}
    assert {"ShareFetch", "Metadata"} <= set(decoded)
    assert set(decoded).isdisjoint({"Produce", "ShareGroupHeartbeat", "ShareAcknowledge"})


def test_any_message_may_have_rows_of_partitions() -> None:
    assert options_for_level(Options(), "partitions").decoded_messages is None


def test_decoded_messages_of_the_options_are_kept() -> None:
    asked = Options(decoded_messages=frozenset({"MetadataResponse"}))

    assert options_for_level(asked, "records").decoded_messages == asked.decoded_messages
