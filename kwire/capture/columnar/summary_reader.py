"""Read the summaries of many exchanges of one API and version from the bytes of their messages, by the accelerator.

The accelerator counts records, and formats acquired ranges and acknowledgements; it returns the bytes of all other
fields that a summary depends on as a key. Exchanges with equal keys have the same text for these, which is made once,
of the decoded messages. Messages with anything unusual, as tagged fields, are left to the caller.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from kwire.accelerator import NATIVE
from kwire.capture.rows.exchange_summary import summarize_head
from kwire.capture.rows.share_rows import ACK_NAMES
from kwire.capture.rows.summary_description import describe_message
from kwire.payload import codec_name
from kwire.registry import codec_of_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kwire.accelerator.plans import NativeSummaryReader
    from kwire.capture.kafka.topic_names import TopicNames

# Of a missing response.
_NOTHING = (b"", "", "", "", None, 0)
# Limit of the stored texts of each API and version.
_STORED_MAX = 4096
_CODECS = tuple(b"" if number == 0 else codec_name(number).encode() for number in range(8))
_ACKS = tuple(ACK_NAMES[kind].encode() for kind in range(len(ACK_NAMES)))


class ExchangeSummary(NamedTuple):
    """The summary of an exchange without its session, and the longest wait in milliseconds that its request allows."""

    text: str
    max_wait_ms: int


class SummaryReader:
    """Reads the summaries of exchanges of one API and version."""

    def __init__(self, request: str, response: str, version: int, names: TopicNames) -> None:
        """Args: request, response: the names of the messages. names: of topics, which do not change."""
        self._read_request = codec_of_name(request).readers[version]
        self._read_response = codec_of_name(response).readers[version]
        self._asked = _native_reader(request, version)
        self._answered = _native_reader(response, version)
        self._names = names
        self._heads: dict[tuple[bytes, bytes], str] = {}

    def read(
        self, data: bytes, request_at: Sequence[int], response_at: Sequence[int]
    ) -> Sequence[ExchangeSummary | None]:
        """The summary of each exchange with valid bodies; None for one that must be decoded.

        Args: request_at, response_at: where the bodies are in the data; -1 for a missing response.
        """
        if self._asked is None or self._answered is None:
            return [None] * len(request_at)
        requests = self._asked.read(data, tuple(request_at))
        responses = self._answered.read(data, tuple(response_at))
        summaries: list[ExchangeSummary | None] = []
        heads = self._heads
        for request, answer, at, answer_at in zip(requests, responses, request_at, response_at, strict=True):
            response = _NOTHING if answer_at < 0 else answer
            if request is None or response is None:
                summaries.append(None)
                continue
            key, _, acknowledgements, records, epoch, wait_ms = request
            answer_key, acquired, _, answer_records, _, _ = response
            head = heads.get((key, answer_key))
            if head is None:
                head = self._make_head(data, at, answer_at)
                heads[key, answer_key] = head
            session = "" if epoch is None else f"session {epoch}"
            parts = (head, acquired, acknowledgements, records, answer_records, session)
            summaries.append(ExchangeSummary("  ".join(filter(None, parts)), max(wait_ms, 0)))
        return summaries

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
