"""UnregisterController (94): a controller that will not return."""

from __future__ import annotations

from kwire.error_codes import ErrorCode
from kwire.messages.unregister_controller import UnregisterControllerRequest
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome
from mockbroker.handlers.admin.quorum import voter_id
from mockbroker.handlers.shared.authorize import AclOperation, authorize_cluster
from mockbroker.kafka_error import KafkaError


def unregister_controller(request: UnregisterControllerRequest, ctx: Context) -> Outcome:
    """Refuse: the only controller is active. Pinned by the conversation other-unregister-controller.

    Raises: INVALID_REQUEST for that controller, CONTROLLER_ID_NOT_REGISTERED for any other id.
    """
    authorize_cluster(AclOperation.ALTER, ctx, message="ALTER is not allowed.")
    if request.controller_id == voter_id(ctx):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the active controller cannot be unregistered")
    raise KafkaError(ErrorCode.CONTROLLER_ID_NOT_REGISTERED, f"controller {request.controller_id} is not registered")
