"""Plan which fields of a message a row needs, to decode many bodies of one version together.

The plan selects the same fields as `kwire.capture.kafka.message_fields` does in one decoded message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import NamedTuple

from kwire.capture.kafka.message_fields import SKIPPED_FIELDS, FieldShape, field_shape
from kwire.codec_table import Codec
from kwire.registry import codec_of_version
from kwire.schema import FieldSpec, load_schema
from kwire.schema.spec import FIXED_SIZES

TEXT_FIELDS = frozenset({"group_id", "member_id"})
"""The columns that are a text field of a message, by the field's name."""


class FieldStep(NamedTuple):
    """One field, or several adjacent fields of fixed size that are skipped.

    kind: `skip`, `bool`, `int`, `text`, `bytes`, `records`, `numbers` (an array of fixed size), `texts`, `bools`,
    `structs` (an array), `struct`, or `other`: only the message decoder can read it.
    size: bytes to skip, of an integer, or of each number of an array.
    use: what the value is used for: `error`, `throttle`, `name`, `topic_id`, `num_partitions`, `numbers`, `names`,
    `partitions`, or one of `TEXT_FIELDS`; else empty.
    """

    kind: str
    size: int = 0
    use: str = ""
    is_nullable: bool = False
    is_flexible: bool = False
    inner: StructPlan | None = None


class StructPlan(NamedTuple):
    """The fields of a struct in their order, and its tagged fields by number.

    is_topic: it names a topic. has_errors: structs in it have error codes, in addition to its own fields. table: where
    its values are collected, for `table_plan`.
    """

    steps: tuple[FieldStep, ...]
    tagged: dict[int, FieldStep]
    is_flexible: bool
    is_topic: bool = False
    has_errors: bool = False
    table: str = ""


class MessagePlan(NamedTuple):
    """The plan for a message in one version. has_throttle: whether any version of the message has a throttle time."""

    struct: StructPlan
    has_throttle: bool


@cache
def message_plan(name: str, version: int) -> MessagePlan | None:
    """The plan for a message; None if there is no such version."""
    codec = codec_of_version(name, version)
    if version not in codec.readers:
        return None
    spec = load_schema(codec.name, codec.edition)
    fields = codec.message.__struct_fields__
    struct = _plan_struct(codec, "", spec.fields, version, spec.is_flexible(version), depth=0)
    return MessagePlan(struct, "throttle_time_ms" in fields)


def _plan_struct(
    codec: Codec, struct_name: str, fields: tuple[FieldSpec, ...], version: int, flexible: bool, *, depth: int
) -> StructPlan:
    shape = field_shape(codec.structs[struct_name] if struct_name else codec.message)

    def plan_field(field: FieldSpec) -> FieldStep:
        use = _field_use(field, shape, depth)
        if field.struct is None:
            return make_step(field, version, flexible, use)
        if use == "partitions" and field_shape(codec.structs[field.struct.name]).number is None:
            # Only a struct with a partition number is a partition.
            use = ""
        # Fields that a request removes from its session are not counted.
        below = -1 if depth < 0 or field.snake_name in SKIPPED_FIELDS else depth + 1
        inner = _plan_struct(codec, field.struct.name, field.fields, version, flexible, depth=below)
        return make_step(field, version, flexible, use, inner)

    steps, tagged = plan_fields(fields, version, plan_field)
    return StructPlan(steps, tagged, flexible, depth > 0 and shape.is_topic, bool(shape.error_children))


def plan_fields(
    fields: Iterable[FieldSpec], version: int, plan_field: Callable[[FieldSpec], FieldStep]
) -> tuple[tuple[FieldStep, ...], dict[int, FieldStep]]:
    """The steps of the fields that a version has, with adjacent skipped ones as one step; and of its tagged fields."""
    steps: list[FieldStep] = []
    tagged: dict[int, FieldStep] = {}
    for field in fields:
        if version not in field.versions and not field.is_tagged(version):
            continue
        step = plan_field(field)
        if field.is_tagged(version) and field.tag is not None:
            tagged[field.tag] = step
        elif step.kind == "skip" and steps and steps[-1].kind == "skip":
            steps[-1] = steps[-1]._replace(size=steps[-1].size + step.size)
        else:
            steps.append(step)
    return tuple(steps), tagged


def make_step(field: FieldSpec, version: int, flexible: bool, use: str, inner: StructPlan | None = None) -> FieldStep:
    """The step that reads a field. Args: flexible: whether the message is. inner: the plan of the field's struct."""
    nullable, is_field_flexible = version in field.nullable_versions, field.is_flexible(version, flexible)
    element = field.element_type
    if inner is not None:
        if field.is_tagged(version) and nullable and not field.is_array:
            # A nullable tagged struct has another null marker than other nullable structs.
            return FieldStep("other")
        return FieldStep("structs" if field.is_array else "struct", 0, use, nullable, is_field_flexible, inner)
    if field.is_array:
        if element in FIXED_SIZES and element != "bool":
            return FieldStep("numbers", FIXED_SIZES[element], use, nullable, is_field_flexible)
        kind = {"bool": "bools", "string": "texts"}.get(element, "other")
        return FieldStep(kind, 0, use, nullable, is_field_flexible)
    if element == "bool":
        return FieldStep("bool")
    if element in FIXED_SIZES:
        return FieldStep("int" if use else "skip", FIXED_SIZES[element], use)
    kind = {"string": "text", "records": "records"}.get(element, "bytes")
    return FieldStep(kind, 0, use, nullable, is_field_flexible)


def _field_use(field: FieldSpec, shape: FieldShape, depth: int) -> str:
    """What a field's value is used for. Nothing is used below a skipped field (a depth of -1)."""
    name = field.snake_name
    if depth < 0:
        return ""
    if name in shape.errors:
        return "error"
    if name in shape.names:
        return "names"
    if depth == 0:
        return "throttle" if name == "throttle_time_ms" else name if name in TEXT_FIELDS else ""
    return _topic_field_use(field, shape) if shape.is_topic else ""


def _topic_field_use(field: FieldSpec, shape: FieldShape) -> str:
    name = field.snake_name
    if name == shape.name:
        return "name"
    if name in shape.numbers:
        return "numbers"
    if name in shape.children:
        return "partitions"
    return name if name in {"topic_id", "num_partitions"} else ""
