"""The state of a cluster as text for the report of a failing test, and the paths of its files."""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from mockbroker.journal.history_report import describe_exchange

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


def artifact_path(item: pytest.Item, suffix: str) -> Path:
    """The path of a file of a test in the folder of `--kafka-artifacts`, which is created."""
    folder = Path(item.config.getoption("--kafka-artifacts"))
    folder.mkdir(parents=True, exist_ok=True)
    digest = sha256(item.nodeid.encode()).hexdigest()[:8]
    stem = re.sub(r"[^\w.-]+", "-", item.nodeid).strip("-")[-_STEM_MAX:]
    return folder / f"{stem}-{digest}{suffix}"
