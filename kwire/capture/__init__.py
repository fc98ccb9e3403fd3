"""From a packet capture to rows: every Kafka request with its response, latency, errors, and what was lost.

The rooms follow the way of a capture: file bytes -> `Packet` (`pcap`, `pcapng`) -> `Segment` (`ip`) -> `Data | Gap`
(`reassembly`) -> `Frame` (`talks`, `framing`) -> `Exchange` (`exchange`) -> row (`rows`, `levels`) -> Arrow (`arrow`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from kwire.registry import DEFAULT_EDITION

if TYPE_CHECKING:
    import pyarrow as pa

    from kwire.capture.source import Source


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
    """The rows of one or more captures as an Arrow table. `docs/captures.md` explains levels, columns and options.

    Args: paths: a path, bytes, a binary file object, or several of these.
        ports: the brokers' ports; without them Kafka is found by looking. apis: only rows of these, as `ShareFetch`.
        columns: only these, in this order; what only others need is not decoded, and reading is faster for it.
        topics: names by topic id, for ids that the capture itself does not name.
        tls_keylog: the file with the secrets of TLS connections, beside those that a pcapng file holds itself.
    Raises: CaptureError when a source is no capture; MissingExtra without pyarrow, or without cryptography for TLS;
        ValueError for an unknown level or column, or a key log that is none.
    """
    from kwire.capture import arrow
    from kwire.capture.keylog import read_key_logs
    from kwire.capture.options import Options

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
    return arrow.table(sources, level, options, columns=columns)
