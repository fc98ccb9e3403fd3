"""Packets of a network interface as they come, by a raw socket of Linux. Source: packet(7).

The kernel keeps what is not read yet in a buffer of bounded size; what does not fit there is dropped, counted and told.
"""

from __future__ import annotations

import errno
import select
import socket
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from kwire.capture.values import LiveError, Packet, Trouble

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from kwire.capture.keylog import KeyLog

ANY = "any"
BUFFER_SIZE = 64 * 1024 * 1024
# More than any packet has, large offloaded ones included; of more, only the beginning is kept.
PACKET_SIZE_MAX = 1024 * 1024
# How often, and how long each time, it is looked whether the kernel notes when packets come.
_PROBES_MAX = 200
_PROBE_SECONDS = 0.002
# How long nothing may come until somebody asks whether to go on.
_WAIT_SECONDS = 0.2

_ETH_P_ALL = 3
_SOL_PACKET, _PACKET_STATISTICS = 263, 6
_SO_RCVBUFFORCE = getattr(socket, "SO_RCVBUFFORCE", 33)
_SO_TIMESTAMPNS = getattr(socket, "SO_TIMESTAMPNS", 35)
_OUTGOING = 4
_LOOPBACK = 772
# Link types of captures by kind of hardware (ARPHRD). Of other kinds the kernel takes the link's header off.
_LINKS = {1: 1, _LOOPBACK: 1, 519: 101, 65534: 101}
_RAW_IP = 101
_IP = frozenset({0x0800, 0x86DD})


class Live:
    """An interface that is being read. It is open, and its packets are kept, from the beginning on."""

    def __init__(
        self,
        interface: str,
        *,
        should_end: Callable[[], bool] = lambda: False,
        idle: Callable[[], None] = lambda: None,
        buffer_size: int = BUFFER_SIZE,
    ) -> None:
        """Open it; `any` stands for all interfaces.

        Args: should_end: asked before every packet, and now and then while none comes. idle: called when none is there.
        Raises: LiveError.
        """
        self.name = interface
        self.count = 0
        """Packets that were read."""
        self.dropped = 0
        """Packets that the kernel had to drop, as far as it was asked."""
        self._should_end = should_end
        self._idle = idle
        self._socket, self._link = _opened(interface, buffer_size)
        self._ts = time.time_ns()

    def packets(self, keys: KeyLog | None = None) -> Iterator[Packet | Trouble]:
        """The packets from the opening on, until it is time to end. What was dropped is told then.

        Args: keys: of no use here, since interfaces tell no secrets.
        """
        buffer = memoryview(bytearray(PACKET_SIZE_MAX))
        try:
            while not self._should_end():
                packet = self._next(buffer)
                if packet is not None:
                    yield packet
        except OSError as error:
            if error.errno not in {errno.ENETDOWN, errno.ENODEV, errno.ENXIO}:
                raise
            yield Trouble("interface", f"interface {self.name} is down: what follows is not read", 0, self._ts)
        self.look_for_drops()
        if self.dropped:
            detail = f"interface {self.name}: {self.dropped} of {self.dropped + self.count} packets were dropped"
            yield Trouble("dropped", f"{detail} since they came faster than they were read", 0, self._ts)

    def look_for_drops(self) -> int:
        """How many packets were dropped until now."""
        # The kernel counts from the last time that it was asked.
        self.dropped += struct.unpack("II", self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))[1]
        return self.dropped

    def close(self) -> None:
        """Give the interface back."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _next(self, buffer: memoryview) -> Packet | None:
        """The next packet; None when none is there, or when it is not wanted."""
        try:
            size, extras, _, address = self._socket.recvmsg_into([buffer], 64, socket.MSG_DONTWAIT | socket.MSG_TRUNC)
        except BlockingIOError:
            self._idle()
            select.select([self._socket], [], [], _WAIT_SECONDS)
            return None
        _, protocol, kind, hardware, _ = address
        if kind == _OUTGOING and hardware == _LOOPBACK:
            # On loopback each packet comes twice: as it is sent, and as it is received.
            return None
        if self._link == _RAW_IP and protocol not in _IP:
            return None
        self.count += 1
        self._ts = _time_of(extras)
        return Packet(self.count, self._ts, self._link, bytes(buffer[: min(size, len(buffer))]), size)


def _opened(interface: str, buffer_size: int) -> tuple[socket.socket, int]:
    """The socket, and the link type of what it gives."""
    if not hasattr(socket, "AF_PACKET"):
        raise LiveError(
            f"interfaces can be read on Linux only, and this is {sys.platform}; let a tool of this system capture: "
            f"tcpdump -i {interface} -U -w - tcp | kwire decode -"
        )
    try:
        with _times_noted():
            return _open(interface, buffer_size)
    except OSError as error:
        raise LiveError(_why(interface, error)) from error


def _open(interface: str, buffer_size: int) -> tuple[socket.socket, int]:
    # Protocol 0 receives nothing: until it is bound, packets of other interfaces would come.
    found = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    try:
        hardware = _bind(found, interface) if interface != ANY else -1
        link = _LINKS.get(hardware, _RAW_IP)
        if hardware not in _LINKS:
            found.close()
            found = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ETH_P_ALL) if hardware < 0 else 0)
            if hardware >= 0:
                _bind(found, interface)
        _prepare(found, buffer_size)
    except OSError:
        found.close()
        raise
    return found, link


@contextmanager
def _times_noted() -> Iterator[None]:
    """While this holds, the kernel notes when packets come.

    It begins to a moment after the first socket asks for it. Until then a packet gets the time at which it is read,
    which may be later than those of packets behind it. A datagram on loopback shows which of the two it is.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        # Without loopback there is no telling, and the first packets may seem late.
        with suppress(OSError):
            probe.bind(("127.0.0.1", 0))
            probe.settimeout(_PROBE_SECONDS)
            for _ in range(_PROBES_MAX):
                probe.sendto(b"when", probe.getsockname())
                select.select([], [], [], _PROBE_SECONDS)
                before = time.time_ns()
                if _time_of(probe.recvmsg(16, 64)[1]) < before:
                    break
        yield


def _bind(opened: socket.socket, interface: str) -> int:
    """Receive the interface's packets; the kind of its hardware."""
    opened.bind((interface, _ETH_P_ALL))
    hardware: int = opened.getsockname()[3]
    return hardware


def _prepare(opened: socket.socket, buffer_size: int) -> None:
    try:
        opened.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, buffer_size)
    except PermissionError:
        # Beyond the system's limit only an administrator may go.
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_size)
    opened.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)


def _why(interface: str, error: OSError) -> str:
    if isinstance(error, PermissionError):
        return (
            f"interface {interface} may not be read: that needs root, or the capability CAP_NET_RAW "
            f"(setcap cap_net_raw+ep on the Python that runs this); or let another program capture: "
            f"sudo tcpdump -i {interface} -U -w - tcp | kwire decode -"
        )
    if error.errno == errno.ENODEV:
        names = ", ".join([ANY, *(name for _, name in socket.if_nameindex())])
        return f"there is no interface {interface}; there are {names}"
    return f"interface {interface} cannot be read: {error.strerror or error}"


def _time_of(extras: list[tuple[int, int, bytes]]) -> int:
    """When the kernel took the packet, in nanoseconds."""
    for level, kind, value in extras:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS and len(value) == struct.calcsize("ll"):
            seconds, fraction = struct.unpack("ll", value)
            return int(seconds * 1_000_000_000 + fraction)
    return time.time_ns()
