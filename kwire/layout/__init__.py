"""Descriptions of messages: the byte range of every field, as a tree, as indented text or as annotated hex.

They come from the schemas by the layouts of `kwire.schema_codec`. The layouts share only the schema parser with the
generated codec, so in the tests each checks the other.
"""

from kwire.layout.describe import describe_bytes, describe_request, describe_response, describe_spec
from kwire.layout.render import render_hex, render_tree
from kwire.schema_codec.tree import Kind, Node, Tree

__all__ = [
    "Kind",
    "Node",
    "Tree",
    "describe_bytes",
    "describe_request",
    "describe_response",
    "describe_spec",
    "render_hex",
    "render_tree",
]
