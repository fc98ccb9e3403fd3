"""Does this look like Kafka? Plausible frames, and where the next one begins in bytes of unknown position."""

from __future__ import annotations

import re
import struct
from functools import cache
from typing import TYPE_CHECKING

from kwire import registry
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
# A newer client may be a few versions ahead of the schemas; it still speaks Kafka.
_VERSIONS_AHEAD = 4

_REQUEST = struct.Struct(">ihhih")
_INT32 = struct.Struct(">i")
# The same as a pattern, to pass quickly over what cannot be one: sizes from 10 to 512 MiB, keys to 127, versions to 31.
# It begins with the byte behind the size, since a search for one byte is the fastest there is.
_SIZE_PATTERN = rb"\x00\x00\x00[\x0a-\xff]|\x00\x00[\x01-\xff].|\x00[\x01-\xff]..|[\x01-\x1f]..."
_REQUEST_PATTERN = re.compile(
    rb"\x00(?<=(?:" + _SIZE_PATTERN + rb")\x00)(?=[\x00-\x7f]\x00[\x00-\x1f].{4}[\x00-\x04\xff])", re.DOTALL
)
# More awaited answers than this are not looked for at once; the latest are.
_AWAITED_MAX = 256

# Bytes that are all zeros, or made to deceive, must not cost more than so many decodings.
_TRIED_MAX = 64
_FIRST_SHARE_API = 76
_PRODUCE = 0
_ACKS = frozenset({-1, 0, 1})
# Acks, timeout and number of topics, with which Produce began before version 3.
_TOPIC_COUNT_MAX = 100_000
_OLD_PRODUCE = struct.Struct(">hii")
# What brokers said to each other before Kafka 4.0 (LeaderAndIsr, StopReplica, UpdateMetadata, ControlledShutdown), with
# the last version of each.
_REMOVED = {4: 7, 5: 4, 6: 8, 7: 3}
EARLY_ACCESS = "4.0-early-access"

_TLS_CONTENT = frozenset({20, 21, 22, 23})
_TLS_RECORD = re.compile(rb"(?=[\x14-\x17]\x03[\x01-\x03][\x00-\x48])")
# So many records in a row are no chance.
_TLS_CHAIN = 3


def is_tls(data: bytes) -> bool:
    """Whether the bytes begin with a TLS record: content type, version 3.x, and a length that TLS allows."""
    if len(data) < 5:
        return False
    return data[0] in _TLS_CONTENT and data[1] == 3 and data[2] <= 4 and (data[3] << 8 | data[4]) <= 0x4800


def holds_tls(data: bytes | bytearray) -> bool:
    """Whether TLS records follow each other somewhere in the bytes, which may begin inside one."""
    for found in _TLS_RECORD.finditer(data):
        at = found.start()
        for _ in range(_TLS_CHAIN):
            if not is_tls(bytes(data[at : at + 5])):
                break
            at += 5 + (data[at + 3] << 8 | data[at + 4])
        else:
            return True
    return False


@cache
def plausible_versions(api_key: int) -> range:
    """The versions that a client may send, those that only older brokers know included; none for an unknown API."""
    if api_key in _REMOVED:
        return range(_REMOVED[api_key] + 1)
    if api_key not in registry.API_KEYS:
        return range(0)
    return range(registry.api_versions(api_key)[1] + 1 + _VERSIONS_AHEAD)


@cache
def _is_old(api_key: int, version: int) -> bool:
    """Whether only brokers before Kafka 4.0 know the version, so that nothing of it can be decoded (KIP-896)."""
    # Share groups and their state had version 0 in early access, of which there are schemas.
    return api_key in _REMOVED or (api_key < _FIRST_SHARE_API and version < registry.api_versions(api_key)[0])


def is_request_head(data: bytes | bytearray, at: int, size_max: int) -> bool:
    """Whether a request's length and header may begin at `at`; False when fewer than `REQUEST_HEAD` bytes are there."""
    if at + REQUEST_HEAD > len(data):
        return False
    size, api_key, version, _, client_size = _REQUEST.unpack_from(data, at)
    if not _REQUEST_SIZE_MIN <= size <= size_max:
        return False
    if version not in plausible_versions(api_key):
        return False
    # What cannot be decoded must at least have a client id: zeros would be version 0 of Produce.
    least = 1 if _is_old(api_key, version) else -1
    return bool(least <= client_size <= min(_CLIENT_ID_MAX, size - _REQUEST_SIZE_MIN))


