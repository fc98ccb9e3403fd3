"""An interface read as packets come: loopback with a broker on it, and what is said where that is not allowed."""

from __future__ import annotations

import errno
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import kwire
import mockbroker
from kwire.capture import live
from kwire.capture.live import Live
from kwire.capture.options import Options
from kwire.capture.pipeline import rows
from kwire.capture.values import LiveError, Packet
from kwire.messages.metadata import MetadataRequest


class Until:
    """Ends a reader when nothing is there any more."""

    def __init__(self) -> None:
        self.is_idle = False

    def idle(self) -> None:
        self.is_idle = True


@pytest.fixture
def until() -> Until:
    return Until()


def opened(interface: str, until: Until, **options: int) -> Live:
    """The interface, or a skipped test where this system does not allow that."""
    try:
        return Live(interface, should_end=lambda: until.is_idle, idle=until.idle, **options)
    except LiveError as error:
        pytest.skip(str(error))


def asked(count: int) -> Iterator[int]:
    """Send requests to a broker; its port."""
    with mockbroker.Cluster() as cluster:
        with kwire.Client(cluster.bootstrap_servers) as client:
            for _ in range(count):
                client.send(MetadataRequest())
        yield int(cluster.bootstrap_servers.rpartition(":")[2])


@pytest.mark.parametrize("interface", ["lo", live.ANY])
def test_what_a_client_asks_a_broker_on_loopback_is_seen_once(interface: str, until: Until) -> None:
    with opened(interface, until) as reading:
        (port,) = asked(5)
        found = list(rows(reading, "messages", Options(ports=frozenset({port}))))

    from_client = [row for row in found if row["client_id"] == "kwire"]
    assert [(row["api_name"], row["status"]) for row in from_client] == [("ApiVersions", "ok")] + [
        ("Metadata", "ok")
    ] * 5
    assert {row["file"] for row in found} == {interface}
    assert {row["link"] for row in found} == {"ethernet" if interface == "lo" else "raw"}
    assert {str(row["issues"]) for row in found} == {"[]"}
    assert reading.dropped == 0


def test_packets_of_loopback_are_no_copies_and_have_the_kernels_times(until: Until) -> None:
    with opened("lo", until) as reading:
        (port,) = asked(3)
        options = Options(ports=frozenset({port}))
        found = list(rows(reading, "packets", options))

    assert found
    assert {row["oddity"] for row in found} == {None}
    assert [row["number"] for row in found] == sorted({int(str(row["number"])) for row in found})
    assert [row["ts"] for row in found] == sorted(int(str(row["ts"])) for row in found)


def test_packets_that_do_not_fit_the_buffer_are_counted_and_told(until: Until) -> None:
    with opened("lo", until, buffer_size=1) as reading:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for _ in range(50):
                sender.sendto(bytes(1000), ("127.0.0.1", 9))
        found = list(reading.packets())

    assert all(isinstance(each, Packet) for each in found[:-1])
    last = found[-1]
    assert not isinstance(last, Packet)
    assert last.kind == "dropped"
    assert f"interface lo: {reading.dropped} of {reading.dropped + reading.count} packets were dropped" in last.detail


def test_reading_ends_when_it_should(until: Until) -> None:
    until.is_idle = True
    with opened("lo", until) as reading:
        assert [each for each in reading.packets() if isinstance(each, Packet)] == []


def test_an_interface_that_is_down_ends_with_a_row_that_says_so(until: Until) -> None:
    flags = {each.parent.name: int(each.read_text(), 16) for each in Path("/sys/class/net").glob("*/flags")}
    down = next((name for name, value in flags.items() if not value & 1), None)
    if down is None:
        pytest.skip("all interfaces are up")

    with opened(down, until) as reading:
        (row,) = rows(reading)
    assert row["status"] == "truncated"
    assert f"interface {down} is down: what follows is not read" in str(row["issues"])


def test_an_interface_that_does_not_exist_is_told_with_those_that_do(until: Until) -> None:
    opened("lo", until).close()

    with pytest.raises(LiveError, match=r"there is no interface nope0; there are any, .*lo"):
        Live("nope0")


@pytest.mark.skipif(not hasattr(socket, "AF_PACKET"), reason="only Linux has raw sockets of this kind")
def test_without_permission_it_says_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(socket, "socket", refuse)

    with pytest.raises(
        LiveError, match=r"root, or the capability CAP_NET_RAW.*tcpdump -i lo -U -w - tcp \| kwire decode"
    ):
        Live("lo")


def test_elsewhere_it_says_which_tool_to_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "AF_PACKET", raising=False)
    monkeypatch.setattr(sys, "platform", "darwin")

    with pytest.raises(
        LiveError, match=r"Linux only, and this is darwin; .*tcpdump -i en0 -U -w - tcp \| kwire decode -"
    ):
        Live("en0")
