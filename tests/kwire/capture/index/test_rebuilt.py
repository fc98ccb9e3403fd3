"""Connections that depend on secrets, ports or sizes of a reader are built again, with the rows of the pipeline."""

from __future__ import annotations

import itertools
import pickle
import random
import ssl
from functools import cache
from pathlib import Path

import pytest

from kwire.capture.index import build_index, write_sidecar
from kwire.capture.index.rebuilt import RebuiltIndex, rebuild_flows
from kwire.capture.options import Options
from kwire.capture.reader import (
    collect_topic_names,
    read_batches,
    read_flow_batches,
    read_rows,
)
from kwire.capture.rows.record_batches import make_record_batch, selected_columns
from tests.kwire.capture.index.flows.test_damaged_flows import damage
from tests.support.capture_model.pipeline import read_topic_names
from tests.support.captures.capture_files import (
    CAPTURES,
    CapturedConnection,
    build_interface,
    build_packet_block,
    build_pcap,
    build_secrets,
    build_section,
    read_ip_packets,
)
from tests.support.captures.index_captures import (
    assert_rows_of_pipeline,
    batch_rows,
    connection_with_exchanges,
    count_flows,
    fragment_packet,
    request_bytes,
    response_bytes,
    split_segment,
    tcp_payload,
)
from tests.support.captures.tls_captures import TlsConnection, TlsRecording, exchange_messages

TLS_12, TLS_13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
SUITES = [(TLS_13, None), (TLS_12, None), (TLS_12, "ECDHE-ECDSA-AES128-SHA"), (TLS_12, "ECDHE-ECDSA-CHACHA20-POLY1305")]


@cache
def record_connection(number: int, count: int = 9) -> TlsRecording:
    """A connection of its own port; each is of another cipher suite."""
    start = 1_700_000_000_000_000_000 + number * 1_500_000
    connection = TlsConnection(
        *SUITES[number % len(SUITES)], talk=CapturedConnection(("127.0.0.1", 41_000 + number), start=start).open()
    )
    exchange_messages(connection, count)
    return TlsRecording(connection.capture.packets, connection.key_log)


def merge_connections(*numbers: int) -> TlsRecording:
    """Some connections at the same time."""
    recordings = [record_connection(number) for number in numbers]
    packets = sorted(itertools.chain(*(each.packets for each in recordings)), key=lambda each: each.ts)
    return TlsRecording(packets, "\n".join(each.key_log for each in recordings))


def read_kinds(capture: bytes, key_log: str) -> list[tuple[str, str]]:
    """For each flow, what it is in the index and in the decrypted one; all are read by columns."""
    found = build_index(capture)
    assert count_flows(capture) == len(found.flows)
    rebuilt = rebuild_flows(found, None, Options(tls_keylog=key_log))
    kinds = ({row.flow: row.kind for row in each.others} for each in (found, rebuilt))
    rows = ([each.get(number, "kafka") for number in range(len(found.flows))] for each in kinds)
    return list(zip(*rows, strict=True))


def assert_same_rows(capture: bytes, key_log: str, level: str = "messages") -> list[dict[str, object]]:
    """The rows of the pipeline, with bodies and without."""
    assert_rows_of_pipeline(capture, level, Options(bodies=False, sessions=False, tls_keylog=key_log))
    return assert_rows_of_pipeline(capture, level, Options(sessions=False, tls_keylog=key_log))


@pytest.mark.parametrize("number", range(len(SUITES)))
def test_a_connection_is_read_by_columns(number: int) -> None:
    recording = record_connection(number)
    capture = build_pcap(recording.packets)

    assert read_kinds(capture, recording.key_log) == [("tls", "kafka")]
    rows = assert_same_rows(capture, recording.key_log)
    assert {(row["api_name"], row["tls"], row["status"]) for row in rows} == {
        ("ApiVersions", True, "ok"),
        ("Metadata", True, "ok"),
    }


@pytest.mark.slow
@pytest.mark.parametrize("level", ["messages", "partitions", "records"])
def test_real_traffic_is_read_by_columns(level: str) -> None:
    capture, key_log = (CAPTURES / "small_tlskey.pcap").read_bytes(), (CAPTURES / "small_tlskey.keys").read_text()
    options = Options(tls_keylog=key_log)

    assert set(read_kinds(capture, key_log)) == {("tls", "kafka")}
    assert len(assert_rows_of_pipeline(capture, level, options)) >= 2
    names = collect_topic_names([capture], options)
    assert names == read_topic_names(capture, options) != {}


