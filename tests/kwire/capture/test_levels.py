"""A level's rows are made of a few messages: the other bodies are passed over, and no row is lost by it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire import registry
from kwire.capture import arrow, index
from kwire.capture.exchange import Exchange
from kwire.capture.index.segments import segments_of
from kwire.capture.levels import reduced
from kwire.capture.options import Options
from kwire.capture.pipeline import ordered, outcomes, outcomes_of, row_maker
from tests.kwire.capture.counted import responses_decoded

FILES = sorted((Path(__file__).parents[2] / "captures").glob("*.pcap*"))
EVERY = frozenset(f"{registry.api_name(key)}{side}" for key in registry.API_KEYS for side in ("Request", "Response"))
FEW = ("share_acquired", "share_acks", "records")


@pytest.mark.parametrize("level", FEW)
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_rows_are_those_of_all_bodies(file: Path, level: str) -> None:
    everything = Options(decoded=EVERY)

    whole = list(ordered(outcomes(file, everything, level), row_maker(level, "", everything)))
    found = list(ordered(outcomes(file, Options(), level), row_maker(level, "", Options())))

    assert found == whole


def test_a_body_that_makes_no_row_is_not_decoded() -> None:
    found = index.of(FILES[0].with_name("small_share.pcap"))
    exchanges = outcomes_of(segments_of([found], None), Options(), found.keys(), "share_acks")

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
def test_what_the_options_do_not_ask_for_is_not_decoded_unless_it_names_topics(level: str) -> None:
    capture = FILES[0].with_name("small_share.pcap")
    with responses_decoded() as decoded:
        found = arrow.table([capture], level, Options(apis=frozenset({"ShareFetch"})))

    assert set(found["api_name"].to_pylist()) == {"ShareFetch"}
    assert {"ShareFetch", "Metadata"} <= set(decoded)
    assert set(decoded).isdisjoint({"Produce", "ShareGroupHeartbeat", "ShareAcknowledge"})


def test_any_message_may_tell_of_partitions() -> None:
    assert reduced(Options(), "partitions").decoded is None


def test_who_names_the_bodies_is_heard() -> None:
    asked = Options(decoded=frozenset({"MetadataResponse"}))

    assert reduced(asked, "records").decoded == asked.decoded
