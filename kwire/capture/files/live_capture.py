"""Live capture: packets of a network interface, by a raw socket of Linux. Source: packet(7).

The kernel stores unread packets in a buffer of limited size. Packets that do not fit are dropped, counted and reported.
"""

from __future__ import annotations

import errno
import select
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Self

from kwire.capture.files.source import KeyLogSink
from kwire.capture.model import NO_PACKET, CaptureIssue, LiveError, NoPacket, Packet

ANY = "any"
BUFFER_SIZE = 64 * 1024 * 1024
# Larger than any packet, large offloaded ones included; of a larger one, only the beginning is stored.
PACKET_SIZE_MAX = 1024 * 1024
# How often, and how long each time, to test whether the kernel records the times of packets.
_PROBES_MAX = 200
_PROBE_SECONDS = 0.002
# How long to wait for a packet before `should_end` is called again.
_WAIT_SECONDS = 0.2

_ETH_P_ALL = 3
_SOL_PACKET, _PACKET_STATISTICS = 263, 6
_SO_RCVBUFFORCE = getattr(socket, "SO_RCVBUFFORCE", 33)
_SO_TIMESTAMPNS = getattr(socket, "SO_TIMESTAMPNS", 35)
_OUTGOING = 4
_LOOPBACK = 772
# Link types of captures by hardware type (ARPHRD). For other types the kernel removes the link header.
_LINKS = {1: 1, _LOOPBACK: 1, 519: 101, 65534: 101}
_RAW_IP = 101
_IP = frozenset({0x0800, 0x86DD})


