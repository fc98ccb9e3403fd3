"""The description of the API in OpenAPI 3.1, from the table of operations and the structs of their functions."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from kwire.package_version import package_version
from mockbroker.control.models.common import RequestModel, ResponseModel
from mockbroker.control.problems import MEDIA_TYPE, Problem
from mockbroker.control.routes import EVENT_MODELS, TAGS

if TYPE_CHECKING:
    from mockbroker.control.operations import ControlApi, Operation

Json = dict[str, Any]
_REFERENCE = "#/components/schemas/{name}"


def describe_api(api: ControlApi, *, has_token: bool) -> Json:
    """The description. has_token: whether requests need a token."""
    operations = api.operations
    tags = {operation.tag for operation in operations}
    types = _collect_types(operations)
    _, components = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    parameters = {operation.signature.parameters.__name__ for operation in operations}
    paths: dict[str, Json] = {}
    for operation in operations:
        path_item = paths.setdefault(operation.path, {})
        path_item[operation.method.lower()] = _describe_operation(operation, components)
    schemas = {name: schema for name, schema in sorted(components.items()) if name not in parameters}
    for schema in schemas.values():
        for field in schema.get("properties", {}).values():
            _leave_absent_out(field, schemas)
    description: Json = {
        "openapi": "3.1.0",
        "info": {"title": "mockbroker", "version": package_version(), "description": api.description},
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": text} for name, text in TAGS.items() if name in tags],
        "paths": paths,
        "components": {"schemas": schemas},
    }
    if has_token:
        description["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        description["security"] = [{"token": []}]
    return description


def _leave_absent_out(field: Json, schemas: Json) -> None:
    """Leave out the choices that no operation of the API has: a proxy has no faults of nodes."""
    if "oneOf" in field:
        present = [_REFERENCE.format(name=name) for name in schemas]
        field["oneOf"] = [choice for choice in field["oneOf"] if choice.get("$ref", present[0]) in present]


def _collect_types(operations: Iterable[Operation]) -> list[type]:
    types: dict[type, None] = {Problem: None, **dict.fromkeys(EVENT_MODELS)}
    for operation in operations:
        signature = operation.signature
        body_types = operation.body_types or (signature.body,)
        found = [signature.parameters, *body_types, signature.response if operation.has_json_response else None]
        types.update(dict.fromkeys(kind for kind in found if kind is not None))
    return list(types)


def _describe_operation(operation: Operation, components: Json) -> Json:
    signature = operation.signature
    text = inspect.getdoc(operation.function) or ""
    summary, _, more = text.partition("\n\n")
    described: Json = {"operationId": operation.operation_id, "tags": [operation.tag], "summary": summary}
    if more:
        described["description"] = " ".join(more.split())
    parameters = _describe_parameters(operation, components[signature.parameters.__name__])
    if parameters:
        described["parameters"] = parameters
    body_types = operation.body_types or ((signature.body,) if signature.body is not None else ())
    if body_types:
        references = [_reference(kind) for kind in body_types]
        schema = references[0] if len(references) == 1 else {"oneOf": references}
        required = bool(operation.body_types) or bool(components[body_types[0].__name__].get("required"))
        described["requestBody"] = {"required": required, "content": {"application/json": {"schema": schema}}}
    described["responses"] = {
        str(operation.status): _describe_response(operation),
        "default": {"description": "A problem", "content": {MEDIA_TYPE: {"schema": _reference(Problem)}}},
    }
    return described


def _describe_parameters(operation: Operation, schema: Json) -> list[Json]:
    in_path = operation.path_names
    required = schema.get("required", [])
    headers = [
        {"name": header, "in": "header", "required": False, "schema": {"type": "string"}}
        for header, _ in operation.headers
    ]
    parameters = [
        {
            "name": name,
            "in": "path" if name in in_path else "query",
            "required": name in in_path or name in required,
            "schema": _without_null(kind),
        }
        for name, kind in schema["properties"].items()
    ]
    return [*parameters, *headers]


def _without_null(schema: Json) -> Json:
    """The schema of a parameter, which is left out instead of null."""
    choices = [choice for choice in schema.get("anyOf", []) if choice != {"type": "null"}]
    if len(choices) == 1:
        return dict(choices[0])
    return schema


def _describe_response(operation: Operation) -> Json:
    response = operation.signature.response
    if not operation.has_json_response:
        return {"description": "Events", "content": {operation.media_type: {"schema": {"type": "string"}}}}
    if response is None:
        return {"description": "Done"}
    described: Json = {
        "description": (inspect.getdoc(response) or response.__name__).partition("\n")[0],
        "content": {"application/json": {"schema": _reference(response)}},
    }
    if operation.location is not None:
        described["headers"] = {"Location": {"description": "What was created", "schema": {"type": "string"}}}
    return described


def _reference(kind: type) -> Json:
    assert issubclass(kind, RequestModel | ResponseModel | msgspec.Struct)
    return {"$ref": _REFERENCE.format(name=kind.__name__)}
