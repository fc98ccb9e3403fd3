"""The text options of `kafka_capture`, and the filters that its reader takes over."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import datasource as sds

from kwire.capture import arrow
from kwire.capture.options import Options
from kwire.spark import options, pushdown


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
        ({"port": "9092"}, "no option port; it has level, edition, ports"),
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
        ValueError, match="'packets', and may be messages, partitions, share_acquired, share_acks, records"
    ):
        options.level({"level": "packets"})


def kept(*filters: sds.Filter) -> list[int | None]:
    """The API keys of the rows that pass all the filters."""
    rows = [
        {"api_key": key, "api_name": name}
        for key, name in ((0, "Produce"), (1, "Fetch"), (78, "ShareFetch"), (None, None))
    ]
    batch = pa.RecordBatch.from_pylist(
        [{name: row.get(name) for name in arrow.schema("messages").names} for row in rows], arrow.schema("messages")
    )
    for each in filters:
        condition = pushdown.expression(each, batch.schema)
        assert condition is not None
        batch = batch.filter(condition)
    found: list[int | None] = batch.column("api_key").to_pylist()
    return found


def test_a_pushed_filter_keeps_the_rows_that_sql_would_keep() -> None:
    assert kept(sds.EqualTo(("api_key",), 78)) == [78]
    assert kept(sds.In(("api_name",), ["Fetch", "Produce"])) == [0, 1]  # type: ignore[arg-type]
    assert kept(sds.GreaterThan(("api_key",), 0), sds.LessThan(("api_key",), 78)) == [1]
    assert kept(sds.GreaterThanOrEqual(("api_key",), 1), sds.LessThanOrEqual(("api_key",), 78)) == [1, 78]
    assert kept(sds.IsNotNull(("api_key",))) == [0, 1, 78]


@pytest.mark.parametrize(
    "wanted",
    [
        sds.EqualTo(("req_ts",), 5),
        sds.EqualTo(("api_key",), None),
        sds.EqualTo(("api_key",), "78"),
        sds.EqualTo(("tls",), True),
        sds.EqualTo(("issues", "kind"), "x"),
        sds.EqualTo(("nowhere",), 1),
        sds.StringContains(("api_name",), "Share"),
        sds.Not(sds.EqualTo(("api_key",), 1)),
    ],
)
def test_a_filter_that_arrow_might_read_otherwise_is_left_to_spark(wanted: sds.Filter) -> None:
    assert pushdown.expression(wanted, arrow.schema("messages")) is None
