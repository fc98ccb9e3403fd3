"""The socket of the control over HTTP, and its URL."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from mockbroker.net.node_listeners import connectable_host

if TYPE_CHECKING:
    from mockbroker.control.options import ControlOptions


def bind_control(options: ControlOptions) -> socket.socket:
    """A socket at the address of a control. Raises: OSError that names it."""
    host, port = options.host, options.port
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        sock = socket.socket(family, kind, protocol)
    except OSError as error:
        raise OSError(error.errno, f"control: cannot listen on {host}:{port}: {error.strerror}") from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise OSError(error.errno, f"control: cannot listen on {host}:{port}: {error.strerror}") from error
    return sock


def control_url(sock: socket.socket) -> str:
    """The base of all paths, "http://127.0.0.1:9090"."""
    host, port = sock.getsockname()[:2]
    host = connectable_host(host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
