"""Heuristics to recognize Kafka and TLS: plausible frames, and the position of the next frame in any bytes."""

from __future__ import annotations

import re
import struct
from functools import cache
from typing import TYPE_CHECKING

from kwire import registry
from kwire.capture.kafka.message_decoder import API_VERSIONS
from kwire.codec import decode_lenient
from kwire.errors import WireError
from kwire.headers import decode_request_header
from kwire.messages.produce import ProduceRequest

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import msgspec

# Length, API key, API version, correlation id, length of the client id: the same in request headers v1 and v2.
REQUEST_HEAD = 14
# The smallest request has a header without client id, and no body.
_REQUEST_SIZE_MIN = 10
_RESPONSE_SIZE_MIN = 4
_CLIENT_ID_MAX = 1024
# A newer client may send versions that the schemas do not have yet.
_VERSIONS_AHEAD = 4

_REQUEST = struct.Struct(">ihhih")
_INT32 = struct.Struct(">i")
TOKEN_CHECKED_SIZE = 1_100
"""How much of a frame `begins_request` reads: at least a header with the longest client id."""
# The same as a pattern, to find candidates fast: sizes from 10 to 512 MiB, keys up to 127, versions up to 31. The
# pattern begins with the byte after the size, since the search for one byte is the fastest.
_SIZE_PATTERN = rb"\x00\x00\x00[\x0a-\xff]|\x00\x00[\x01-\xff].|\x00[\x01-\xff]..|[\x01-\x1f]..."
_REQUEST_PATTERN = re.compile(
    rb"\x00(?<=(?:" + _SIZE_PATTERN + rb")\x00)(?=[\x00-\x7f]\x00[\x00-\x1f].{4}[\x00-\x04\xff])", re.DOTALL
)
_SIZE_MAX = (1 << 29) - 1
# Of more pending requests than this, only responses to the latest are searched for.
_PENDING_MAX = 256

# Limit of decodings for one search, since zeros or crafted bytes may have many candidates.
_CANDIDATES_MAX = 64
_FIRST_SHARE_API = 76
_PRODUCE = 0
# Versions 0 to 2 of ApiVersions have no body; an old librdkafka sends four zero bytes behind version 0.
_API_VERSIONS_WITHOUT_BODY = 2
# Produce before version 3 has no transactional id.
_OLD_PRODUCE_VERSION_MAX = 2
_ACKS = frozenset({-1, 0, 1})
# Acks, timeout and number of topics, with which Produce began before version 3.
_TOPIC_COUNT_MAX = 100_000
_OLD_PRODUCE = struct.Struct(">hii")
EARLY_ACCESS = "4.0-early-access"

TLS_HEADER_SIZE = 5
_TLS_CONTENT = frozenset({20, 21, 22, 23})
_TLS_RECORD = re.compile(rb"(?=[\x14-\x17]\x03[\x01-\x03][\x00-\x48])")
# This many consecutive records are not a coincidence.
_TLS_RECORD_COUNT = 3


def is_tls(data: bytes) -> bool:
    """Whether the bytes begin with a TLS record: content type, version 3.x, and a length that TLS allows."""
    if len(data) < TLS_HEADER_SIZE:
        return False
    return data[0] in _TLS_CONTENT and data[1] == 3 and data[2] <= 4 and (data[3] << 8 | data[4]) <= 0x4800


def holds_tls(data: bytes | bytearray) -> bool:
    """Whether the bytes contain consecutive TLS records. They may begin inside a record."""
    for candidate in _TLS_RECORD.finditer(data):
        at = candidate.start()
        for _ in range(_TLS_RECORD_COUNT):
            if not is_tls(bytes(data[at : at + TLS_HEADER_SIZE])):
                break
            at += TLS_HEADER_SIZE + (data[at + 3] << 8 | data[at + 4])
        else:
            return True
    return False


