"""The error codes that a revision lists for an API are the only ones that its edition gives."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kwire.error_codes import ErrorCode

#: What is answered instead of a code that is not listed: the first of these that is.
_INSTEAD: Mapping[ErrorCode, tuple[ErrorCode, ...]] = {
    # Whoever was overtaken by an alteration has no records any more.
    ErrorCode.FENCED_STATE_EPOCH: (ErrorCode.INVALID_RECORD_STATE,),
    # Whoever is asked for what another node has to answer.
    ErrorCode.NOT_LEADER_OR_FOLLOWER: (ErrorCode.NOT_COORDINATOR,),
    ErrorCode.UNKNOWN_MEMBER_ID: (ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_REQUEST),
    ErrorCode.SHARE_SESSION_LIMIT_REACHED: (ErrorCode.SHARE_SESSION_NOT_FOUND,),
    ErrorCode.COORDINATOR_NOT_AVAILABLE: (ErrorCode.NOT_COORDINATOR,),
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: (ErrorCode.NOT_COORDINATOR,),
    ErrorCode.INVALID_GROUP_ID: (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INVALID_REQUEST),
    ErrorCode.UNKNOWN_TOPIC_ID: (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: (ErrorCode.UNKNOWN_TOPIC_ID,),
}
_LAST = (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.INVALID_REQUEST)
#: That there is no such API, as share groups are switched off, is not the API's to say.
_ALWAYS = frozenset({ErrorCode.NONE, ErrorCode.UNSUPPORTED_VERSION})
_FIELDS = ("error_code", "acknowledge_error_code")


def limit_errors(response: msgspec.Struct, listed: frozenset[ErrorCode]) -> None:
    """Put a listed code in the place of each other one, wherever the response has codes."""
    for name in response.__struct_fields__:
        value = getattr(response, name)
        if name in _FIELDS:
            setattr(response, name, int(_nearest(value, listed)))
        elif isinstance(value, list):
            for element in value:
                limit_errors(element, listed)


def _nearest(code: int, listed: frozenset[ErrorCode]) -> int:
    if code in _ALWAYS or code in listed:
        return code
    for candidate in (*_INSTEAD.get(ErrorCode(code), ()), *_LAST):
        if candidate in listed:
            return candidate
    return ErrorCode.UNKNOWN_SERVER_ERROR
