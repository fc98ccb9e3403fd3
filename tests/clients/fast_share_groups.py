"""Broker configurations with short locks and heartbeat intervals for share groups."""

from __future__ import annotations

#: The shortest locks, and frequent heartbeats: an assignment is in the response to the second one.
FAST_SHARE_GROUPS = {
    "group.share.min.record.lock.duration.ms": 1_000,
    "group.share.min.heartbeat.interval.ms": 100,
    "group.share.heartbeat.interval.ms": 100,
}
