"""Live capture: the loopback interface with a broker, and the errors where it is not allowed."""

from __future__ import annotations

import errno
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import kwire
import mockbroker
from kwire.capture.files import live_capture
from kwire.capture.files.live_capture import LiveCapture
from kwire.capture.files.packet_reader import read_packets
from kwire.capture.model import NO_PACKET, LiveError, Packet
from kwire.capture.options import Options
from kwire.capture.reader import read_rows
from kwire.messages.metadata import MetadataRequest

pytestmark = pytest.mark.slow


class IdleStop:
    """Stops a reader when no packets are left."""

    def __init__(self) -> None:
        self.is_idle = False

    def idle(self) -> None:
        self.is_idle = True


@pytest.fixture
def stop() -> IdleStop:
    return IdleStop()


def open_interface(interface: str, stop: IdleStop, **options: int) -> LiveCapture:
    """Open the interface, or skip the test where the system does not allow it."""
    try:
        return LiveCapture(interface, should_end=lambda: stop.is_idle, on_idle=stop.idle, **options)
    except LiveError as error:
        pytest.skip(str(error))


def requests(count: int) -> Iterator[int]:
    """Send requests to a broker; yield its port."""
    with mockbroker.Cluster() as cluster:
        with kwire.Client(cluster.bootstrap_servers) as client:
            for _ in range(count):
                client.send(MetadataRequest())
        yield int(cluster.bootstrap_servers.rpartition(":")[2])


@pytest.mark.parametrize("interface", ["lo", live_capture.ANY])
def test_loopback_packets_of_a_client_are_read_once(interface: str, stop: IdleStop) -> None:
    with open_interface(interface, stop) as reading:
        (port,) = requests(5)
        rows = list(read_rows(reading, "messages", Options(ports=frozenset({port}))))

    from_client = [row for row in rows if row["client_id"] == "kwire"]
    assert [row["api_name"] for row in from_client] == ["ApiVersions"] + ["Metadata"] * 5
    assert {row["status"] for row in from_client} == {"ok"}
    assert {row["file"] for row in rows} == {interface}
    assert {row["link"] for row in rows} == {"ethernet" if interface == "lo" else "raw"}
    assert {str(row["issues"]) for row in rows} == {"[]"}
    assert reading.dropped == 0


def test_loopback_packets_are_no_duplicates_and_have_kernel_times(stop: IdleStop) -> None:
    with open_interface("lo", stop) as reading:
        (port,) = requests(3)
        rows = list(read_rows(reading, "packets", Options(ports=frozenset({port}))))

    assert rows
    assert {row["anomaly"] for row in rows} == {None}
    assert [row["number"] for row in rows] == sorted({int(str(row["number"])) for row in rows})
    assert [row["ts"] for row in rows] == sorted(int(str(row["ts"])) for row in rows)


def test_packets_that_do_not_fit_the_buffer_are_counted_and_reported(stop: IdleStop) -> None:
    with open_interface("lo", stop, buffer_size=1) as reading:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for _ in range(50):
                sender.sendto(bytes(1000), ("127.0.0.1", 9))
        packets = list(read_packets(reading))

    assert all(isinstance(packet, Packet) for packet in packets[:-1])
    last = packets[-1]
    assert not isinstance(last, Packet)
    assert last.kind == "dropped"
    assert f"interface lo: {reading.dropped} of {reading.dropped + reading.count} packets were dropped" in last.detail


def test_reading_ends_when_should_end_returns_true(stop: IdleStop) -> None:
    stop.is_idle = True
    with open_interface("lo", stop) as reading:
        assert [item for item in reading.packets() if isinstance(item, Packet)] == []


def test_a_marker_comes_before_the_wait_for_a_packet(stop: IdleStop) -> None:
    with open_interface("lo", stop) as reading:
        found = []
        for item in read_packets(reading, with_markers=True):
            found.append(item)
            if item is NO_PACKET:
                assert not stop.is_idle
                break

    assert found[-1] is NO_PACKET


def test_an_interface_that_is_down_ends_with_an_issue(stop: IdleStop) -> None:
    flags = {file.parent.name: int(file.read_text(), 16) for file in Path("/sys/class/net").glob("*/flags")}
    down = next((name for name, value in flags.items() if not value & 1), None)
    if down is None:
        pytest.skip("all interfaces are up")

    with open_interface(down, stop) as reading:
        (row,) = read_rows(reading)
    assert row["status"] == "truncated"
    assert f"interface {down} is down: what follows is not read" in str(row["issues"])


def test_the_error_for_an_unknown_interface_lists_the_known_ones(stop: IdleStop) -> None:
    open_interface("lo", stop).close()

    with pytest.raises(LiveError, match=r"there is no interface nope0; there are any, .*lo"):
        LiveCapture("nope0")


@pytest.mark.skipif(not hasattr(socket, "AF_PACKET"), reason="only Linux has raw sockets of this kind")
def test_the_error_without_permission_names_the_required_capability(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(socket, "socket", refuse)

    text = r"root, or the capability CAP_NET_RAW.*tcpdump -i lo -U -w - tcp \| kwire decode"
    with pytest.raises(LiveError, match=text):
        LiveCapture("lo")


def test_the_error_on_other_systems_names_a_capture_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "AF_PACKET", raising=False)
    monkeypatch.setattr(sys, "platform", "darwin")

    text = r"Linux only, and this is darwin; .*tcpdump -i en0 -U -w - tcp \| kwire decode -"
    with pytest.raises(LiveError, match=text):
        LiveCapture("en0")
