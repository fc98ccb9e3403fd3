"""The byte range of every field of a message, a header, or a whole frame's content."""

from __future__ import annotations

from collections.abc import Sequence

from kwire.errors import TrailingBytes, WireError
from kwire.registry import api_name, header_versions
from kwire.schema import DEFAULT_EDITION, MessageSpec, edition_of_version
from kwire.schema_codec.layouts import build_layout, layout_of
from kwire.schema_codec.reader import NODES_MAX, Reader
from kwire.schema_codec.structs import Fields
from kwire.schema_codec.tree import Kind, Node, Tree

Buffer = bytes | bytearray | memoryview


def describe_bytes(
    name: str, version: int, data: Buffer, *, edition: str = DEFAULT_EDITION, nodes_max: int = NODES_MAX
) -> Tree:
    """The tree of a message. Damaged bytes give the tree up to the damage, with an error node.

    Args: nodes_max: the maximum number of nodes; an error node covers the rest.
    Raises: UnsupportedVersion when there is no such message, edition or version; nothing because of the bytes.
    """
    return _describe([_part(name, version, edition)], bytes(data), nodes_max)


def describe_spec(spec: MessageSpec, version: int, data: Buffer, *, nodes_max: int = NODES_MAX) -> Tree:
    """The tree of a message by any schema, also one that is not the project's."""
    return _describe([(spec.name, f"{spec.name} v{version}", build_layout(spec, version))], bytes(data), nodes_max)


def describe_request(frame: Buffer, *, edition: str = DEFAULT_EDITION, nodes_max: int = NODES_MAX) -> Tree:
    """Header and body of a request, without the frame's length; key and version are taken from the header.

    Raises: UnsupportedVersion when the header names no request of the edition; nothing because of other bytes.
    """
    data = bytes(frame)
    if len(data) < 4:
        return _describe([_part("RequestHeader", 1)], data, nodes_max)
    api_key, version = int.from_bytes(data[:2], signed=True), int.from_bytes(data[2:4], signed=True)
    header = _part("RequestHeader", header_versions(api_key, version, edition)[0])
    return _describe([header, _part(f"{api_name(api_key, edition)}Request", version, edition)], data, nodes_max)


def describe_response(
    frame: Buffer, api_key: int, version: int, *, edition: str = DEFAULT_EDITION, nodes_max: int = NODES_MAX
) -> Tree:
    """Header and body of a response, without the frame's length, by the key and version of its request.

    Raises: UnsupportedVersion when the edition has no such response; nothing because of the bytes.
    """
    header = _part("ResponseHeader", header_versions(api_key, version, edition)[1])
    body = _part(f"{api_name(api_key, edition)}Response", version, edition)
    return _describe([header, body], bytes(frame), nodes_max)


_Part = tuple[str, str, Fields]


def _part(name: str, version: int, edition: str = DEFAULT_EDITION) -> _Part:
    return name, f"{name} v{version}", layout_of(name, version, edition_of_version(name, version, edition))


def _describe(parts: Sequence[_Part], data: bytes, nodes_max: int) -> Tree:
    is_frame = len(parts) > 1
    name, type_name, _ = ("", "frame", None) if is_frame else parts[0]
    root = Node(name, name, type_name, 0, kind=Kind.STRUCT)
    reader = Reader(data, lenient=True, root=root, nodes_max=nodes_max)
    try:
        for name, type_name, fields in parts:
            if is_frame:
                reader.read_node(fields, name, name, type_name, Kind.STRUCT)
            else:
                fields.parse(data, reader=reader, at_path=name)
        if reader.left:
            raise TrailingBytes(name, reader.at, f"{reader.left} bytes behind the end of the message")
        reader.close()
    except WireError as error:
        reader.record_error(error)
    return Tree(root, data)
