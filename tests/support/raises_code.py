"""The error codes with which calls fail."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError


def raises_code(code: ErrorCode) -> pytest.RaisesExc[KafkaError]:
    return pytest.RaisesExc(KafkaError, check=lambda error: error.code is code)


def code_of(call: Callable[[], object]) -> ErrorCode:
    """The code with which a call fails."""
    with pytest.raises(KafkaError) as caught:
        call()
    return caught.value.code
