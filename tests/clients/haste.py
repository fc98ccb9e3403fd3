"""Broker configurations under which share groups are quick to watch."""

from __future__ import annotations

#: The shortest locks, and heartbeats that follow each other: an assignment comes with the second one.
HASTE = {
    "group.share.min.record.lock.duration.ms": 1_000,
    "group.share.min.heartbeat.interval.ms": 100,
    "group.share.heartbeat.interval.ms": 100,
}
