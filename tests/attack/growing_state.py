"""Many topics, groups, producers, configurations, ACLs and more: the work for the next one stays the same.

The work is counted in instructions of Python, for the first ones and for those after many.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from kwire import from_json
from tests.support.brokers.broker import Broker
from tests.support.work_count import count_work

#: How many exist at the first measurement and at the second. Then the second may be larger by this factor.
_FEW, _MANY, _FACTOR = 10, 300, 1.3
#: In each measurement; the median counts, as some requests do periodic work.
_MEASURED = 5
_CONFIG = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "delegation.token.secret.key": "secret",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "share.coordinator.state.topic.num.partitions": "3",
}
Requests = Callable[[int], tuple[str, int, dict[str, Any]]]


def _create_topic(number: int) -> tuple[str, int, dict[str, Any]]:
    topic = {
        "name": f"t{number}",
        "numPartitions": 1,
        "replicationFactor": 1,
        "configs": [{"name": "retention.ms", "value": "9999"}],
    }
    return "CreateTopics", 7, {"topics": [topic], "timeoutMs": 1000}


def _delete_topic(number: int) -> tuple[str, int, dict[str, Any]]:
    return "DeleteTopics", 6, {"topics": [{"name": f"t{number}"}], "timeoutMs": 1000}


def _add_partition(number: int) -> tuple[str, int, dict[str, Any]]:
    topic = {"name": "grows", "count": number + 2, "assignments": None}
    return "CreatePartitions", 3, {"topics": [topic], "timeoutMs": 1000}


def _configure(kind: int, name: str, key: str) -> Requests:
    def make(number: int) -> tuple[str, int, dict[str, Any]]:
        change = {"name": key, "configOperation": 0, "value": "50000"}
        resource = {"resourceType": kind, "resourceName": f"{name}{number}", "configs": [change]}
        return "IncrementalAlterConfigs", 1, {"resources": [resource]}

    return make


def _set_quota(number: int) -> tuple[str, int, dict[str, Any]]:
    quota = {"key": "consumer_byte_rate", "value": 1000.0, "remove": False}
    entity = [{"entityType": "user", "entityName": f"u{number}"}]
    return "AlterClientQuotas", 1, {"entries": [{"entity": entity, "ops": [quota]}]}


def _create_acl(number: int) -> tuple[str, int, dict[str, Any]]:
    acl = {
        "resourceType": 2,
        "resourceName": f"a{number}",
        "resourcePatternType": 4 if number % 2 else 3,
        "principal": "User:u",
        "host": "*",
        "operation": 3,
        "permissionType": 3,
    }
    return "CreateAcls", 3, {"creations": [acl]}


def _create_token(_number: int) -> tuple[str, int, dict[str, Any]]:
    return "CreateDelegationToken", 3, {"renewers": [], "maxLifetimeMs": 10_000_000}


def _begin_producer(number: int) -> tuple[str, int, dict[str, Any]]:
    body = {"transactionalId": f"x{number}", "transactionTimeoutMs": 60_000, "producerId": -1, "producerEpoch": -1}
    return "InitProducerId", 4, body


def _join_classic(number: int) -> tuple[str, int, dict[str, Any]]:
    return (
        "JoinGroup",
        3,
        {
            "groupId": f"classic{number}",
            "sessionTimeoutMs": 10_000,
            "rebalanceTimeoutMs": 1000,
            "memberId": "",
            "protocolType": "consumer",
            "protocols": [{"name": "range", "metadata": ""}],
        },
    )


def _join_consumer(number: int) -> tuple[str, int, dict[str, Any]]:
    body = {"groupId": f"consumer{number}", "memberId": "m", "memberEpoch": 0, "rebalanceTimeoutMs": 5000}
    return "ConsumerGroupHeartbeat", 1, {**body, "subscribedTopicNames": ["one"], "topicPartitions": []}


def _join_share(number: int) -> tuple[str, int, dict[str, Any]]:
    body = {"groupId": f"share{number}", "memberId": "m", "memberEpoch": 0, "subscribedTopicNames": ["one"]}
    return "ShareGroupHeartbeat", 1, body


def _commit(number: int) -> tuple[str, int, dict[str, Any]]:
    partition = {"partitionIndex": 0, "committedOffset": 1}
    topics = [{"name": "one", "partitions": [partition]}]
    return "OffsetCommit", 8, {"groupId": f"offsets{number}", "generationIdOrMemberEpoch": -1, "topics": topics}


def _delete_group(number: int) -> tuple[str, int, dict[str, Any]]:
    return "DeleteGroups", 2, {"groupsNames": [f"offsets{number}"]}


#: In this order, as the last ones remove what the first ones have made.
_STEPS: dict[str, Requests] = {
    "topics": _create_topic,
    "partitions of a topic": _add_partition,
    "configurations of topics": _configure(2, "t", "retention.ms"),
    "configurations of groups": _configure(32, "g", "consumer.session.timeout.ms"),
    "client metrics": _configure(16, "m", "interval.ms"),
    "quotas": _set_quota,
    "ACLs": _create_acl,
    "delegation tokens": _create_token,
    "transactional ids": _begin_producer,
    "classic groups": _join_classic,
    "consumer groups": _join_consumer,
    "share groups": _join_share,
    "committed offsets": _commit,
    "deleted groups": _delete_group,
    "deleted topics": _delete_topic,
}


def attack(rng: random.Random, *, seconds: float) -> Iterator[str]:
    """Yield the kinds whose work grows."""
    end = time.monotonic() + seconds
    while True:
        broker = Broker(topics={"one": 1, "grows": 1}, config=_CONFIG)
        many = _MANY + rng.randrange(50)
        for kind, requests in _STEPS.items():
            yield from _measure(broker, kind, requests, many)
            if time.monotonic() >= end:
                return


def _measure(broker: Broker, kind: str, requests: Requests, many: int) -> Iterator[str]:
    few_work, many_work = [], []
    for number in range(many):
        request, version = _build(requests(number))
        if _FEW <= number < _FEW + _MEASURED:
            few_work.append(count_work(lambda: broker.call(request, version)))  # noqa: B023 - It is called at once.
        elif number >= many - _MEASURED:
            many_work.append(count_work(lambda: broker.call(request, version)))  # noqa: B023
        else:
            broker.call(request, version)
    first, last = (sorted(work)[_MEASURED // 2] for work in (few_work, many_work))
    if last > _FACTOR * first:
        yield f"{kind}: {first:,} instructions for one after {_FEW}, {last:,} after {many}"


def _build(described: tuple[str, int, dict[str, Any]]) -> tuple[msgspec.Struct, int]:
    name, version, body = described
    return from_json(f"{name}Request", version, body), version
