"""The bytes of requests and responses, by the fields that they belong to."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kwire.errors import UnsupportedVersion
from kwire.layout import describe_request, describe_response, render_hex, render_tree
from kwire.schema import DEFAULT_EDITION
from mockbroker.control.models import exchanges as models
from mockbroker.control.operations import ControlContext
from mockbroker.control.resources.exchanges import find_exchange

if TYPE_CHECKING:
    from kwire.layout import Tree

#: The maximum number of lines of a frame.
LINES_MAX = 2_000
#: The maximum of nodes that are described, and of bytes from the start of a frame that are shown.
_NODES_MAX, _BYTES_MAX = 20_000, 256 << 10


def get_exchange_bytes(control: ControlContext, parameters: models.ExchangeBytesPath) -> models.ExchangeBytes:
    """The bytes of a request and its response, each with its field, as `kwire decode --format tree` shows them.

    Secrets are `***`, and records have a size instead of keys and values unless they are asked for. Of a long frame
    the first 256 KiB, and at most 2,000 lines.
    """
    exchange = find_exchange(control, parameters.number)
    edition = control.cluster.share_edition or DEFAULT_EDITION
    request, response = exchange.request_frame, exchange.response_frame

    def lines_of(size: int, frame: bytes | memoryview | None, describe: Callable[[bytes], Tree]) -> models.FrameBytes:
        if frame is None:
            return models.FrameBytes(size=size, lines=[], problem="its bytes are not kept: it may be a SASL token")
        try:
            tree = describe(bytes(frame[:_BYTES_MAX]))
        except UnsupportedVersion as error:
            return models.FrameBytes(size=size, lines=[], problem=str(error))
        render = render_hex if parameters.view == "hex" else render_tree
        lines = render(tree, payload=parameters.payload).split("\n")
        is_cut = len(lines) > LINES_MAX or len(frame) > _BYTES_MAX
        return models.FrameBytes(size=size, lines=lines[:LINES_MAX], is_cut=is_cut)

    return models.ExchangeBytes(
        number=exchange.number,
        request=lines_of(
            exchange.request_bytes,
            request,
            lambda data: describe_request(data, edition=edition, nodes_max=_NODES_MAX),
        ),
        response=None
        if exchange.answered_ms is None
        else lines_of(
            exchange.response_bytes,
            response,
            lambda data: describe_response(
                data, exchange.api_key, exchange.response_version, edition=edition, nodes_max=_NODES_MAX
            ),
        ),
    )
