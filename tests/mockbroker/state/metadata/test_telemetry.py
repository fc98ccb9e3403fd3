"""Client instances of KIP-714: subscription ids of a real broker, and the removal of idle instances."""

from __future__ import annotations

import re

import pytest

from kwire import uuids
from kwire.error_codes import ErrorCode
from mockbroker.state.metadata.telemetry import ClientTelemetry, MetricsPush, MetricsSubscription
from tests.support.raises_code import raises_code

ONE = uuids.from_text("AAECAwQFBgcICQoLDA0ODw")
CLIENT = {"client_id": "golden"}
METRICS = ("org.apache.kafka.consumer.", "org.apache.kafka.producer.", "a.b.c")
NOW_MS = 10_000_000


def _make_telemetry(*subscriptions: MetricsSubscription) -> ClientTelemetry:
    return ClientTelemetry(lambda: (1, subscriptions), bytes_max=1_000)


@pytest.mark.parametrize(
    ("name", "number"), [("AAECAwQFBgcICQoLDA0ODw", -659664424), ("_____wAAAAD-AAAAAAAAAQ", -648958426)]
)
def test_a_subscription_has_the_number_and_the_order_that_a_real_broker_gave_it(name: str, number: int) -> None:
    subscription = MetricsSubscription(METRICS, 2_000, {"client_id": re.compile("gold.*")})

    telemetry = _make_telemetry(subscription)
    instance = telemetry.get_subscription(uuids.from_text(name), CLIENT, connection_id=1, now_ms=NOW_MS)

    assert instance.metrics == ("org.apache.kafka.producer.", "org.apache.kafka.consumer.", "a.b.c")
    assert instance.subscription_id == number


def test_the_shortest_interval_and_all_metrics_of_several_subscriptions_are_used() -> None:
    telemetry = _make_telemetry(
        MetricsSubscription(("a.",), 2_000, {}),
        MetricsSubscription(("*",), 1_000, {}),
        MetricsSubscription(("b",), 500, _NO_ATTRIBUTES),
    )

    instance = telemetry.get_subscription(ONE, CLIENT, connection_id=1, now_ms=NOW_MS)

    assert (instance.metrics, instance.interval_ms) == (("*",), 1_000)


_NO_ATTRIBUTES = {"client_id": re.compile("x"), "client_software_name": re.compile(".*")}


def test_a_client_without_an_attribute_does_not_match_by_it() -> None:
    telemetry = _make_telemetry(MetricsSubscription(("a",), 500, {"client_software_name": re.compile(".*")}))

    assert telemetry.get_subscription(ONE, CLIENT, connection_id=1, now_ms=NOW_MS).metrics == ()


def test_no_interval_is_longer_than_the_default() -> None:
    telemetry = _make_telemetry(MetricsSubscription(("a",), 3_600_000, {}))

    assert telemetry.get_subscription(ONE, CLIENT, connection_id=1, now_ms=NOW_MS).interval_ms == 300_000


def test_a_client_may_request_a_subscription_again_with_a_new_connection_or_after_its_interval() -> None:
    telemetry = _make_telemetry(MetricsSubscription(("a",), 100_000, {}))
    telemetry.get_subscription(ONE, CLIENT, connection_id=1, now_ms=NOW_MS)
    with raises_code(ErrorCode.THROTTLING_QUOTA_EXCEEDED):
        telemetry.get_subscription(ONE, CLIENT, connection_id=1, now_ms=NOW_MS + 99_999)

    telemetry.remove_connection(1)
    telemetry.get_subscription(ONE, CLIENT, connection_id=2, now_ms=NOW_MS + 1)
    telemetry.get_subscription(ONE, CLIENT, connection_id=2, now_ms=NOW_MS + 300_001)


def test_an_idle_instance_is_removed() -> None:
    telemetry = _make_telemetry()
    instance = telemetry.get_subscription(ONE, CLIENT, connection_id=1, now_ms=NOW_MS)
    last, another = (MetricsPush(instance.subscription_id, terminating, 0, b"") for terminating in (True, False))
    telemetry.accept_push(ONE, CLIENT, last, connection_id=1, now_ms=NOW_MS)

    with raises_code(ErrorCode.INVALID_REQUEST):
        telemetry.accept_push(ONE, CLIENT, another, connection_id=1, now_ms=NOW_MS + 900_000 - 1)
    telemetry.accept_push(ONE, CLIENT, another, connection_id=1, now_ms=NOW_MS + 1_800_000)
