"""The one exception with which any room of the broker refuses a request."""

from __future__ import annotations

from kwire.error_codes import ErrorCode


class KafkaError(Exception):
    """A refusal for which the protocol has a number.

    Raised anywhere below a handler and turned into a response in one place, `dispatch.refuse`.
    The message says what was seen; Kafka's clients treat it as free text.
    """

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(f"{code.name}: {message}" if message else code.name)
        self.code = code
        self.message = message
