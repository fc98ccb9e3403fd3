"""The work for a topic does not depend on how many there are, in memory and in a data directory."""

from __future__ import annotations

import random
from statistics import median

import pytest

from kwire import from_json
from mockbroker.log_directory.simulated_files import SimulatedFiles
from tests.support.brokers.broker import Broker
from tests.support.stored.stored_broker import StoredBroker
from tests.support.work_count import count_work

_CONFIG = {"retention.ms": "9999", "min.insync.replicas": "1"}


def make_broker(kind: str) -> Broker:
    if kind == "stored":
        return StoredBroker(SimulatedFiles(random.Random(1)), nodes=3, snapshot_after=1 << 30)
    return Broker(nodes=3, config={"mockbroker.replication": kind})


def create(broker: Broker, first: int, count: int) -> int:
    """Create topics by one request; returns the work."""
    topics = [
        {
            "name": f"t{number}",
            "numPartitions": 1,
            "replicationFactor": 1,
            "configs": [{"name": name, "value": text} for name, text in _CONFIG.items()],
        }
        for number in range(first, first + count)
    ]
    request = from_json("CreateTopicsRequest", 7, {"topics": topics, "timeoutMs": 1000})
    return count_work(lambda: broker.call(request, 7))


def delete(broker: Broker, number: int) -> int:
    request = from_json("DeleteTopicsRequest", 6, {"topics": [{"name": f"t{number}"}], "timeoutMs": 1000})
    return count_work(lambda: broker.call(request, 6))


@pytest.mark.parametrize("kind", ["immediate", "real", "stored"])
def test_a_topic_costs_the_same_after_many(kind: str) -> None:
    broker = make_broker(kind)
    create(broker, 0, 10)
    few = create(broker, 10, 10)
    create(broker, 20, 400)
    many = create(broker, 420, 10)

    assert many < 1.3 * few
    # Deletions among many, and among few.
    deleted = [delete(broker, number) for number in range(5)]
    for number in range(5, 420):
        broker.metadata.delete_topic(broker.topic(f"t{number}"))
    broker.advance(0)
    delete(broker, 420)
    assert median(deleted) < 1.3 * median(delete(broker, number) for number in range(421, 426))