@cache
def plausible_versions(api_key: int) -> range:
    """The versions that a client may send, with those of older brokers; an empty range for an unknown API."""
    if api_key not in registry.known_api_keys():
        return range(0)
    ahead = _VERSIONS_AHEAD if api_key in registry.API_KEYS else 0
    return range(registry.api_versions(api_key)[1] + 1 + ahead)


@cache
def _is_removed_version(api_key: int, version: int) -> bool:
    """Whether Kafka 4.0 removed the version or its API: their bodies are short, so that many bytes decode as one."""
    # The share group APIs had version 0 in early access.
    is_share = api_key >= _FIRST_SHARE_API
    return api_key not in registry.API_KEYS or (not is_share and version < registry.api_versions(api_key)[0])


def is_request_head(data: bytes | bytearray, at: int, size_max: int) -> bool:
    """Whether a request's length and header may begin at `at`; False with fewer than `REQUEST_HEAD` bytes."""
    if at + REQUEST_HEAD > len(data):
        return False
    size, api_key, version, _, client_size = _REQUEST.unpack_from(data, at)
    if not _REQUEST_SIZE_MIN <= size <= size_max or version not in plausible_versions(api_key):
        return False
    return bool(-1 <= client_size <= min(_CLIENT_ID_MAX, size - _REQUEST_SIZE_MIN))


def is_request(data: bytes | bytearray, at: int, size_max: int) -> bool:
    """Whether a request may begin where a connection or a frame begins: its client id must be text, too.

    A Produce of an old version without a client id must have a plausible body: zeros would be one.
    """
    if not is_request_head(data, at, size_max) or not _has_client_text(data, at):
        return False
    _, api_key, version, correlation_id, client_size = _REQUEST.unpack_from(data, at)
    if client_size > 0:
        return True
    if api_key == _PRODUCE and version <= _OLD_PRODUCE_VERSION_MAX:
        return _is_old_produce(data, at + REQUEST_HEAD)
    return bool(correlation_id >= 0) or not _is_removed_version(api_key, version)


def begins_request(size: int, data: bytes) -> bool:
    """Whether a frame is a request, not a SASL token. Args: size: that the frame states. data: its bytes."""
    return is_request(_INT32.pack(size) + data[:TOKEN_CHECKED_SIZE], 0, max(size, 0))


def _has_client_text(data: bytes | bytearray, at: int) -> bool:
    """Whether the client id of a possible request is text, as far as it is in the data."""
    client_size = _REQUEST.unpack_from(data, at)[4]
    client_id = bytes(data[at + REQUEST_HEAD : at + REQUEST_HEAD + max(client_size, 0)])
    # A client id has no control characters. It may be cut inside a character.
    return client_id.decode("utf-8", "ignore").isprintable()


def _may_be_request(data: bytes | bytearray, at: int, size_max: int) -> bool:
    """Whether a request may begin anywhere in a stream: one of a removed version must have a client id."""
    if not is_request_head(data, at, size_max) or not _has_client_text(data, at):
        return False
    _, api_key, version, _, client_size = _REQUEST.unpack_from(data, at)
    return bool(client_size > 0) or not _is_removed_version(api_key, version)


def is_certain_request(data: bytes | bytearray, at: int, size_max: int) -> bool:
    """Whether a request begins at `at`, by its body: the header of a response with a small correlation id is plausible.

    The two halves of such an id decode as API key 0 (Produce) and a version. So the body of a complete frame must
    decode, and an incomplete frame must have a client id.
    """
    if not is_request_head(data, at, size_max):
        return False
    size, api_key, version, _, client_size = _REQUEST.unpack_from(data, at)
    if _is_removed_version(api_key, version):
        if not _may_be_request(data, at, size_max):
            return False
        # Only now is the size of the client id known to be valid.
        return api_key != _PRODUCE or _is_old_produce(data, at + REQUEST_HEAD + client_size)
    frame = bytes(data[at + 4 : at + 4 + size])
    if len(frame) < size or version > registry.api_versions(api_key)[1]:
        return bool(client_size > 0) and _has_client_text(data, at)
    edition = EARLY_ACCESS if version < registry.api_versions(api_key)[0] else registry.DEFAULT_EDITION
    try:
        _, offset = decode_request_header(frame)
        decoded = decode_lenient(f"{registry.api_name(api_key)}Request", version, frame, edition=edition, at=offset)
    except WireError:
        return False
    if decoded.warnings:
        is_padded = api_key == API_VERSIONS and version <= _API_VERSIONS_WITHOUT_BODY and not any(frame[offset:])
        return is_padded and bool(client_size > 0) and _has_client_text(data, at)
    return _is_sensible(decoded.message)


