"""Key logs that grow while a capture is read: connections are decrypted as soon as their secrets are known."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.capture.files.source import KeyLogSink
from kwire.capture.kafka.exchange import Exchange
from kwire.capture.model import NO_PACKET, CaptureIssue, NonKafkaConnection, NoPacket, Packet
from kwire.capture.options import Options
from kwire.capture.reader import read_outcomes
from kwire.capture.tls import tls_session
from kwire.capture.tls.followed_key_log import FollowedKeyLog, find_waiting
from tests.support.captures.capture_files import CapturedPacket
from tests.support.captures.tls_captures import TlsRecording, record_tls_capture

TLS_12, TLS_13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
SECRET = "CLIENT_RANDOM " + "ab" * 32 + " " + "cd" * 48 + "\n"
OTHER = "CLIENT_RANDOM " + "12" * 32 + " " + "cd" * 48 + "\n"


class GrowingSource:
    """Packets of a capture; a key log is written before one of them."""

    def __init__(self, packets: list[CapturedPacket], path: Path, key_log: str, *, before: int) -> None:
        self._packets = packets
        self._path = path
        self._key_log = key_log
        self._before = before

    def packets(self, keys: KeyLogSink | None) -> Iterator[Packet | CaptureIssue | NoPacket]:
        """The packets, numbered from 1; each has to be waited for."""
        for number, each in enumerate(self._packets, 1):
            yield NO_PACKET
            if number == self._before:
                self._path.write_text(self._key_log)
            yield Packet(number, each.ts, 101, each.data, len(each.data))


def read_growing(recording: TlsRecording, path: Path, before: int) -> list[tuple[object, object]]:
    """API and correlation id of the exchanges with a response; the key log is written before this packet."""
    source = GrowingSource(recording.packets, path, recording.key_log, before=before)
    outcomes = list(read_outcomes(source, Options(followed_keylogs=(str(path),))))
    assert not [each for each in outcomes if isinstance(each, NonKafkaConnection)]
    return [
        (each.request.api_name, each.request.correlation_id)
        for each in outcomes
        if isinstance(each, Exchange) and each.request is not None and each.response is not None
    ]


def exchanges(ids: range) -> list[tuple[object, object]]:
    return [("Metadata" if each else "ApiVersions", each) for each in ids]


@pytest.mark.parametrize("version", [TLS_12, TLS_13])
@pytest.mark.parametrize("place", [0.0, 0.3, 0.6, 1.0])
def test_a_connection_whose_secrets_come_late_is_decrypted_from_its_start(
    version: ssl.TLSVersion, place: float, tmp_path: Path
) -> None:
    recording = record_tls_capture(version, count=8)
    before = 1 + int((len(recording.packets) - 1) * place)

    assert read_growing(recording, tmp_path / "keys", before) == exchanges(range(8))


@pytest.mark.parametrize("version", [TLS_12, TLS_13])
@pytest.mark.parametrize("size", [500, 5_000, 40_000])
def test_where_its_first_bytes_were_dropped_it_is_decrypted_from_then_on(
    version: ssl.TLSVersion, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_session, "BUFFERED_SIZE_MAX", size)
    recording = record_tls_capture(version, count=60)

    found = read_growing(recording, tmp_path / "keys", len(recording.packets) * 2 // 3)
    assert len(found) > 12
    assert found == exchanges(range(60))[-len(found) :]


@pytest.mark.parametrize("version", [TLS_12, TLS_13])
def test_packets_that_are_missing_where_bytes_were_dropped_do_not_prevent_decryption(
    version: ssl.TLSVersion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_session, "BUFFERED_SIZE_MAX", 1000)
    recording = record_tls_capture(version, count=60)
    lossy = recording._replace(packets=[each for at, each in enumerate(recording.packets) if at not in {40, 41}])

    found = read_growing(lossy, tmp_path / "keys", len(lossy.packets) * 2 // 3)
    assert len(found) > 12
    assert found == exchanges(range(60))[-len(found) :]


def test_a_connection_that_began_before_the_capture_waits_for_its_secrets_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_session, "BUFFERED_SIZE_MAX", 1000)
    recording = record_tls_capture(TLS_13, count=60)
    late = recording._replace(packets=recording.packets[40:])

    found = read_growing(late, tmp_path / "keys", len(late.packets) // 2)
    assert len(found) > 12
    assert found == exchanges(range(60))[-len(found) :]


def test_what_waits_for_secrets_that_never_come_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_session, "BUFFERED_SIZE_MAX", 1000)
    recording = record_tls_capture(TLS_13, count=60)
    source = GrowingSource(recording.packets, tmp_path / "keys", "", before=0)

    [outcome] = read_outcomes(source, Options(followed_keylogs=(str(tmp_path / "keys"),)))
    assert isinstance(outcome, NonKafkaConnection)
    assert "no secrets are known" in outcome.detail


def test_a_key_log_is_read_as_it_grows_and_again_when_it_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    keys = FollowedKeyLog([str(path)])
    assert len(keys) == 0

    path.write_text("# comment\n" + SECRET[:50])
    keys.refresh()
    assert len(keys) == 0

    with path.open("a") as file:
        file.write(SECRET[50:])
    keys.refresh()
    version = keys.version
    keys.refresh()
    assert (len(keys), keys.version) == (1, version)

    (tmp_path / "new").write_text(OTHER)
    (tmp_path / "new").rename(path)
    keys.refresh()
    assert len(keys) == 2

    path.unlink()
    keys.refresh()
    assert len(keys) == 2


def test_only_files_that_may_become_key_logs_are_waited_for(tmp_path: Path) -> None:
    texts = {"empty": "", "comments": "# SSL key log\n\n", "begun": SECRET[:20], "keys": SECRET}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "other").write_text("127.0.0.1 localhost\n")
    paths = [str(tmp_path / name) for name in ("missing", *texts)]

    assert find_waiting(paths) == paths[:-1]
    with pytest.raises(ValueError, match="no line of it is a TLS secret"):
        find_waiting([str(tmp_path / "other")])
    with pytest.raises(IsADirectoryError):
        find_waiting([str(tmp_path)])
