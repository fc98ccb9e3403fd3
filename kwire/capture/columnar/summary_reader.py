"""Read the summaries of many exchanges of one API and version from the bytes of their messages, by the accelerator.

The accelerator counts records, and formats acquired ranges and acknowledgements. The bytes of all other fields that a
summary depends on are a key: exchanges with equal keys have the same text for these, its head, which is made once, of
the decoded messages. Messages with anything unusual, as tagged fields, are left to the caller.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple

from kwire.accelerator import NATIVE
from kwire.capture.rows.exchange_summary import summarize_head
from kwire.capture.rows.share_rows import ACK_NAMES
from kwire.capture.rows.summary_description import describe_message
from kwire.payload import codec_name
from kwire.registry import codec_of_version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kwire.accelerator.plans import NativeSummaryReader
    from kwire.capture.kafka.topic_names import TopicNames

# Limit of the stored texts of each API and version.
_STORED_MAX = 4096
_CODECS = tuple(b"" if number == 0 else codec_name(number).encode() for number in range(8))
_ACKS = tuple(ACK_NAMES[kind].encode() for kind in range(len(ACK_NAMES)))


class ExchangeSummaries(NamedTuple):
    """Of exchanges.

    texts: without their sessions; None for those that must be decoded. max_wait_ms: how long the requests allow the
    broker to wait; 0 for those that must be decoded.
    """

    texts: list[str | None]
    max_wait_ms: list[int]


class SummaryReader:
    """Reads the summaries of exchanges of one API and version."""

    def __init__(self, request: str, response: str, version: int, names: TopicNames) -> None:
        """Args: request, response: the names of the messages. names: of topics, which do not change."""
        self._read_request = codec_of_version(request, version).readers[version]
        self._read_response = codec_of_version(response, version).readers[version]
        self._asked = _native_reader(request, version)
        self._answered = _native_reader(response, version)
        self._names = names
        self._heads: dict[bytes, str] = {}

    def read(self, data: bytes, request_at: Sequence[int], response_at: Sequence[int]) -> ExchangeSummaries:
        """The summaries of exchanges with valid bodies.

        Args: request_at, response_at: where the bodies are in the data; -1 for a missing response.
        """
        if self._asked is None or self._answered is None:
            return ExchangeSummaries([None] * len(request_at), [0] * len(request_at))
        make_head = partial(self._make_head, data)
        places = tuple(request_at), tuple(response_at)
        found = self._asked.read(self._answered, data, places, self._heads, make_head)
        return ExchangeSummaries(*found)

    def _make_head(self, data: bytes, at: int, answer_at: int) -> str:
        request, _ = self._read_request(data, at)
        response = self._read_response(data, answer_at)[0] if answer_at >= 0 else None
        if len(self._heads) >= _STORED_MAX:
            self._heads.clear()
        return "  ".join(summarize_head(request, response, self._names))


@cache
def _native_reader(name: str, version: int) -> NativeSummaryReader | None:
    """The accelerator's reader of a message; None where there is none."""
    description = None if NATIVE is None else describe_message(name, version)
    if NATIVE is None or description is None:
        return None
    reader: NativeSummaryReader = NATIVE.SummaryReader(description, _CODECS, _ACKS)
    return reader
