"""Damaged messages give the results of Kafka 4.4.0, recorded by `python -m tools.oracle.kafka_decoder`."""

from __future__ import annotations

import pytest

from kwire import WireError, decode_lenient, encode
from tools.oracle.kafka_decoder import SPECIAL, KafkaResult, load_recording


def _ours(verdict: KafkaResult) -> tuple[int | None, bytes | None]:
    try:
        found = decode_lenient(verdict.message, verdict.version, verdict.raw)
    except WireError:
        return None, None
    try:
        return found.size, encode(found.message, verdict.version)
    except WireError:
        return found.size, None


def test_every_damaged_message_is_taken_or_refused_as_kafka_does() -> None:
    verdicts = load_recording()
    different = [(verdict, ours) for verdict in verdicts if (ours := _ours(verdict)) != (verdict.used, verdict.written)]

    assert different == []
    assert len(verdicts) > 1500
    assert sum(verdict.used is None for verdict in verdicts) > 500


@pytest.mark.parametrize("special", SPECIAL, ids=lambda special: f"{special[0]} {special[2]}")
def test_the_recording_has_what_no_seed_would_find(special: tuple[str, int, str]) -> None:
    message, version, text = special

    assert any(
        (verdict.message, verdict.version, verdict.raw) == (message, version, bytes.fromhex(text))
        for verdict in load_recording()[-len(SPECIAL) :]
    )
