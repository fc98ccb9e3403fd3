"""`KafkaError`: the exception with which the broker refuses a request."""

from __future__ import annotations

from kwire.error_codes import ErrorCode


class KafkaError(Exception):
    """A refusal with an error code of the protocol.

    Raised anywhere below a handler and turned into a response in one place, `dispatch.build_error_response`.
    The message describes what was received; clients treat it as free text.
    """

    __module__ = "mockbroker"

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(f"{code.name}: {message}" if message else code.name)
        self.code = code
        self.message = message


class UnservedVersion(KafkaError):
    """A request of a version that the broker does not serve; versions: the first and the last one that it serves."""

    def __init__(self, api_name: str, api_version: int, versions: tuple[int, int]) -> None:
        super().__init__(ErrorCode.UNSUPPORTED_VERSION, f"{api_name} version {api_version}")
        self.versions = versions
