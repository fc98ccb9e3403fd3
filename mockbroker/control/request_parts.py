"""Reads the parameters and the body of a request, with limits, into the structs of its operation."""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qsl, unquote

import msgspec
from starlette.requests import ClientDisconnect

from mockbroker.control.problems import ProblemError, ProblemKind

if TYPE_CHECKING:
    from starlette.requests import Request

    from mockbroker.control.operations import Operation

#: The maximum size of the body of a request, bytes.
BODY_BYTES_MAX = 8 << 20
_PARAMETERS_MAX = 100
_UNKNOWN_FIELD = re.compile(r"unknown field `([^`]*)`")


def read_parameters(request: Request, operation: Operation) -> msgspec.Struct:
    """The parameters of path and query. Raises: ProblemError for unknown, wrong and repeated ones."""
    kind = operation.signature.parameters
    values: dict[str, str] = {}
    try:
        for name, text in request.path_params.items():
            values[name] = unquote(text, errors="strict")
        query = parse_qsl(
            request.url.query,
            keep_blank_values=True,
            strict_parsing=bool(request.url.query),
            errors="strict",
            max_num_fields=_PARAMETERS_MAX,
        )
    except ValueError as error:
        raise ProblemError(ProblemKind.MALFORMED_REQUEST, f"the parameters cannot be read: {error}") from error
    for header, name in operation.headers:
        if header in request.headers:
            values[name] = request.headers[header]
    for name, text in query:
        if name in values:
            raise ProblemError(ProblemKind.INVALID_REQUEST, f"parameter {name!r}: is given twice")
        values[name] = text
    try:
        parameters = msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise ProblemError(ProblemKind.INVALID_REQUEST, explain(error, kind, "parameter")) from error
    for field in msgspec.structs.fields(kind):
        if field.encode_name in values and getattr(parameters, field.name) is None:  # The text "null".
            raise ProblemError(ProblemKind.INVALID_REQUEST, f"parameter {field.encode_name!r}: expected a value")
    return parameters


async def read_body(request: Request, operation: Operation) -> object:
    """The body as the type of the operation.

    No body is as an empty object. Raises: ProblemError for one that is too large, no JSON, or of another type.
    """
    data = await _receive(request)
    kind = operation.signature.body
    if not data.strip():
        data = b"{}"
    else:
        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type != "application/json":
            raise ProblemError(
                ProblemKind.UNSUPPORTED_MEDIA_TYPE, f"Content-Type is {media_type!r}; expected 'application/json'"
            )
    try:
        body: object = msgspec.json.decode(data, type=kind if kind is not None else dict[str, Any])
    except msgspec.ValidationError as error:
        raise ProblemError(ProblemKind.INVALID_REQUEST, explain(error, kind, "field")) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProblemError(ProblemKind.MALFORMED_JSON, str(error)) from error
    if kind is None and body:
        raise ProblemError(ProblemKind.INVALID_REQUEST, "there are fields in the body; expected none")
    return body


async def _receive(request: Request) -> bytes:
    """The bytes of the body. Raises: ProblemError as soon as they are too many, and if the client goes away."""
    length = request.headers.get("content-length", "0")
    data = bytearray()
    if not length.isdigit() or int(length) <= BODY_BYTES_MAX:
        try:
            async for chunk in request.stream():
                data += chunk
                if len(data) > BODY_BYTES_MAX:
                    break
            else:
                return bytes(data)
        except ClientDisconnect:
            raise ProblemError(ProblemKind.MALFORMED_REQUEST, "the connection ended within the body") from None
    # The rest of the body is not read, so that the connection cannot be used again.
    raise ProblemError(
        ProblemKind.BODY_TOO_LARGE, f"the body has more than {BODY_BYTES_MAX} bytes", {"Connection": "close"}
    )


def explain(error: msgspec.ValidationError, kind: type | None, noun: str) -> str:
    """The message of an error; for an unknown name with the most similar one, or all names."""
    unknown = _UNKNOWN_FIELD.search(str(error))
    if unknown is None or kind is None:
        return str(error)
    names = _field_names(kind)
    if not names:
        return f"unknown {noun} {unknown[1]!r}; there are none"
    nearest = get_close_matches(unknown[1], names, n=1)
    hint = f"did you mean {nearest[0]!r}?" if nearest else f"expected one of {', '.join(names)}"
    where = re.search(r" - at `(.*)`", str(error))
    return f"unknown {noun} {unknown[1]!r}{f' at {where[1]}' if where else ''}; {hint}"


@cache
def _field_names(kind: type) -> list[str]:
    """The names of the fields of a struct and of the structs in it."""
    _, components = msgspec.json.schema_components((kind,))
    properties = [cast("dict[str, object]", schema.get("properties", {})) for schema in components.values()]
    return sorted({name for names in properties for name in names})
