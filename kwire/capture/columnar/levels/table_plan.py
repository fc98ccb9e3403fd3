"""Plan which fields of a message are collected into tables: one of its topics, one of their partitions, and so on."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import msgspec

from kwire.capture.columnar.decode_plan import FieldStep, StructPlan, make_step, plan_fields
from kwire.capture.kafka.message_fields import SKIPPED_FIELDS, field_shape, struct_type_in
from kwire.codec_table import Codec
from kwire.registry import codec_of_version
from kwire.schema import FieldSpec, load_schema

MESSAGE, TOPIC, PARTITION = "message", "topic", "partition"
# Nothing in the struct is collected, nor below it.
_NOTHING = "-"
NAME, TOPIC_ID, NUMBER = "name", "topic_id", "number"


class Wanted(NamedTuple):
    """The fields to collect of each message and partition, in addition to the topic and the number of the partition.

    item: an array of structs in each partition that is a table too, and its fields; empty for none.
    """

    partition: tuple[str, ...] = ()
    message: tuple[str, ...] = ()
    item: str = ""
    item_fields: tuple[str, ...] = ()


@cache
def table_plan(name: str, version: int, wanted: Wanted) -> StructPlan | None:
    """The plan for a message; None if there is no such version, or if its values do not fit into tables."""
    codec = codec_of_version(name, version)
    if version not in codec.readers or len(partition_classes(codec.message)) > 1:
        return None
    spec = load_schema(codec.name, codec.edition)
    planner = _Planner(codec, version, spec.is_flexible(version), wanted)
    plan = planner.plan_struct(codec.message, spec.fields, MESSAGE)
    return plan if _fits_tables(plan, is_in_topic=False) else None


@cache
def partition_classes(message: type[msgspec.Struct]) -> frozenset[type[msgspec.Struct]]:
    """The classes of the partitions in the topics of a message; none if it has only their numbers, or no partitions."""
    return frozenset(_partition_classes(message, is_topic=False))


def _partition_classes(cls: type[msgspec.Struct], *, is_topic: bool) -> set[type[msgspec.Struct]]:
    found: set[type[msgspec.Struct]] = set()
    for field in msgspec.structs.fields(cls):
        inner = struct_type_in(field.type)
        if inner is None or field.name in SKIPPED_FIELDS:
            continue
        shape = field_shape(inner)
        if is_topic and shape.number is not None:
            found.add(inner)
        found |= _partition_classes(inner, is_topic=shape.is_topic)
    return found


class _Planner(NamedTuple):
    """Plans the structs of one message in one version."""

    codec: Codec
    version: int
    flexible: bool
    wanted: Wanted

    def plan_struct(self, cls: type[msgspec.Struct], fields: tuple[FieldSpec, ...], table: str) -> StructPlan:
        """The plan of a struct of this class. Args: table: as `StructPlan.table`, or `_NOTHING`."""
        uses = _field_uses(cls, table, self.wanted)

        def plan_field(field: FieldSpec) -> FieldStep:
            use = uses.get(field.snake_name, "")
            if field.struct is None:
                return make_step(field, self.version, self.flexible, use)
            inner_cls = self.codec.structs[field.struct.name]
            inner_table = self._inner_table(table, field, inner_cls)
            inner = self.plan_struct(inner_cls, field.fields, inner_table)
            return make_step(field, self.version, self.flexible, use, inner)

        steps, tagged = plan_fields(fields, self.version, plan_field)
        return StructPlan(steps, tagged, self.flexible, table="" if table == _NOTHING else table)

    def _inner_table(self, table: str, field: FieldSpec, cls: type[msgspec.Struct]) -> str:
        shape = field_shape(cls)
        if table == _NOTHING or field.snake_name in SKIPPED_FIELDS:
            return _NOTHING
        if table == TOPIC and shape.number is not None:
            return PARTITION
        if table == PARTITION and field.snake_name == self.wanted.item:
            return self.wanted.item
        return TOPIC if shape.is_topic else ""


def _field_uses(cls: type[msgspec.Struct], table: str, wanted: Wanted) -> dict[str, str]:
    """The fields of a class that are collected, each with its name in the table."""
    shape = field_shape(cls)
    if table == MESSAGE:
        return {field: field for field in wanted.message}
    if table == TOPIC:
        return {TOPIC_ID: TOPIC_ID, **({shape.name: NAME} if shape.name else {})}
    if table == PARTITION:
        return {**{field: field for field in wanted.partition}, **({shape.number: NUMBER} if shape.number else {})}
    return {field: field for field in wanted.item_fields} if table == wanted.item and table else {}


def _fits_tables(plan: StructPlan, *, is_in_topic: bool) -> bool:
    """Whether each struct of a table has each of its fields, and the topics are not nested."""
    if plan.table == TOPIC and is_in_topic:
        return False
    if any(_collects(step) for step in plan.tagged.values()):
        return False
    is_in_topic = is_in_topic or plan.table == TOPIC
    return all(_fits_tables(step.inner, is_in_topic=is_in_topic) for step in plan.steps if step.inner is not None)


def _collects(step: FieldStep) -> bool:
    if step.use or (step.inner is not None and step.inner.table):
        return True
    inner = step.inner
    return inner is not None and any(map(_collects, (*inner.steps, *inner.tagged.values())))
