"""UnregisterController: the only controller is active and stays."""

from __future__ import annotations

import pytest

from kwire.error_codes import ErrorCode
from kwire.messages.unregister_controller import UnregisterControllerRequest
from tests.support.brokers.broker import Broker


@pytest.mark.parametrize(
    ("controller_id", "code"),
    [
        (0, ErrorCode.INVALID_REQUEST),
        (1, ErrorCode.CONTROLLER_ID_NOT_REGISTERED),
        (-1, ErrorCode.CONTROLLER_ID_NOT_REGISTERED),
    ],
)
def test_no_controller_can_be_unregistered(controller_id: int, code: ErrorCode) -> None:
    """Pinned by the conversation other-unregister-controller."""
    response = Broker(release="4.4").call(UnregisterControllerRequest(controller_id), 0)

    assert response.error_code == code
    assert response.error_message
