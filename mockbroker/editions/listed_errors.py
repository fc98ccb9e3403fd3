"""Replacement of error codes that a revision does not list for an API."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kwire.error_codes import ErrorCode

#: The replacements of a code that is not listed: the first listed one is used.
_REPLACEMENTS: Mapping[ErrorCode, tuple[ErrorCode, ...]] = {
    # After an alteration of the start a member holds no records any more.
    ErrorCode.FENCED_STATE_EPOCH: (ErrorCode.INVALID_RECORD_STATE,),
    # A request that another node must handle.
    ErrorCode.NOT_LEADER_OR_FOLLOWER: (ErrorCode.NOT_COORDINATOR,),
    ErrorCode.UNKNOWN_MEMBER_ID: (ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_REQUEST),
    ErrorCode.SHARE_SESSION_LIMIT_REACHED: (ErrorCode.SHARE_SESSION_NOT_FOUND,),
    ErrorCode.COORDINATOR_NOT_AVAILABLE: (ErrorCode.NOT_COORDINATOR,),
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: (ErrorCode.NOT_COORDINATOR,),
    ErrorCode.INVALID_GROUP_ID: (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INVALID_REQUEST),
    ErrorCode.UNKNOWN_TOPIC_ID: (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: (ErrorCode.UNKNOWN_TOPIC_ID,),
}
_FALLBACKS = (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.INVALID_REQUEST)
#: An API that is missing since share groups are switched off is not an error of the API.
_ALWAYS_ALLOWED = frozenset({ErrorCode.NONE, ErrorCode.UNSUPPORTED_VERSION})
_FIELDS = ("error_code", "acknowledge_error_code")


def replace_unlisted_errors(response: msgspec.Struct, listed: frozenset[ErrorCode]) -> None:
    """Replace each error code of a response that is not listed."""
    for name in response.__struct_fields__:
        value = getattr(response, name)
        if name in _FIELDS:
            setattr(response, name, int(_find_listed_code(value, listed)))
        elif isinstance(value, list):
            for element in value:
                replace_unlisted_errors(element, listed)


def _find_listed_code(code: int, listed: frozenset[ErrorCode]) -> int:
    if code in _ALWAYS_ALLOWED or code in listed:
        return code
    candidates = (*_REPLACEMENTS.get(ErrorCode(code), ()), *_FALLBACKS)
    return next((candidate for candidate in candidates if candidate in listed), ErrorCode.UNKNOWN_SERVER_ERROR)
