"""The threads of clusters and proxies in this process."""

from __future__ import annotations

import threading


def cluster_threads() -> set[threading.Thread]:
    """Those that run now; other tests in this process may have some too, so compare with the set from before."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("mockbroker")}
