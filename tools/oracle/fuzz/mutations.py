"""Random changes of a request body: nulls, empty and double rows, limits of types, unknown names."""

from __future__ import annotations

import copy
import random
from typing import Any, NamedTuple

from kwire.schema.spec import INTEGER_RANGES, FieldSpec, MessageSpec
from tools.oracle.fuzz.script_names import ZERO_UUID

Json = Any

#: Fields whose pool has all values that a broker survives in a short time, and that do not affect other sequences.
PROTECTED = frozenset(
    {
        *(
            "maxWaitMs",
            "sessionTimeoutMs",
            "rebalanceTimeoutMs",
            "timeoutMs",
            "validateOnly",
            "brokerId",
            "controllerId",
        ),
        *("WriteShareGroupState.firstOffset", "WriteShareGroupState.lastOffset"),
        *("numPartitions", "replicationFactor", "count", "groupId", "upgradeType", "maxVersionLevel", "feature"),
        *("resourceType", "resourceName", "resourceNameFilter", "entityName", "entityType", "entity", "iterations"),
        *("transactionTimeoutMs", "creations", "filters", "featureUpdates", "resourceTypes", "principalFilter"),
        *("UpdateFeatures.allowDowngrade", "AlterClientQuotas.entries", "DescribeTopicPartitions.topics"),
        *("CreateTopics.name", "DeleteTopics.name", "DeleteTopics.topicNames", "CreatePartitions.name"),
        *("Produce.acks", "StreamsGroupHeartbeat.replicationFactor", "StreamsGroupHeartbeat.partitions"),
        *("DescribeConfigs.resources", "AlterConfigs.configs", "IncrementalAlterConfigs.configs", "CreateAcls.host"),
        *("AlterUserScramCredentials.name", "CreateTopics.partitionIndex", "CreateTopics.assignments"),
        *("AlterConfigs.resources", "AddPartitionsToTxn.transactions", "transactionalIdPattern", "clusterId"),
        *("AlterPartitionReassignments.topics", "ElectLeaders.topicPartitions"),
    }
)


class _Place(NamedTuple):
    """A value in a body: where it is, and its field."""

    parent: dict[str, Json]
    field: FieldSpec


def mutate(spec: MessageSpec, version: int, body: dict[str, Json], rng: random.Random) -> dict[str, Json]:
    """A copy of the body with one changed field."""
    changed = copy.deepcopy(body)
    api = spec.name.removesuffix("Request")
    places = [place for place in _places(spec.fields, version, changed) if not _is_protected(api, place.field)]
    if places:
        parent, field = rng.choice(places)
        parent[field.json_name] = _changed_value(field, version, parent[field.json_name], rng)
    return changed


def _is_protected(api: str, field: FieldSpec) -> bool:
    return field.json_name in PROTECTED or f"{api}.{field.json_name}" in PROTECTED


def _places(fields: tuple[FieldSpec, ...], version: int, tree: dict[str, Json]) -> list[_Place]:
    places: list[_Place] = []
    for field in fields:
        if field.json_name not in tree:
            continue
        places.append(_Place(tree, field))
        value = tree[field.json_name]
        for row in value if isinstance(value, list) else [value]:
            if field.struct is not None and isinstance(row, dict):
                places.extend(_places(field.fields, version, row))
    return places


def _changed_value(field: FieldSpec, version: int, value: Json, rng: random.Random) -> Json:
    nullable = version in field.nullable_versions
    if nullable and rng.random() < 0.3:
        return None
    if field.is_array:
        rows = list(value or ())
        return rng.choice([[], rows + rows[:1], rows + rows[-1:], rows[:1] * 3])
    if field.struct is not None:
        return value
    return _changed_scalar(field.type, value, rng)


def _changed_scalar(kind: str, value: Json, rng: random.Random) -> Json:
    if kind == "bool":
        return not value
    if kind in INTEGER_RANGES:
        low, high = INTEGER_RANGES[kind]
        near = [value + 1, value - 1] if isinstance(value, int) and low < value < high else []
        return rng.choice([*([-1, -2] if low < 0 else []), 0, 1, low, high, *near])
    if kind == "string":
        return rng.choice(["", "none-${run}", "bad name! ${run}", "x" * 300 + "${run}"])
    if kind == "uuid":
        return rng.choice([ZERO_UUID, "${uuid:nowhere}"])
    if kind in ("bytes", "records"):
        return rng.choice(["", "AAEC", "AAAAAAAAAAAAAAAAAAAAAAAAAAAA"])
    return rng.choice([0.0, -1.0, 1e300])
