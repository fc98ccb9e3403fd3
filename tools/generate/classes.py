"""Generates the message classes: one for all versions, with the texts of the schema as documentation."""

from __future__ import annotations

from kwire.schema import MessageSpec, Versions
from kwire.schema.spec import INTEGER_RANGES, FieldSpec
from tools.generate.model import Message
from tools.generate.source import Source, wrap_text
from tools.generate.types import default_expression, nullable_type_hint

#: The unit by the end of a field's name.
_UNITS = {"_ms": "milliseconds", "_bytes": "bytes", "_seconds": "seconds"}


def render_classes(message: Message, already: set[str]) -> str:
    """All classes of a message, inner ones first; those that the module has already are omitted."""
    out = Source()
    spec = message.spec
    flexible = bool(spec.flexible_versions.intersect(spec.versions))
    for name, struct in message.structs.items():
        class_name = message.class_of(name)
        if class_name in already:
            continue
        already.add(class_name)
        about = struct.about or _text_of_users(message, name) or f"A part of {spec.name}."
        _add_class(out, class_name, about, struct.fields, message, flexible=flexible)
    _add_class(out, spec.name, _message_text(spec), spec.fields, message, flexible=flexible, spec=spec)
    return out.text()


def _text_of_users(message: Message, struct_name: str) -> str:
    """The text of the first field that holds the struct."""

    def search(fields: tuple[FieldSpec, ...]) -> str:
        for field in fields:
            if field.struct and field.struct.name == struct_name and field.about:
                lead = "One of" if field.is_array else "Field"
                return f"{lead} `{field.snake_name}`: {_lower_first(field.about)}"
            text_of_field = search(field.fields)
            if text_of_field:
                return text_of_field
        return ""

    return search(message.spec.fields)


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text


def _message_text(spec: MessageSpec) -> str:
    about = as_sentence(spec.about) + " " if spec.about else ""
    what = ""
    if spec.kind in {"request", "response"}:
        name = spec.name.removesuffix(spec.kind.capitalize())
        what = f"{spec.kind.capitalize()} of {name}, API key {spec.api_key}, "
    elif spec.kind.startswith("coordinator"):
        what = f"{spec.kind.removeprefix('coordinator-')} of records of type {spec.api_key}, "
    elif spec.kind == "metadata":
        what = f"metadata record, API key {spec.api_key}, "
    elif spec.kind == "header":
        what = f"header of every {spec.name.removesuffix('Header').lower()}, "
    flexible = spec.flexible_versions.intersect(spec.versions)
    tail = f"; flexible versions {flexible}" if flexible and flexible != spec.versions else ""
    lead = f"{what}versions {spec.versions}{tail}."
    return f"{about}{lead[:1].upper()}{lead[1:]}"


def _add_class(
    out: Source,
    name: str,
    about: str,
    fields: tuple[FieldSpec, ...],
    message: Message,
    *,
    flexible: bool,
    spec: MessageSpec | None = None,
) -> None:
    out("", "")
    with out.block(f"class {name}(msgspec.Struct, gc=False):"):
        out.lines += _docstring_lines(as_sentence(about))
        if spec:
            _add_constants(out, spec, message)
        if fields or flexible:
            out("")
        for field in fields:
            out.lines += wrap_text(_field_text(field, message.spec.versions), 1, "#: ", "#: ")
            out(f"{field.snake_name}: {nullable_type_hint(field, message)} = {_class_default(field, message)}")
        if flexible:
            out("#: Tagged fields that the schema does not have, ascending; they are stored and written back.")
            out("unknown_tagged_fields: Tags = ()")


def _add_constants(out: Source, spec: MessageSpec, message: Message) -> None:
    out("", f'NAME: ClassVar[str] = "{spec.name}"')
    out(f"API_KEY: ClassVar[int] = {-1 if spec.api_key is None else spec.api_key}")
    out(f"VERSIONS: ClassVar[tuple[int, int]] = ({spec.versions.low}, {spec.versions.high})")
    out(f'EDITION: ClassVar[str] = "{message.edition}"')
    if message.response is not None:
        # In a class with a field of that name, `type` would be the field.
        builtin = "builtins.type" if any(field.snake_name == "type" for field in spec.fields) else "type"
        out("#: The class of its responses.", f"RESPONSE: ClassVar[{builtin}[{message.response}]]")


def _docstring_lines(text: str) -> list[str]:
    lines = wrap_text(text, 1, '"""', "")
    return [lines[0] + '"""'] if len(lines) == 1 and len(lines[0]) <= 116 else [*lines, '    """']


def as_sentence(text: str) -> str:
    """Text from a schema: safe inside a docstring, with a full stop at its end."""
    text = " ".join(text.split()).replace("\\", "\\\\").replace('"""', "'''").rstrip('"')
    return text if not text or text.endswith((".", "!", "?")) else text + "."


def _class_default(field: FieldSpec, message: Message) -> str:
    if field.default == () and field.struct and not field.is_array:
        return f"msgspec.field(default_factory={message.class_of(field.struct.name)})"
    return default_expression(field, message)


def _field_text(field: FieldSpec, valid: Versions) -> str:
    """The meaning of the field, then its type, its unit and the versions with exceptions."""
    facts = [field.type]
    unit = next((unit for end, unit in _UNITS.items() if field.snake_name.endswith(end)), "")
    if unit and field.type in INTEGER_RANGES:
        facts[0] += f" of {unit}"
    if not field.versions.covers(valid):
        facts.append(f"versions {field.versions}")
    nullable = field.nullable_versions.intersect(field.versions).intersect(valid)
    if nullable:
        always = nullable.covers(field.versions.intersect(valid))
        facts.append("may be null" if always else f"may be null in {nullable}")
    if field.tag is not None:
        always = field.tagged_versions.covers(field.versions)
        facts.append(f"tag {field.tag}" + ("" if always else f" in {field.tagged_versions}"))
    if field.ignorable and not field.versions.covers(valid):
        facts.append("left out silently elsewhere")
    about = as_sentence(field.about)
    return f"{about} ({'; '.join(facts)})" if about else f"{'; '.join(facts)}."
