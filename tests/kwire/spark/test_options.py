"""The text options of `kafka_capture`, and the filters that its reader takes over."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.capture.options import Options
from kwire.spark import options


def test_a_key_log_travels_as_its_lines_and_is_not_shown() -> None:
    keys = Path(__file__).parents[2] / "captures" / "small_tlskey.keys"
    parsed = options.parse({"tls_keylog": str(keys)})

    assert parsed.tls_keylog == keys.read_text()
    assert "TRAFFIC_SECRET" not in repr(parsed)
    with pytest.raises(ValueError, match="no line of it is a TLS secret"):
        options.parse({"tls_keylog": str(keys.with_suffix(".pcap"))})


def test_each_option_becomes_its_value() -> None:
    given = {
        "path": "a.pcap",
        "level": "records",
        "edition": "4.0-early-access",
        "ports": "9092, 9093",
        "apis": "Fetch,ShareFetch",
        "show_secrets": "true",
        "payload": "TRUE",
        "bodies": "false",
        "topics": '{"AAAAAAAAAAAAAAAAAAAAAQ": "orders"}',
        "frame_size_max": "1024",
    }

    assert options.parse(given) == Options(
        edition="4.0-early-access",
        ports=frozenset({9092, 9093}),
        apis=frozenset({"Fetch", "ShareFetch"}),
        show_secrets=True,
        payload=True,
        bodies=False,
        topics={"AAAAAAAAAAAAAAAAAAAAAQ": "orders"},
        frame_size_max=1024,
    )
    assert options.level(given) == "records"


def test_without_options_the_reader_has_its_own_defaults() -> None:
    assert options.parse({"paths": "[]"}) == Options()
    assert options.level({}) == "messages"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"port": "9092"}, "no option port; it has columns, filter, level, push_filters, edition, ports"),
        ({"ports": "kafka"}, "option ports is 'kafka'"),
        ({"ports": "70000"}, "1 to 65535"),
        ({"payload": "yes"}, "expected true or false"),
        ({"topics": "[1]"}, "expected a JSON object"),
        ({"topics": "{"}, "option topics is '{'"),
    ],
)
def test_a_wrong_option_is_an_error_that_names_it(given: dict[str, str], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        options.parse(given)


def test_an_unknown_level_is_an_error_that_names_the_levels() -> None:
    with pytest.raises(
        ValueError,
        match="'frames', and may be messages, partitions, share_acquired, share_acks, records, flows",
    ):
        options.level({"level": "frames"})