@pytest.mark.parametrize("number", range(len(SUITES)))
def test_without_secrets_nothing_is_decrypted(number: int) -> None:
    capture = build_pcap(record_connection(number).packets)
    found = build_index(capture)

    assert rebuild_flows(found, None, Options(tls_keylog="")) is found
    assert rebuild_flows(found, [], Options(tls_keylog=record_connection(number).key_log)) is found
    assert len(assert_rows_of_pipeline(capture)) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("span_size")
@pytest.mark.parametrize("span_size", [4096, 24 << 20], indirect=True)
@pytest.mark.parametrize("level", ["messages", "partitions", "records"])
def test_clear_and_decrypted_flows_are_merged(level: str) -> None:
    recording = merge_connections(0, 1, 2)
    share = read_ip_packets()
    clear = [each._replace(ts=recording.packets[0].ts + (each.ts - share[0].ts) // 10) for each in share]
    packets = sorted([*recording.packets, *clear], key=lambda each: each.ts)
    capture = build_pcap([piece for each in packets for piece in split_segment(each, 700)])

    assert set(read_kinds(capture, recording.key_log)) == {("tls", "kafka"), ("kafka", "kafka")}
    assert_same_rows(capture, recording.key_log, level)
    assert_rows_of_pipeline(capture, level, Options(tls_keylog=recording.key_log))


@pytest.mark.slow
@pytest.mark.usefixtures("span_size")
@pytest.mark.parametrize("span_size", [4096, 24 << 20], indirect=True)
@pytest.mark.parametrize("seed", range(12))
def test_damaged_connections_have_the_rows_of_the_pipeline(seed: int) -> None:
    recording = merge_connections(*random.Random(seed).sample(range(6), 2))
    size = random.Random(seed).choice((60, 300, 1400))
    packets = [piece for each in recording.packets for piece in split_segment(each, size)]
    capture = damage(packets, seed)

    assert "tls" in dict(read_kinds(capture, recording.key_log))
    assert_same_rows(capture, recording.key_log)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(SUITES)))
def test_a_connection_may_be_captured_from_any_packet_on(number: int) -> None:
    recording = record_connection(number)
    for begin in range(1, len(recording.packets), 3):
        assert_same_rows(build_pcap(recording.packets[begin:]), recording.key_log)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(SUITES)))
def test_each_lost_packet_has_the_gaps_of_the_pipeline(number: int) -> None:
    recording = record_connection(number)
    with_data = [place for place, each in enumerate(recording.packets) if tcp_payload(each)]
    for lost in with_data:
        packets = [*recording.packets[:lost], *recording.packets[lost + 1 :]]
        assert_same_rows(build_pcap(packets), recording.key_log)


def test_connections_that_cannot_be_decrypted_have_one_row() -> None:
    recording, other = record_connection(0), record_connection(5)
    capture = build_pcap(sorted([*recording.packets, *other.packets], key=lambda each: each.ts))

    assert read_kinds(capture, recording.key_log) == [("tls", "kafka"), ("tls", "tls")]
    rows = assert_same_rows(capture, recording.key_log)
    (row,) = [row for row in rows if row["api_key"] is None]
    assert "no secrets are known for its client random" in str(row["issues"])


def test_another_protocol_inside_of_tls_has_no_rows() -> None:
    connection = TlsConnection(TLS_13)
    for number in range(5):
        connection.client.write(b"GET /%d HTTP/1.1\r\n\r\n" % number * 20)
        connection.flush()
    capture = build_pcap(connection.capture.packets)

    assert read_kinds(capture, connection.key_log) == [("tls", "not_kafka")]
    assert assert_same_rows(capture, connection.key_log) == []


def test_encrypted_payload_may_come_in_ip_fragments() -> None:
    recording = record_connection(0)
    capture = build_pcap([piece for each in recording.packets for piece in fragment_packet(each)])

    assert sum(size for _, size in build_index(capture).stored) > 1000
    assert read_kinds(capture, recording.key_log) == [("tls", "kafka")]
    assert len(assert_same_rows(capture, recording.key_log)) == 9


