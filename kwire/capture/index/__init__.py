"""The index of a capture: file position, flow and time of every packet and exchange, without payload.

Phase 1 reads the file once: `build_index`, or `open_index`, which uses a sidecar; phase 2, in `kwire.capture.columnar`
and `kwire.capture.traffic`, only what was requested. `stream_index.StreamIndex` is both in one, for a capture that is
read once. Requires the extra `captures`.
"""

from __future__ import annotations

from kwire.capture.optional_dependencies import explain_missing

try:
    from kwire.capture.index.build import build_index
    from kwire.capture.index.model import FlowInfo, FlowKey, Index
    from kwire.capture.index.scan.files import NotIndexed
    from kwire.capture.index.sidecar import BESIDE, load_index, open_index, sidecar_path, write_sidecar
except ModuleNotFoundError as error:
    raise explain_missing("the index of a capture", error) from error

__all__ = [
    "BESIDE",
    "FlowInfo",
    "FlowKey",
    "Index",
    "NotIndexed",
    "build_index",
    "load_index",
    "open_index",
    "write_sidecar",
    "sidecar_path",
]