def _is_old_produce(data: bytes | bytearray, at: int) -> bool:
    if at + _OLD_PRODUCE.size > len(data):
        return False
    acks, timeout_ms, topic_count = _OLD_PRODUCE.unpack_from(data, at)
    return acks in _ACKS and timeout_ms >= 0 and 0 < topic_count < _TOPIC_COUNT_MAX


def _is_sensible(message: msgspec.Struct) -> bool:
    """False for a Produce request without topics, as which a response of zeros decodes."""
    if not isinstance(message, ProduceRequest):
        return True
    return bool(message.topic_data) and message.acks in _ACKS


def find_request(data: bytes | bytearray, starts: Collection[int], size_max: int) -> int | None:
    """The position of a request. `starts` are the begins of packets, where less evidence is required."""
    candidate_count = 0
    for candidate in _REQUEST_PATTERN.finditer(data):
        at = candidate.start() - 4
        if not _may_be_request(data, at, size_max):
            continue
        candidate_count += 1
        if candidate_count > _CANDIDATES_MAX:
            break
        is_complete = at + 4 + _INT32.unpack_from(data, at)[0] <= len(data)
        if (is_complete or at in starts) and is_certain_request(data, at, size_max):
            return at
    return None


def holds_requests(data: bytes | bytearray, size_max: int) -> bool:
    """Whether the bytes contain a complete request with another or nothing after it. They may begin inside one."""
    at = find_request(data, (), size_max)
    if at is None:
        return False
    end = at + 4 + _INT32.unpack_from(data, at)[0]
    return len(data) < end + REQUEST_HEAD or _may_be_request(data, end, size_max)


def find_response(
    data: bytes | bytearray, starts: Collection[int], size_max: int, pending: Mapping[int, int]
) -> int | None:
    """The position of a response: with a pending correlation id, or filling whole packets exactly."""
    candidates = {at for at in starts if _fills_packets(data, at, starts, size_max)}
    first = len(data)
    for correlation_id in list(pending)[-_PENDING_MAX:]:
        # A new pattern for each search would take longer than a search for each id.
        raw_id, at = _INT32.pack(correlation_id), -1
        # The id of a response at the last position before `first` ends 7 bytes behind that.
        while (at := data.find(raw_id, at + 5, first + 7) - 4) >= 0:
            size = _INT32.unpack_from(data, at)[0]
            is_possible = _RESPONSE_SIZE_MIN <= size <= min(size_max, _SIZE_MAX)
            if is_possible and (at in starts or _is_followed(data, at, pending)):
                first = at
                break
    if first < len(data):
        candidates.add(first)
    return min(candidates, default=None)


def _fills_packets(data: bytes | bytearray, at: int, starts: Collection[int], size_max: int) -> bool:
    if at + 8 > len(data):
        return False
    size = _INT32.unpack_from(data, at)[0]
    end = at + 4 + size
    return _RESPONSE_SIZE_MIN <= size <= size_max and (end == len(data) or end in starts)


def _is_followed(data: bytes | bytearray, at: int, pending: Mapping[int, int]) -> bool:
    """Whether the response at `at` ends with the data, or is followed by another pending one."""
    end = at + 4 + _INT32.unpack_from(data, at)[0]
    if end == len(data):
        return True
    return end + 8 <= len(data) and _INT32.unpack_from(data, end + 4)[0] in pending