@pytest.mark.parametrize("at", [0, 8, None])
def test_secrets_may_be_anywhere_in_a_pcapng_file(at: int | None) -> None:
    recording = record_connection(0)
    blocks = [build_packet_block(each.ts, each.data) for each in recording.packets]
    head, secrets = [build_section(), build_interface()], build_secrets(recording.key_log)
    place = len(blocks) if at is None else at
    capture = b"".join([*head, *blocks[:place], secrets, *blocks[place:]])

    assert read_kinds(capture, "") == [("tls", "kafka")]
    # An index has the secrets of the whole file from the beginning.
    rows = batch_rows(read_batches(capture))
    assert rows == batch_rows(read_batches(b"".join([*head, secrets, *blocks])))
    assert rows == assert_rows_of_pipeline(b"".join([*head, secrets, *blocks]), options=Options())
    assert len(rows) == 9


def test_neither_secrets_nor_plaintext_are_stored(tmp_path: Path) -> None:
    recording = record_connection(0)
    path = tmp_path / "tls.pcap"
    path.write_bytes(build_pcap(recording.packets))
    stored = build_index(path)
    decrypted = rebuild_flows(stored, None, Options(tls_keylog=recording.key_log))
    write_sidecar(stored, tmp_path / "sidecar")

    assert isinstance(decrypted, RebuiltIndex)
    with pytest.raises(TypeError):
        pickle.dumps(decrypted)
    sidecar = (tmp_path / "sidecar").read_bytes()
    assert not any(line.split()[-1].encode() in sidecar for line in recording.key_log.splitlines() if line)
    assert b"xxxxx" not in sidecar


@pytest.mark.slow
def test_a_connection_may_continue_in_the_next_file(tmp_path: Path) -> None:
    recording = merge_connections(0, 1, 2)
    cuts = [0, len(recording.packets) // 3, len(recording.packets) // 2, len(recording.packets)]
    indexes = []
    for number, (begin, end) in enumerate(itertools.pairwise(cuts)):
        path = tmp_path / f"{number}.pcap"
        path.write_bytes(build_pcap(recording.packets[begin:end]))
        indexes.append(build_index(path))
    options = Options(sessions=False, tls_keylog=recording.key_log, name="all")
    names = [name for name in selected_columns("messages", None) if "packet" not in name]
    rows = batch_rows(read_flow_batches(indexes, None, "messages", options, columns=names))
    expected = make_record_batch(list(read_rows(build_pcap(recording.packets), "messages", options)), "messages", names)

    assert rows == expected.to_pylist()


def test_only_connections_that_a_port_may_change_are_built_again() -> None:
    kafka, opened_by_broker = (CapturedConnection(("127.0.0.1", port)).open() for port in (40_000, 9_093))
    for connection in (kafka, opened_by_broker):
        connection.exchange(request_bytes(1), response_bytes(1))
    capture = build_pcap([*kafka.packets, *opened_by_broker.packets])
    found = build_index(capture)

    assert rebuild_flows(found, None, Options(ports=frozenset({9_092, 9_093}))) is found
    assert rebuild_flows(found, None, Options(ports=frozenset({9_092}))) is found
    changed = rebuild_flows(found, None, Options(ports=frozenset({9_093})))
    assert (changed.openers != found.openers).tolist() == [False, True]
    assert rebuild_flows(found, [found.flows[0].key], Options(ports=frozenset({9_093}))) is found
    for port in (9_092, 9_093):
        assert_rows_of_pipeline(capture, options=Options(ports=frozenset({port}), sessions=False))


@pytest.mark.parametrize(("size_max", "expected"), [(10, {"ok"}), (9, set())])
def test_connections_whose_first_frame_is_above_the_size_of_a_reader_are_not_kafka(
    size_max: int, expected: set[str]
) -> None:
    packets = [piece for each in connection_with_exchanges(20).packets for piece in split_segment(each, 9)]

    rows = assert_rows_of_pipeline(build_pcap(packets), options=Options(frame_size_max=size_max))
    assert {row["status"] for row in rows} == expected


@pytest.mark.parametrize("segment_size", [9, 4_000])
def test_a_frame_in_several_segments_is_skipped_above_the_size_of_a_reader(segment_size: int) -> None:
    connection = connection_with_exchanges(3)
    connection.exchange(request_bytes(3, "a" * 90), response_bytes(3)).exchange(request_bytes(4), response_bytes(4))
    packets = [piece for each in connection.packets for piece in split_segment(each, segment_size)]

    rows = assert_rows_of_pipeline(build_pcap(packets), options=Options(frame_size_max=50))
    assert {row["status"] for row in rows} == ({"ok"} if segment_size > 100 else {"ok", "undecodable", "no_request"})
