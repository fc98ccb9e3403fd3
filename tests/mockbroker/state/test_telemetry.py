"""Client instances of KIP-714: numbers of subscriptions as a real broker gave them, and what is forgotten when."""

from __future__ import annotations

import re

import pytest

from kwire import uuids
from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.telemetry import Push, Subscription, Telemetry

ONE = uuids.from_text("AAECAwQFBgcICQoLDA0ODw")
CLIENT = {"client_id": "golden"}
METRICS = ("org.apache.kafka.consumer.", "org.apache.kafka.producer.", "a.b.c")
NOW_MS = 10_000_000


def _room(*subscriptions: Subscription) -> Telemetry:
    return Telemetry(lambda: (1, subscriptions), bytes_max=1_000)


@pytest.mark.parametrize(
    ("name", "number"), [("AAECAwQFBgcICQoLDA0ODw", -659664424), ("_____wAAAAD-AAAAAAAAAQ", -648958426)]
)
def test_a_subscription_has_the_number_and_the_order_that_a_real_broker_gave_it(name: str, number: int) -> None:
    wanted = Subscription(METRICS, 2_000, {"client_id": re.compile("gold.*")})

    told = _room(wanted).subscribe(uuids.from_text(name), CLIENT, connection_id=1, now_ms=NOW_MS)

    assert told.metrics == ("org.apache.kafka.producer.", "org.apache.kafka.consumer.", "a.b.c")
    assert told.subscription_id == number


def test_of_several_subscriptions_the_shortest_interval_counts_and_all_metrics_win() -> None:
    room = _room(Subscription(("a.",), 2_000, {}), Subscription(("*",), 1_000, {}), Subscription(("b",), 500, _NOBODY))

    told = room.subscribe(ONE, CLIENT, connection_id=1, now_ms=NOW_MS)

    assert (told.metrics, told.interval_ms) == (("*",), 1_000)


_NOBODY = {"client_id": re.compile("x"), "client_software_name": re.compile(".*")}


def test_a_client_without_an_attribute_does_not_match_by_it() -> None:
    room = _room(Subscription(("a",), 500, {"client_software_name": re.compile(".*")}))

    assert room.subscribe(ONE, CLIENT, connection_id=1, now_ms=NOW_MS).metrics == ()


def test_no_interval_is_longer_than_the_default() -> None:
    room = _room(Subscription(("a",), 3_600_000, {}))

    assert room.subscribe(ONE, CLIENT, connection_id=1, now_ms=NOW_MS).interval_ms == 300_000


def test_a_client_may_ask_again_when_its_connection_or_its_time_is_gone() -> None:
    room = _room(Subscription(("a",), 100_000, {}))
    room.subscribe(ONE, CLIENT, connection_id=1, now_ms=NOW_MS)
    with pytest.raises(KafkaError) as soon:
        room.subscribe(ONE, CLIENT, connection_id=1, now_ms=NOW_MS + 99_999)
    assert soon.value.code == ErrorCode.THROTTLING_QUOTA_EXCEEDED

    room.disconnect(1)
    room.subscribe(ONE, CLIENT, connection_id=2, now_ms=NOW_MS + 1)
    room.subscribe(ONE, CLIENT, connection_id=2, now_ms=NOW_MS + 300_001)


def test_an_instance_that_is_not_heard_of_is_forgotten() -> None:
    room = _room()
    told = room.subscribe(ONE, CLIENT, connection_id=1, now_ms=NOW_MS)
    room.push(ONE, CLIENT, Push(told.subscription_id, True, 0, 0), connection_id=1, now_ms=NOW_MS)

    with pytest.raises(KafkaError) as ended:
        room.push(ONE, CLIENT, Push(told.subscription_id, False, 0, 0), connection_id=1, now_ms=NOW_MS + 900_000 - 1)
    assert ended.value.code == ErrorCode.INVALID_REQUEST
    room.push(ONE, CLIENT, Push(told.subscription_id, False, 0, 0), connection_id=1, now_ms=NOW_MS + 1_800_000)
