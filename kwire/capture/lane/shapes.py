"""Which fields of a message matter to its row, as a plan for reading many bodies of one version side by side.

It follows `kwire.capture.facts`, which finds the same in one decoded message.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from kwire.capture.facts import PASSED_OVER, Shape, shape_of
from kwire.codec_table import Codec
from kwire.registry import codec_of_name
from kwire.schema import FieldSpec, load
from kwire.schema.spec import FIXED_SIZES


class Step(NamedTuple):
    """One field, or several of fixed size in a row of which nothing is wanted.

    kind: `skip`, `bool`, `int`, `text`, `bytes`, `records`, `numbers` (an array of fixed size), `texts`, `bools`,
    `structs` (an array), `struct`, or `other`: what only the exact decoder can read.
    size: bytes to skip, of an integer, or of each number of an array.
    use: what its value is for: `error`, `throttle`, `group_id`, `member_id`, `name`, `topic_id`, `num_partitions`,
    `numbers`, `names`, `partitions`; else empty.
    """

    kind: str
    size: int = 0
    use: str = ""
    is_nullable: bool = False
    is_flexible: bool = False
    inner: Struct | None = None


class Struct(NamedTuple):
    """The fields of a struct in their order, and its tagged ones by number.

    is_topic: it names a topic. has_errors: structs in it have error codes, beside those of its own fields.
    """

    steps: tuple[Step, ...]
    tagged: dict[int, Step]
    is_flexible: bool
    is_topic: bool
    has_errors: bool


class Plan(NamedTuple):
    """A message in one version. has_throttle: whether its class has a throttle time in any version."""

    struct: Struct
    has_throttle: bool


@cache
def plan(name: str, version: int) -> Plan | None:
    """The plan for a message; None for a version that there is not."""
    codec = codec_of_name(name)
    if version not in codec.readers:
        return None
    spec = load(codec.name, codec.edition)
    fields = codec.message.__struct_fields__
    struct = _struct(codec, "", spec.fields, version, spec.is_flexible(version), depth=0)
    return Plan(struct, "throttle_time_ms" in fields)


def _struct(
    codec: Codec, own: str, fields: tuple[FieldSpec, ...], version: int, flexible: bool, *, depth: int
) -> Struct:
    shape = shape_of(codec.structs[own] if own else codec.message)
    steps: list[Step] = []
    tagged: dict[int, Step] = {}
    for field in fields:
        if version not in field.versions and not field.is_tagged(version):
            continue
        use = _use(field, shape, depth)
        if use == "partitions" and field.struct is not None:
            # Only what tells its number is a partition.
            use = use if shape_of(codec.structs[field.struct.name]).number is not None else ""
        step = _step(codec, field, version, flexible, depth=depth, use=use)
        if field.is_tagged(version) and field.tag is not None:
            tagged[field.tag] = step
        elif step.kind == "skip" and steps and steps[-1].kind == "skip":
            steps[-1] = steps[-1]._replace(size=steps[-1].size + step.size)
        else:
            steps.append(step)
    return Struct(tuple(steps), tagged, flexible, depth > 0 and shape.is_topic, bool(shape.error_children))


def _step(codec: Codec, field: FieldSpec, version: int, flexible: bool, *, depth: int, use: str) -> Step:
    nullable, own_flexible = version in field.nullable_versions, field.is_flexible(version, flexible)
    element = field.element_type
    if field.struct:
        # Nothing is wanted of what a request takes out of its session.
        below = -1 if depth < 0 or field.snake in PASSED_OVER else depth + 1
        if field.is_tagged(version) and nullable and not field.is_array:
            # Before it stands another mark than before others that may be null.
            return Step("other")
        inner = _struct(codec, field.struct.name, field.fields, version, flexible, depth=below)
        return Step("structs" if field.is_array else "struct", 0, use, nullable, own_flexible, inner)
    if field.is_array:
        if element in FIXED_SIZES and element != "bool":
            return Step("numbers", FIXED_SIZES[element], use, nullable, own_flexible)
        return Step({"bool": "bools", "string": "texts"}.get(element, "other"), 0, use, nullable, own_flexible)
    if element == "bool":
        return Step("bool")
    if element in FIXED_SIZES:
        return Step("int" if use else "skip", FIXED_SIZES[element], use)
    kind = {"string": "text", "records": "records"}.get(element, "bytes")
    return Step(kind, 0, use, nullable, own_flexible)


def _use(field: FieldSpec, shape: Shape, depth: int) -> str:
    """What a field's value is for. Below what is passed over (a depth of -1) nothing is wanted."""
    name = field.snake
    if depth < 0:
        return ""
    if name in shape.errors:
        return "error"
    if name in shape.names:
        return "names"
    if depth == 0:
        return {"throttle_time_ms": "throttle", "group_id": "group_id", "member_id": "member_id"}.get(name, "")
    return _use_in_topic(field, shape) if shape.is_topic else ""


def _use_in_topic(field: FieldSpec, shape: Shape) -> str:
    name = field.snake
    if name == shape.name:
        return "name"
    if name in shape.numbers:
        return "numbers"
    if name in shape.children:
        return "partitions"
    return name if name in {"topic_id", "num_partitions"} else ""