class LiveCapture:
    """An open interface. The kernel stores its packets from the time of opening."""

    def __init__(
        self,
        interface: str,
        *,
        should_end: Callable[[], bool] = lambda: False,
        on_idle: Callable[[], None] = lambda: None,
        buffer_size: int = BUFFER_SIZE,
    ) -> None:
        """Open the interface; `any` means all interfaces.

        Args: should_end: called before every packet, and regularly while there are none.
            on_idle: called when no packet is available.
        Raises: LiveError.
        """
        self.name = interface
        self.count = 0
        """Number of packets that were read."""
        self.dropped = 0
        """Number of packets that the kernel dropped, until the last call of `count_dropped`."""
        self._should_end = should_end
        self._on_idle = on_idle
        self._socket, self._link = _open_interface(interface, buffer_size)
        self._ts = time.time_ns()

    def packets(self, keys: KeyLogSink | None = None) -> Iterator[Packet | CaptureIssue | NoPacket]:
        """Yield the packets since the interface was opened, until `should_end`; then report dropped packets.

        Args: keys: not used; an interface has no secrets.
        """
        buffer = memoryview(bytearray(PACKET_SIZE_MAX))
        try:
            while not self._should_end():
                packet = self._read_packet(buffer)
                if packet is not None:
                    yield packet
                if packet is NO_PACKET:
                    self._on_idle()
                    select.select([self._socket], [], [], _WAIT_SECONDS)
        except OSError as error:
            if error.errno not in {errno.ENETDOWN, errno.ENODEV, errno.ENXIO}:
                raise
            yield CaptureIssue("interface", f"interface {self.name} is down: what follows is not read", 0, self._ts)
        self.count_dropped()
        if self.dropped:
            detail = f"interface {self.name}: {self.dropped} of {self.dropped + self.count} packets were dropped"
            yield CaptureIssue("dropped", f"{detail} since they came faster than they were read", 0, self._ts)

    def count_dropped(self) -> int:
        """Return how many packets the kernel has dropped so far."""
        # The kernel resets its counter with each call.
        self.dropped += struct.unpack("II", self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))[1]
        return self.dropped

    def close(self) -> None:
        """Close the interface."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read_packet(self, buffer: memoryview) -> Packet | NoPacket | None:
        """Read the next packet, if there is one; None if it is a duplicate or not IP."""
        try:
            size, ancillary, _, sender = self._socket.recvmsg_into([buffer], 64, socket.MSG_DONTWAIT | socket.MSG_TRUNC)
        except BlockingIOError:
            return NO_PACKET
        _, protocol, kind, hardware, _ = sender
        if kind == _OUTGOING and hardware == _LOOPBACK:
            # On loopback each packet comes twice: when it is sent, and when it is received.
            return None
        if self._link == _RAW_IP and protocol not in _IP:
            return None
        self.count += 1
        self._ts = _kernel_time(ancillary)
        return Packet(self.count, self._ts, self._link, bytes(buffer[: min(size, len(buffer))]), size)


def _open_interface(interface: str, buffer_size: int) -> tuple[socket.socket, int]:
    """Open the socket; return it with the link type of its packets."""
    if not hasattr(socket, "AF_PACKET"):
        raise LiveError(
            f"interfaces can be read on Linux only, and this is {sys.platform}; use a capture tool of this system: "
            f"tcpdump -i {interface} -U -w - tcp | kwire decode -"
        )
    try:
        with _kernel_timestamps():
            return _open_socket(interface, buffer_size)
    except OSError as error:
        raise LiveError(_error_text(interface, error)) from error


def _open_socket(interface: str, buffer_size: int) -> tuple[socket.socket, int]:
    # Protocol 0 receives nothing. With another one, packets of all interfaces would come until the socket is bound.
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    try:
        hardware = _bind_socket(raw, interface) if interface != ANY else -1
        link = _LINKS.get(hardware, _RAW_IP)
        if hardware not in _LINKS:
            raw.close()
            raw = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ETH_P_ALL) if hardware < 0 else 0)
            if hardware >= 0:
                _bind_socket(raw, interface)
        _configure_socket(raw, buffer_size)
    except OSError:
        raw.close()
        raise
    return raw, link


@contextmanager
def _kernel_timestamps() -> Iterator[None]:
    """Make the kernel record the times of packets while the context is active.

    The kernel starts it a moment after the first socket requests it. Until then a packet gets the time at which it is
    read, which may be later than the times of packets after it. A datagram on loopback shows which time is used.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        # Without loopback this cannot be tested, and the first packets may seem late.
        with suppress(OSError):
            probe.bind(("127.0.0.1", 0))
            probe.settimeout(_PROBE_SECONDS)
            for _ in range(_PROBES_MAX):
                probe.sendto(b"probe", probe.getsockname())
                select.select([], [], [], _PROBE_SECONDS)
                before = time.time_ns()
                if _kernel_time(probe.recvmsg(16, 64)[1]) < before:
                    break
        yield


def _bind_socket(opened: socket.socket, interface: str) -> int:
    """Bind the socket to the interface; return its hardware type."""
    opened.bind((interface, _ETH_P_ALL))
    hardware: int = opened.getsockname()[3]
    return hardware


def _configure_socket(opened: socket.socket, buffer_size: int) -> None:
    try:
        opened.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, buffer_size)
    except PermissionError:
        # Only an administrator may exceed the limit of the system.
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_size)
    opened.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)


def _error_text(interface: str, error: OSError) -> str:
    if isinstance(error, PermissionError):
        return (
            f"interface {interface} may not be read: that needs root, or the capability CAP_NET_RAW "
            f"(setcap cap_net_raw+ep on the Python that runs this); or use another program for the capture: "
            f"sudo tcpdump -i {interface} -U -w - tcp | kwire decode -"
        )
    if error.errno == errno.ENODEV:
        names = ", ".join([ANY, *(name for _, name in socket.if_nameindex())])
        return f"there is no interface {interface}; there are {names}"
    return f"interface {interface} cannot be read: {error.strerror or error}"


def _kernel_time(ancillary: list[tuple[int, int, bytes]]) -> int:
    """Return the time at which the kernel received the packet, in nanoseconds."""
    for level, kind, value in ancillary:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS and len(value) == struct.calcsize("ll"):
            seconds, fraction = struct.unpack("ll", value)
            return int(seconds * 1_000_000_000 + fraction)
    return time.time_ns()
