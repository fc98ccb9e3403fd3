"""CreateDelegationToken (38), RenewDelegationToken (39), ExpireDelegationToken (40), DescribeDelegationToken (41).

Source: KIP-48, KIP-373; Kafka's KafkaApis. Pinned by the conversations other-sasl-tokens*.
"""

from __future__ import annotations

from kwire import uuids
from kwire.error_codes import ErrorCode
from kwire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from kwire.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kwire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from kwire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from mockbroker.engine.context import ANONYMOUS, Context
from mockbroker.engine.outcome import Outcome, Reply
from mockbroker.handlers.shared.authorize import AclOperation, ResourceType, is_authorized
from mockbroker.kafka_error import KafkaError
from mockbroker.state.security.delegation_tokens import USER, DelegationToken

_NEVER = -1


def create_delegation_token(request: CreateDelegationTokenRequest, ctx: Context) -> Outcome:
    """Create a token for the client, or for another owner if it has the permission."""
    requester = ctx.connection.principal
    owner = requester
    if request.owner_principal_name:
        if request.owner_principal_type is None:
            return Reply(_untyped_owner_response())
        owner = f"{request.owner_principal_type}:{request.owner_principal_name}"
    response = CreateDelegationTokenResponse()
    response.principal_type, _, response.principal_name = owner.partition(":")
    if ctx.api_version >= 3:
        response.token_requester_principal_type, _, response.token_requester_principal_name = requester.partition(":")
    try:
        _require_authenticated(ctx)
        if owner != requester and not is_authorized(AclOperation.CREATE_TOKENS, ResourceType.USER, owner, ctx):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
        if any(renewer.principal_type != USER for renewer in request.renewers):
            raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE)
    except KafkaError as error:
        response.error_code = error.code
        response.issue_timestamp_ms = response.expiry_timestamp_ms = response.max_timestamp_ms = _NEVER
        return Reply(response)
    try:
        token = ctx.cluster.security.tokens.create_token(
            uuids.to_text(ctx.rng.randbytes(16)),
            owner=owner,
            requester=requester,
            renewers=tuple(f"{renewer.principal_type}:{renewer.principal_name}" for renewer in request.renewers),
            lifetime_ms=request.max_lifetime_ms,
            now_ms=ctx.now_ms,
        )
    except KafkaError as error:
        # The controller returns this error, with the times at 0.
        response.error_code = error.code
        return Reply(response)
    response.issue_timestamp_ms, response.expiry_timestamp_ms = token.issued_ms, token.expires_ms
    response.max_timestamp_ms, response.token_id, response.hmac = token.latest_ms, token.token_id, token.hmac
    return Reply(response)


def _untyped_owner_response() -> CreateDelegationTokenResponse:
    """The response to an owner without principal type; it names the unauthenticated principal.

    Pinned by the conversation other-token-owner-without-type.
    """
    kind, _, name = ANONYMOUS.partition(":")
    return CreateDelegationTokenResponse(
        error_code=ErrorCode.UNKNOWN_SERVER_ERROR,
        principal_type=kind,
        principal_name=name,
        token_requester_principal_type=kind,
        token_requester_principal_name=name,
        issue_timestamp_ms=_NEVER,
        expiry_timestamp_ms=_NEVER,
        max_timestamp_ms=_NEVER,
    )


def renew_delegation_token(request: RenewDelegationTokenRequest, ctx: Context) -> Outcome:
    """Extend the expiry of a token."""
    try:
        _require_authenticated(ctx)
    except KafkaError as error:
        return Reply(RenewDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=_NEVER))
    expires_ms = ctx.cluster.security.tokens.renew_token(
        bytes(request.hmac), ctx.connection.principal, period_ms=request.renew_period_ms, now_ms=ctx.now_ms
    )
    return Reply(RenewDelegationTokenResponse(expiry_timestamp_ms=expires_ms))


def expire_delegation_token(request: ExpireDelegationTokenRequest, ctx: Context) -> Outcome:
    """Set the expiry of a token, or delete it."""
    try:
        _require_authenticated(ctx)
    except KafkaError as error:
        return Reply(ExpireDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=_NEVER))
    expires_ms = ctx.cluster.security.tokens.expire_token(
        bytes(request.hmac), ctx.connection.principal, period_ms=request.expiry_time_period_ms, now_ms=ctx.now_ms
    )
    return Reply(ExpireDelegationTokenResponse(expiry_timestamp_ms=expires_ms))


def describe_delegation_token(request: DescribeDelegationTokenRequest, ctx: Context) -> Outcome:
    """Return the tokens of some owners and renewers, or all tokens, as far as the client may describe them."""
    _require_authenticated(ctx)
    owners = None
    if request.owners is not None:
        owners = {f"{owner.principal_type}:{owner.principal_name}" for owner in request.owners}

    def is_visible(token: DelegationToken) -> bool:
        """Kafka applies the filter first, then the permission check."""
        if owners is not None and not any(token.is_visible_to(owner) for owner in owners):
            return False
        return (
            token.is_visible_to(ctx.connection.principal)
            or is_authorized(AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id, ctx)
            or is_authorized(AclOperation.DESCRIBE_TOKENS, ResourceType.USER, token.owner, ctx)
        )

    tokens = ctx.cluster.security.tokens.describe_tokens(is_visible, now_ms=ctx.now_ms)
    return Reply(DescribeDelegationTokenResponse(tokens=[_token_row(token, ctx) for token in tokens]))


def _token_row(token: DelegationToken, ctx: Context) -> DescribedDelegationToken:
    renewers = [renewer.split(":", 1) for renewer in token.renewers]
    row = DescribedDelegationToken(
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.latest_ms,
        token_id=token.token_id,
        hmac=token.hmac,
        renewers=[DescribedDelegationTokenRenewer(kind, name) for kind, name in renewers],
    )
    row.principal_type, _, row.principal_name = token.owner.partition(":")
    if ctx.api_version >= 3:
        row.token_requester_principal_type, _, row.token_requester_principal_name = token.requester.partition(":")
    return row


def _require_authenticated(ctx: Context) -> None:
    """Raises: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED for unauthenticated clients and those authenticated by a token."""
    connection = ctx.connection
    is_nobody = connection.protocol == "SSL" and connection.principal == ANONYMOUS
    if connection.is_token or connection.protocol == "PLAINTEXT" or is_nobody:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
