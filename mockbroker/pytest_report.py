"""The state of a cluster as text for the report of a failing test, and the paths of its files."""

from __future__ import annotations

import re
from hashlib import sha256
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from mockbroker.journal.history_report import describe_exchange
from mockbroker.net.capture_tap import CaptureTap

if TYPE_CHECKING:
    import pytest

    from mockbroker.cluster import Cluster

#: How many exchanges the report of a test shows.
SHOWN_MAX = 15
_STEM_MAX = 100


def describe_cluster(cluster: Cluster) -> str:
    """Seed, faults and the last exchanges of a cluster."""
    exchanges = cluster.exchanges()
    shown = exchanges[-SHOWN_MAX:]
    lines = [f"seed {cluster.seed} (repeat with --kafka-seed {cluster.seed})"]
    faults = cluster.faults.list() if cluster.has_faults else []
    lines += [f"fault {fault.name}: acted {fault.hits} times" for fault in faults]
    lines.append(f"the last {len(shown)} of {len(exchanges)} exchanges:")
    names = cluster.journal.topic_names
    lines += [f"  {describe_exchange(exchange, names)}" for exchange in shown]
    return "\n".join(lines)


def list_history(cluster: Cluster) -> str:
    """All stored exchanges, one line each."""
    names = cluster.journal.topic_names
    lines = [describe_exchange(exchange, names) for exchange in cluster.exchanges()]
    return "\n".join([f"seed {cluster.seed}", *lines, ""])


def write_history_capture(cluster: Cluster, path: Path) -> None:
    """Write the stored exchanges of a cluster as a pcapng file; for a cluster whose sockets nobody recorded.

    Each connection is one TCP conversation with the frames of its exchanges, at their times. What the history does not
    keep is missing: raw SASL tokens, and frames of exchanges that it has dropped.
    """
    servers = {node.node_id: _parse_address(next(iter(node.endpoints.values()))) for node in cluster.nodes()}
    frames = [
        (at_ns, exchange, is_request, frame)
        for exchange in cluster.exchanges()
        for at_ns, is_request, frame in (
            (exchange.arrived_ns, True, exchange.request_frame),
            (exchange.departed_ns, False, exchange.response_frame),
        )
        if frame is not None and at_ns
    ]
    tap = CaptureTap(path)
    connections: set[int] = set()
    for at_ns, exchange, is_request, frame in sorted(frames, key=lambda row: row[0]):
        number = exchange.connection_id
        if number not in connections:
            connections.add(number)
            client, server = _parse_address(exchange.client), servers[exchange.node_id]
            tap.record_connection(number, client, server, at_ns=at_ns, encrypted=False)
        data = len(frame).to_bytes(4, "big") + bytes(frame)
        (tap.record_received if is_request else tap.record_sent)(number, data, at_ns=at_ns)
    tap.close()


def _parse_address(text: str) -> tuple[str, int]:
    """The IP address and port of HOST:PORT; a host that is a name counts as this machine."""
    host, _, port = text.rpartition(":")
    host = host.strip("[]")
    try:
        ip_address(host)
    except ValueError:
        host = "127.0.0.1"
    return host, int(port)


def artifact_path(item: pytest.Item, suffix: str) -> Path:
    """The path of a file of a test in the folder of `--kafka-artifacts`, which is created."""
    folder = Path(item.config.getoption("--kafka-artifacts"))
    folder.mkdir(parents=True, exist_ok=True)
    digest = sha256(item.nodeid.encode()).hexdigest()[:8]
    stem = re.sub(r"[^\w.-]+", "-", item.nodeid).strip("-")[-_STEM_MAX:]
    return folder / f"{stem}-{digest}{suffix}"
