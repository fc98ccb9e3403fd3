"""Parsing of the options of `kafka_capture`."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.capture.options import Options
from kwire.spark.source import options


def test_a_key_log_is_serialized_as_lines_and_not_printed() -> None:
    keys = Path(__file__).parents[3] / "captures" / "small_tlskey.keys"
    parsed = options.parse_reader_options({"tls_keylog": str(keys)})

    assert parsed.tls_keylog == keys.read_text()
    assert "TRAFFIC_SECRET" not in repr(parsed)
    with pytest.raises(ValueError, match="no line of it is a TLS secret"):
        options.parse_reader_options({"tls_keylog": str(keys.with_suffix(".pcap"))})


def test_every_option_is_parsed() -> None:
    option_texts = {
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
        "unpacked_size_max": "4G",
    }

    assert options.parse_reader_options(option_texts) == Options(
        edition="4.0-early-access",
        ports=frozenset({9092, 9093}),
        apis=frozenset({"Fetch", "ShareFetch"}),
        show_secrets=True,
        payload=True,
        bodies=False,
        topics={"AAAAAAAAAAAAAAAAAAAAAQ": "orders"},
        frame_size_max=1024,
        unpacked_size_max=4 << 30,
    )
    assert options.parse_level(option_texts) == "records"


def test_without_options_the_reader_has_its_own_defaults() -> None:
    assert options.parse_reader_options({"paths": "[]"}) == Options()
    assert options.parse_level({}) == "messages"


@pytest.mark.parametrize(
    ("option_texts", "message"),
    [
        ({"port": "9092"}, "no option port; it has columns, filter, level, push_filters, edition, ports"),
        ({"ports": "kafka"}, "option ports is 'kafka'"),
        ({"ports": "70000"}, "1 to 65535"),
        ({"payload": "yes"}, "expected true or false"),
        ({"topics": "[1]"}, "expected a JSON object"),
        ({"topics": "{"}, "option topics is '{'"),
    ],
)
def test_an_invalid_option_is_an_error_that_names_it(option_texts: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        options.parse_reader_options(option_texts)


def test_an_unknown_level_is_an_error_that_names_the_levels() -> None:
    levels = "messages, partitions, share_acquired, share_acks, records, flows"
    with pytest.raises(ValueError, match=f"'frames', and may be {levels}"):
        options.parse_level({"level": "frames"})
