"""Reader of packet captures: rows of every Kafka request with its response, latency and errors, and of lost data.

`reader` is the entry point. `index` finds where everything is: packets, connections, pieces of streams, frames,
exchanges. `columnar` and `traffic` make rows of it; what columns cannot hold are objects of `kafka` and `model`, whose
rows `rows` builds. `files`, `network`, `tcp` and `tls` know the formats. ARCHITECTURE.md shows the way of a packet.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from kwire.registry import DEFAULT_EDITION

if TYPE_CHECKING:
    import pyarrow as pa

    from kwire.capture.files.capture_info import read_capture_info
    from kwire.capture.files.live_capture import LiveCapture
    from kwire.capture.files.source import Source
    from kwire.capture.index import build_index
    from kwire.capture.options import Options
    from kwire.capture.reader import collect_topic_names, read_batches, read_rows

__all__ = [
    "LiveCapture",
    "Options",
    "build_index",
    "collect_topic_names",
    "read_batches",
    "read_capture",
    "read_capture_info",
    "read_rows",
]

#: The modules of the public names that are imported on first use.
_MODULES = {
    "LiveCapture": "kwire.capture.files.live_capture",
    "Options": "kwire.capture.options",
    "build_index": "kwire.capture.index",
    "collect_topic_names": "kwire.capture.reader",
    "read_batches": "kwire.capture.reader",
    "read_capture_info": "kwire.capture.files.capture_info",
    "read_rows": "kwire.capture.reader",
}


def __getattr__(name: str) -> object:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(module), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def read_capture(
    paths: Source | Iterable[Source],
    level: str = "messages",
    *,
    edition: str = DEFAULT_EDITION,
    ports: Iterable[int] = (),
    apis: Iterable[str] = (),
    show_secrets: bool = False,
    payload: bool = False,
    bodies: bool = True,
    columns: Sequence[str] | None = None,
    topics: Mapping[str, str] | None = None,
    tls_keylog: str | os.PathLike[str] | None = None,
) -> pa.Table:
    """Return the rows of one or more captures as an Arrow table. `docs/captures.md` has levels, columns and options.

    Args: paths: a path, bytes, a binary file object, or several of these.
        ports: the brokers' ports; without them, Kafka is detected by content.
        apis: only rows of these APIs, as `ShareFetch`.
        columns: only these, in this order. Fields that no column needs are not decoded, so reading is faster.
        topics: names by topic id, for ids that the capture itself does not name.
        tls_keylog: a file with secrets of TLS connections, in addition to those in pcapng files.
    Raises: CaptureError if a source is not a capture; MissingExtra without pyarrow, or without cryptography for TLS;
        ValueError for an unknown level or column, or a file that is not a key log.
    """
    from kwire.capture.options import Options
    from kwire.capture.reader import read_table
    from kwire.capture.tls.key_log import read_key_logs

    options = Options(
        edition=edition,
        ports=frozenset(ports),
        apis=frozenset(apis),
        show_secrets=show_secrets,
        payload=payload,
        bodies=bodies,
        topics=dict(topics or {}),
        tls_keylog="" if tls_keylog is None else read_key_logs([tls_keylog]),
    )
    is_one = isinstance(paths, (str, bytes, bytearray, memoryview, os.PathLike)) or hasattr(paths, "read")
    sources = [cast("Source", paths)] if is_one else cast("Iterable[Source]", paths)
    return read_table(sources, level, options, columns=columns)