def is_request(data: bytes | bytearray, at: int, size_max: int) -> bool:
    """Whether a request may begin at a position that nothing else speaks for: its client id must be text, too."""
    if not is_request_head(data, at, size_max):
        return False
    client_size = _REQUEST.unpack_from(data, at)[4]
    client_id = bytes(data[at + REQUEST_HEAD : at + REQUEST_HEAD + max(client_size, 0)])
    # Control characters do not occur in a client id; text that is cut inside a character is no argument against it.
    return client_id.decode("utf-8", "ignore").isprintable()


def is_certain_request(data: bytes | bytearray, at: int, size_max: int) -> bool:
    """Whether a request begins at `at`, by more than its head: a response with a small correlation id looks like one.

    The two halves of such an id read as API key 0 (Produce) and a version. So a frame that is all there must decode,
    and one that is not must at least show a client id.
    """
    if not is_request_head(data, at, size_max):
        return False
    size, api_key, version, _, client_size = _REQUEST.unpack_from(data, at)
    if _is_old(api_key, version):
        return is_request(data, at, size_max) and (
            api_key != _PRODUCE or _is_old_produce(data, at + REQUEST_HEAD + client_size)
        )
    frame = bytes(data[at + 4 : at + 4 + size])
    if len(frame) < size or version > registry.api_versions(api_key)[1]:
        return bool(client_size > 0) and is_request(data, at, size_max)
    edition = EARLY_ACCESS if version < registry.api_versions(api_key)[0] else registry.DEFAULT_EDITION
    try:
        _, offset = decode_request_header(frame)
        found = decode_lenient(f"{registry.api_name(api_key)}Request", version, frame, edition=edition, at=offset)
    except WireError:
        return False
    return not found.oddities and _makes_sense(found.message)


def _is_old_produce(data: bytes | bytearray, at: int) -> bool:
    if at + _OLD_PRODUCE.size > len(data):
        return False
    acks, timeout_ms, topic_count = _OLD_PRODUCE.unpack_from(data, at)
    return acks in _ACKS and timeout_ms >= 0 and 0 < topic_count < _TOPIC_COUNT_MAX


def _makes_sense(message: msgspec.Struct) -> bool:
    """A response of zeros decodes as a Produce request, but as one of nothing to nobody."""
    if not isinstance(message, ProduceRequest):
        return True
    return bool(message.topic_data) and message.acks in _ACKS


def find_request(data: bytes | bytearray, starts: Collection[int], size_max: int) -> int | None:
    """Where a request begins. `starts` are positions where a packet began, which need less evidence than others."""
    tried = 0
    for found in _REQUEST_PATTERN.finditer(data):
        at = found.start() - 4
        if not is_request(data, at, size_max):
            continue
        tried += 1
        if tried > _TRIED_MAX:
            break
        end = at + 4 + _INT32.unpack_from(data, at)[0]
        is_all_there = end <= len(data)
        if (is_all_there or at in starts) and is_certain_request(data, at, size_max):
            return at
    return None


def holds_requests(data: bytes | bytearray, size_max: int) -> bool:
    """Whether a whole request is among bytes that may begin inside another one, and a request or nothing behind it."""
    at = find_request(data, (), size_max)
    if at is None:
        return False
    end = at + 4 + _INT32.unpack_from(data, at)[0]
    return len(data) < end + REQUEST_HEAD or is_request(data, end, size_max)


def find_response(
    data: bytes | bytearray, starts: Collection[int], size_max: int, awaited: Mapping[int, int]
) -> int | None:
    """Where a response begins: with an awaited correlation id, or by filling whole packets exactly."""
    candidates = {at for at in starts if _fills_packets(data, at, starts, size_max)}
    if awaited:
        ids = b"|".join(re.escape(_INT32.pack(each)) for each in list(awaited)[-_AWAITED_MAX:])
        for found in re.finditer(rb"(?=[\x00-\x1f].{3}(?:" + ids + rb"))", data, re.DOTALL):
            at = found.start()
            size = _INT32.unpack_from(data, at)[0]
            if _RESPONSE_SIZE_MIN <= size <= size_max and (at in starts or _leads_on(data, at, awaited)):
                candidates.add(at)
                break
    return min(candidates, default=None)


def _fills_packets(data: bytes | bytearray, at: int, starts: Collection[int], size_max: int) -> bool:
    if at + 8 > len(data):
        return False
    size = _INT32.unpack_from(data, at)[0]
    end = at + 4 + size
    return _RESPONSE_SIZE_MIN <= size <= size_max and (end == len(data) or end in starts)


def _leads_on(data: bytes | bytearray, at: int, awaited: Mapping[int, int]) -> bool:
    """Whether the response at `at` ends with the data, or another awaited one follows it."""
    end = at + 4 + _INT32.unpack_from(data, at)[0]
    if end == len(data):
        return True
    return end + 8 <= len(data) and _INT32.unpack_from(data, end + 4)[0] in awaited
