"""Random dynamic settings of topics, groups, brokers and all brokers, on a cluster without sockets.

Every broker describes a topic and a group by a model: their own value, else that of the broker, of all brokers, of the
start, or Kafka's default; and records are refused by the limit of the broker that leads.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

import msgspec

from kwire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kwire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from mockbroker.state.metadata.configs import ResourceKind
from tests.support.brokers.broker import Broker
from tests.support.brokers.producer import produce, record_batch

_NODES = 3
_STEPS = 40
#: What a topic or group inherits: its kind and name, its key, the broker's key, and Kafka's default.
_INHERITED = (
    (ResourceKind.TOPIC, "t", "retention.ms", "log.retention.ms", "604800000"),
    (ResourceKind.TOPIC, "t", "max.message.bytes", "message.max.bytes", "1048588"),
    (ResourceKind.TOPIC, "t", "min.cleanable.dirty.ratio", "log.cleaner.min.cleanable.ratio", "0.5"),
    (ResourceKind.GROUP, "g", "consumer.assignment.interval.ms", "group.consumer.assignment.interval.ms", "1000"),
    (ResourceKind.GROUP, "g", "share.assignment.interval.ms", "group.share.assignment.interval.ms", "1000"),
)
_LIMIT = "max.message.bytes"
_SIZE = 500

_Given = dict[tuple[int, str, str], str]


def attack(rng: random.Random, *, seconds: float) -> Iterator[str]:
    """Play rounds, each on a new cluster."""
    end = time.monotonic() + seconds
    while True:
        static = {broker_key: _value(rng, broker_key) for *_, broker_key, _ in _INHERITED if rng.random() < 0.3}
        broker = Broker(nodes=_NODES, topics={"t": _NODES}, config=static)
        given: _Given = {}
        for _ in range(_STEPS):
            yield from _change(rng, broker, given)
        for node in range(_NODES):
            yield from _compare(broker, node, given, static)
        for partition in range(_NODES):
            yield from _write(broker, partition, given, static)
        if time.monotonic() >= end:
            return


def _value(rng: random.Random, key: str) -> str:
    if key.endswith("ratio"):
        return rng.choice(("0.1", "0.25", "0.75"))
    low, high = (100, 5_000) if "bytes" in key else (0, 10_000) if "assignment" in key else (-1, 10**9)
    return str(rng.randint(low, high))


def _change(rng: random.Random, broker: Broker, given: _Given) -> Iterator[str]:
    kind, name, key, broker_key, _ = rng.choice(_INHERITED)
    brokers = ((ResourceKind.BROKER, one) for one in ("", *map(str, range(_NODES))))
    resource = rng.choice(((kind, name), *brokers))
    changed, node = key, rng.randrange(_NODES)
    if resource[0] is ResourceKind.BROKER:
        changed, node = broker_key, int(resource[1] or node)
    is_deleted = rng.random() < 0.25
    value = None if is_deleted else _value(rng, changed)
    row = AlterConfigsResource(*resource, [AlterableConfig(changed, int(is_deleted), value)])
    code = _send(broker, node, IncrementalAlterConfigsRequest([row]), 1).responses[0].error_code
    if code:
        yield f"{resource} {changed}={value} is refused with {code}"
    elif value is None:
        given.pop((*resource, changed), None)
    else:
        given[(*resource, changed)] = value


def _expected(node: int, at: int, given: _Given, static: dict[str, str]) -> str:
    kind, name, key, broker_key, default = _INHERITED[at]
    places = ((kind, name, key), (ResourceKind.BROKER, str(node), broker_key), (ResourceKind.BROKER, "", broker_key))
    return next((given[place] for place in places if place in given), static.get(broker_key, default))


def _compare(broker: Broker, node: int, given: _Given, static: dict[str, str]) -> Iterator[str]:
    for at, (kind, name, key, _, _) in enumerate(_INHERITED):
        request = DescribeConfigsRequest([DescribeConfigsResource(kind, name, (key,))], True)
        row = _send(broker, node, request, 4).results[0].configs[0]
        wanted = _expected(node, at, given, static)
        if float(row.value) != float(wanted):
            yield f"node {node} describes {name} {key} as {row.value}, not {wanted}"
        if row.synonyms and row.synonyms[0].source != row.config_source:
            yield f"node {node} describes {name} {key} from {row.config_source}, not {row.synonyms[0].source}"


def _write(broker: Broker, partition: int, given: _Given, static: dict[str, str]) -> Iterator[str]:
    leader = broker.leader("t", partition)
    at = next(index for index, row in enumerate(_INHERITED) if row[2] == _LIMIT)
    limit = int(_expected(leader, at, given, static))
    data = record_batch(size=_SIZE, now_ms=broker.now_ms)
    answer = _send(broker, leader, produce(broker.topic("t"), data, partition=partition, acks=1), 13)
    code = answer.responses[0].partition_responses[0].error_code
    wanted = 10 if len(data) > limit else 0
    if code != wanted:
        yield f"{len(data)} bytes for node {leader} with the limit {limit} get the code {code}, not {wanted}"


def _send(broker: Broker, node: int, request: msgspec.Struct, version: int) -> Any:
    return broker.call(request, version, connection=f"n{node}", node=node)
