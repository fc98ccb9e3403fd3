"""The modes of the kill test: how the cluster is started, which clients it has, and when its process is killed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

_SMALL_SEGMENTS = {"internal.segment.bytes": "20000"}
_COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": "0",
    "segment.ms": "200",
    **_SMALL_SEGMENTS,
}


class Mode(NamedTuple):
    """arguments: of the command. factor: of replication.

    copiers, sharers: clients of each kind. has_keys: a producer to a compacted topic. changes_topics: a client creates
    and deletes topics. configs: of topics. pattern: of paths after whose appearance the process is killed, None for
    random moments. fills_disk: the disk is small, and full now and then.
    """

    arguments: tuple[str, ...] = ()
    factor: int = 1
    copiers: int = 1
    sharers: int = 1
    has_keys: bool = False
    changes_topics: bool = False
    configs: Mapping[str, str] = {}
    compacted: Mapping[str, str] = _COMPACTED
    pattern: re.Pattern[str] | None = None
    fills_disk: bool = False


_REAL = ("--nodes", "3", "--set", "mockbroker.replication=real")
MODES = {
    "node": Mode(),
    "nodes": Mode(("--nodes", "3"), factor=3),
    "real": Mode(_REAL, factor=3, changes_topics=True),
    "fsync": Mode(("--fsync",)),
    "transactions": Mode(copiers=4, sharers=0),
    "share": Mode(copiers=0, sharers=4),
    "compaction": Mode(
        ("--set", "log.cleaner.backoff.ms=50"), has_keys=True, pattern=re.compile(r"\.(cleaned|swap|deleted)$")
    ),
    "snapshot": Mode(
        ("--set", "metadata.log.max.record.bytes.between.snapshots=1500"),
        changes_topics=True,
        pattern=re.compile(r"__cluster_metadata-0/.*\.checkpoint(\.tmp)?$"),
    ),
    "topics": Mode(_REAL, factor=3, changes_topics=True, pattern=re.compile(r"node-\d+/[^/]+-\d+$")),
    "roll": Mode(configs=_SMALL_SEGMENTS, pattern=re.compile(r"\d{20}\.(log|index|snapshot)(\.tmp)?$")),
    "full": Mode(configs=_SMALL_SEGMENTS, fills_disk=True),
}
