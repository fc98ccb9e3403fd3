"""Where every field of a message lies: `construct` descriptions made from the schemas, trees, annotated hex.

Shares nothing with the generated codec but the schema parser, and is its second opinion in the tests.
"""

from kwire.layout.describe import describe_bytes, describe_request, describe_response, describe_spec
from kwire.layout.render import render_hex, render_tree
from kwire.layout.tree import Kind, Node, Tree

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
