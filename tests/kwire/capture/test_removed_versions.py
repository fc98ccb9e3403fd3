"""Captures of old clients: the versions and APIs that Kafka 4.0 removed have names, pairs, rows, bodies and records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kwire import registry
from kwire.capture.columnar.decode_plan import message_plan
from kwire.capture.options import Options
from kwire.codec import to_json
from kwire.headers import encode_request, encode_response
from kwire.messages.before_4_0 import controlled_shutdown
from kwire.registry import REMOVED_EDITION
from kwire.schema import load_schema, own_message_names
from tests.support.captures.capture_files import CapturedConnection, build_pcap, collect_issue_kinds
from tests.support.captures.index_captures import assert_rows_of_pipeline, count_flows
from tests.support.captures.old_clients import REPETITIONS, golden_connection, golden_pairs, old_client, old_exchanges
from tests.support.cli.commands import Capsys, run_kwire

APIS = sorted(
    load_schema(name, REMOVED_EDITION).api_key or 0
    for name in own_message_names(REMOVED_EDITION)
    if name.endswith("Request")
)


@pytest.mark.parametrize("api_key", APIS)
def test_every_removed_version_has_named_paired_and_decoded_rows(api_key: int) -> None:
    low, high = registry.api_versions(api_key, REMOVED_EDITION)
    for version in range(low, high + 1):
        capture = build_pcap(golden_connection(api_key, version).packets)

        rows = assert_rows_of_pipeline(capture, options=Options())

        names = {(row["api_name"], row["api_version"], row["status"]) for row in rows}
        assert len(rows) == len(golden_pairs(api_key, version)) * REPETITIONS
        assert names == {(registry.api_name(api_key), version, "ok")}
        # Golden messages have tags that no schema knows.
        assert collect_issue_kinds(rows) <= {"unknown_tag"}
        has_header = (api_key, version) != (7, 0)
        assert {row["client_id"] for row in rows} == {"old-client" if has_header else None}
        assert {row["header_version"] for row in rows} == {registry.header_versions(api_key, version)[0]}
        bodies = {str(row["correlation_id"]): row["body_request"] for row in rows}
        assert len(bodies) == len(rows)
        assert all(isinstance(body, str) and body.startswith("{") for body in bodies.values())


@pytest.mark.parametrize("api_key", APIS)
def test_columns_have_a_plan_for_every_removed_version(api_key: int) -> None:
    low, high = registry.api_versions(api_key, REMOVED_EDITION)
    for version in range(low, high + 1):
        assert count_flows(build_pcap(golden_connection(api_key, version).packets)) == 1
        for kind in ("Request", "Response"):
            assert message_plan(f"{registry.api_name(api_key)}{kind}", version) is not None


@pytest.mark.parametrize("api_key", APIS)
@pytest.mark.parametrize("level", ["partitions", "records"])
def test_levels_of_removed_versions_agree_with_the_pipeline(api_key: int, level: str) -> None:
    low, high = registry.api_versions(api_key, REMOVED_EDITION)
    for version in range(low, high + 1):
        assert_rows_of_pipeline(build_pcap(golden_connection(api_key, version).packets), level, Options())


NAMES = [
    *(("Produce", version, has_answer) for version in range(3) for has_answer in (True, False)),
    *(("Fetch", version, True) for version in range(4)),
    ("ListOffsets", 0, True),
]


@pytest.mark.parametrize("repetitions", [1, 20])
def test_produce_fetch_and_list_offsets_of_an_old_client_are_paired_by_columns_and_pipeline(repetitions: int) -> None:
    rows = assert_rows_of_pipeline(old_client(repetitions), options=Options())

    rows.sort(key=lambda row: int(str(row["correlation_id"])))
    assert [(row["api_name"], row["api_version"], row["latency_us"] is not None) for row in rows] == NAMES * repetitions
    assert {(row["status"], row["n_topics"], row["n_partitions"]) for row in rows} == {("ok", 1, 1)}
    assert collect_issue_kinds(rows) == set()


@pytest.mark.parametrize("repetitions", [1, 20])
def test_the_records_of_old_message_formats_are_rows(repetitions: int) -> None:
    rows = assert_rows_of_pipeline(old_client(repetitions), "records", Options(payload=True))

    assert len(rows) == 2 * (6 + 4) * repetitions
    assert {(row["partition"], row["key"], row["value"]) for row in rows} == {(3, b"key", b"value")}
    # A broker numbers the messages of a Produce request, which without acks has no response.
    assert {(row["api_name"], row["offset"]) for row in rows} == {
        *(("Produce", offset) for offset in (40, 41, None)),
        *(("Fetch", offset) for offset in (40, 41)),
    }
    assert sum(row["timestamp"] is None for row in rows) == 2 * (4 + 2) * repetitions


def test_the_command_decode_shows_the_exchanges_of_an_old_client(tmp_path: Path, capsys: Capsys) -> None:
    path = tmp_path / "old.pcapng"
    path.write_bytes(old_client())

    code, lines, err = run_kwire(capsys, "decode", path)

    assert (code, err) == (0, "")
    shown = [line.split()[2:4] for line in lines[1 : len(NAMES) + 1]]
    assert sorted(shown) == sorted([name, f"v{version}"] for name, version, _ in NAMES)


@pytest.mark.parametrize(("api", "texts"), [
    ("Produce", ["acks: int16 = 1", 'value: bytes = 76616c7565', "base_offset: int64 = 40"]),
    ("Fetch", ["max_wait_ms: int32 = 500", "high_watermark: int64 = 42"]),
    ("ListOffsets", ["max_num_offsets: int32 = 1", "old_style_offsets: []int64"]),
])  # fmt: skip
def test_the_tree_of_a_removed_version_names_every_field(
    api: str, texts: list[str], tmp_path: Path, capsys: Capsys
) -> None:
    path = tmp_path / "old.pcapng"
    path.write_bytes(old_client())

    code, lines, err = run_kwire(capsys, "decode", path, "--format", "tree", "--api", api, "--payload")

    assert (code, err) == (0, "")
    text = "\n".join(lines)
    assert [part for part in texts if part not in text] == []
    assert "!!" not in text


def test_the_body_of_a_removed_version_is_the_json_of_kafka(tmp_path: Path, capsys: Capsys) -> None:
    path = tmp_path / "old.pcapng"
    path.write_bytes(old_client())

    _, lines, _ = run_kwire(capsys, "decode", path, "--format", "jsonl", "--api", "ListOffsets")

    (asked, _, _) = old_exchanges()[-1]
    (row,) = map(json.loads, lines)
    assert json.loads(row["body_request"]) == to_json(asked, 0)


def test_a_controlled_shutdown_without_a_client_id_is_an_exchange() -> None:
    connection = CapturedConnection().open()
    for number in range(3):
        asked = controlled_shutdown.ControlledShutdownRequest(broker_id=7)
        left = controlled_shutdown.RemainingPartition("orders", 3)
        answered = controlled_shutdown.ControlledShutdownResponse(0, [left])
        connection.exchange(encode_request(asked, 0, number, None), encode_response(answered, 0, number))

    rows = assert_rows_of_pipeline(build_pcap(connection.packets), options=Options())

    assert {(row["api_name"], row["status"], row["header_version"], row["client_id"]) for row in rows} == {
        ("ControlledShutdown", "ok", 0, None)
    }
