"""A TCP relay on another loopback address, so that a client connects to a broker by a name that it does not have."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_PART_BYTES = 65_536


@contextmanager
def relay(host: str, target: tuple[str, int]) -> Iterator[int]:
    """Forward connections to `target`. Returns: the port on `host`. Raises: OSError for a foreign host."""
    with socket.create_server((host, 0)) as listener:
        opened: list[socket.socket] = []
        thread = threading.Thread(target=_accept, args=(listener, target, opened), name="certify-relay", daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            for each in opened:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()
            thread.join(1)


def _accept(listener: socket.socket, target: tuple[str, int], opened: list[socket.socket]) -> None:
    with suppress(OSError):  # The listener is closed.
        while True:
            client, _ = listener.accept()
            broker = socket.create_connection(target)
            opened += (client, broker)
            for source, sink in ((client, broker), (broker, client)):
                threading.Thread(target=_copy, args=(source, sink), name="certify-relay", daemon=True).start()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):  # One of both ends is closed.
        while part := source.recv(_PART_BYTES):
            sink.sendall(part)
        sink.shutdown(socket.SHUT_WR)
