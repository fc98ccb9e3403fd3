"""The payload-free index of a capture: where every packet and exchange lies, whom it belongs to, and when it came.

Phase 1 (`built`, or `of` with a sidecar) goes over the file once; phase 2 reads what is asked for: `segments_of` chosen
flows for the generators, and exchanges of clean flows for the fast lane (`kwire.capture.lane`). It needs numpy.
"""

from __future__ import annotations

from kwire.capture.index.build import built
from kwire.capture.index.model import FlowInfo, FlowKey, Index
from kwire.capture.index.segments import segments_of
from kwire.capture.index.sidecar import BESIDE, load, of, save, sidecar_of
from kwire.capture.index.walking.files import NotIndexed

__all__ = [
    "BESIDE",
    "FlowInfo",
    "FlowKey",
    "Index",
    "NotIndexed",
    "built",
    "load",
    "of",
    "save",
    "segments_of",
    "sidecar_of",
]
