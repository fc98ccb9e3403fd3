"""The byte range of every field of a message, a header, or a whole frame's content."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from io import BytesIO

from construct import ConstructError

from kwire.errors import UnsupportedVersion
from kwire.layout.build import build, layout
from kwire.layout.recorder import NODES_MAX, Damage, Recorder
from kwire.layout.structs import Fields
from kwire.layout.tree import Kind, Node, Tree
from kwire.schema import DEFAULT_EDITION, MessageSpec, layers_of, load, own_names

Buffer = bytes | bytearray | memoryview


def describe_bytes(
    name: str, version: int, data: Buffer, *, edition: str = DEFAULT_EDITION, nodes_max: int = NODES_MAX
) -> Tree:
    """What every byte of this message is. Damaged bytes give the tree up to the damage, with a node that says it.

    Args: nodes_max: how many nodes to make at most; beyond it an error node stands for the rest.
    Raises: UnsupportedVersion when there is no such message, edition or version; nothing because of the bytes.
    """
    return _describe([(name, f"{name} v{version}", layout(name, version, edition))], bytes(data), nodes_max)


def describe_spec(spec: MessageSpec, version: int, data: Buffer, *, nodes_max: int = NODES_MAX) -> Tree:
    """The same by a schema at hand, which need not be one of the project's."""
    return _describe([(spec.name, f"{spec.name} v{version}", build(spec, version))], bytes(data), nodes_max)


def describe_request(frame: Buffer, *, edition: str = DEFAULT_EDITION, nodes_max: int = NODES_MAX) -> Tree:
    """Header and body of a request, without the frame's length; key and version are taken from the header.

    Raises: UnsupportedVersion when the header names no request of the edition; nothing because of other bytes.
    """
    data = bytes(frame)
    if len(data) < 4:
        return _describe([_header("RequestHeader", 1)], data, nodes_max)
    api_key, version = int.from_bytes(data[:2], signed=True), int.from_bytes(data[2:4], signed=True)
    name = f"{_api_name(api_key, edition)}Request"
    body = layout(name, version, edition)
    # A request whose body is flexible has a flexible header, version 2; every other one version 1.
    header = 2 if load(name, edition).is_flexible(version) else 1
    return _describe([_header("RequestHeader", header), (name, f"{name} v{version}", body)], data, nodes_max)


def describe_response(
    frame: Buffer, api_key: int, version: int, *, edition: str = DEFAULT_EDITION, nodes_max: int = NODES_MAX
) -> Tree:
    """Header and body of a response, without the frame's length, by the key and version of its request.

    Raises: UnsupportedVersion when the edition has no such response; nothing because of the bytes.
    """
    name = f"{_api_name(api_key, edition)}Response"
    body = layout(name, version, edition)
    # A client reads this one before it knows what the broker speaks, so its header never became flexible (KIP-511).
    flexible = load(name, edition).is_flexible(version) and name != "ApiVersionsResponse"
    parts = [_header("ResponseHeader", int(flexible)), (name, f"{name} v{version}", body)]
    return _describe(parts, bytes(frame), nodes_max)


_Part = tuple[str, str, Fields]


def _header(name: str, version: int) -> _Part:
    return name, f"{name} v{version}", layout(name, version)


def _describe(parts: Sequence[_Part], data: bytes, nodes_max: int) -> Tree:
    stream = BytesIO(data)
    whole = len(parts) > 1
    name, type_name, _ = ("", "frame", None) if whole else parts[0]
    root = Node(name, name, type_name, 0, kind=Kind.STRUCT)
    recorder = Recorder(root, len(data), nodes_max)
    try:
        for name, type_name, fields in parts:
            if whole:
                recorder.open(name, type_name, stream.tell(), Kind.STRUCT)
                recorder.current.path = name
            fields.parse_stream(stream, recorder=recorder)
            if whole:
                recorder.close(stream.tell())
        if recorder.left(stream.tell()):
            raise Damage(stream.tell(), f"{recorder.left(stream.tell())} bytes behind the end of the message")
        recorder.close(stream.tell())
    except ConstructError as error:
        recorder.fail(error if isinstance(error, Damage) else Damage(stream.tell(), str(error)))
    return Tree(root, data)


def _api_name(api_key: int, edition: str) -> str:
    for layer in layers_of(edition):
        name = _own_api_names(layer).get(api_key)
        if name is not None:
            return name
    raise UnsupportedVersion("", f"API key {api_key} is not one of edition {edition}")


@cache
def _own_api_names(edition: str) -> dict[int, str]:
    """The names of the APIs that an edition brings itself, by key, from the schemas themselves."""
    requests = (load(name, edition) for name in own_names(edition) if name.endswith("Request"))
    return {spec.api_key: spec.name.removesuffix("Request") for spec in requests if spec.api_key is not None}
