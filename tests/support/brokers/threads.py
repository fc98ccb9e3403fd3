"""The threads of clusters and proxies in this process."""

from __future__ import annotations

import threading

#: How long a thread may take to end after its cluster has. A limit of hanging, not of speed.
_END_S = 60.0


def cluster_threads() -> set[threading.Thread]:
    """Those that run now; other tests in this process may have some too, so compare with the set from before."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("mockbroker")}


def threads_that_stay(before: set[threading.Thread]) -> set[threading.Thread]:
    """Those that were started after `before` and do not end.

    A cluster stops in bounded time: on a busy machine a thread of it may end a moment later.
    """
    started = cluster_threads() - before
    for thread in started:
        thread.join(_END_S)
    return {thread for thread in started if thread.is_alive()}
