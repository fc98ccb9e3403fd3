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
from mockbroker.context import ANONYMOUS, Context
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Outcome, Reply
from mockbroker.security.authorize import Operation, ResourceType, may
from mockbroker.state.tokens import USER, Token

_NEVER = -1


def create_delegation_token(request: CreateDelegationTokenRequest, ctx: Context) -> Outcome:
    """Make a token for the one who asks, or for another whom he may make tokens for."""
    requester = ctx.connection.principal
    owner = requester
    if request.owner_principal_name:
        owner = f"{request.owner_principal_type}:{request.owner_principal_name}"
    response = CreateDelegationTokenResponse()
    response.principal_type, _, response.principal_name = owner.partition(":")
    if ctx.api_version >= 3:
        response.token_requester_principal_type, _, response.token_requester_principal_name = requester.partition(":")
    try:
        _check_may_ask(ctx)
        if owner != requester and not may(Operation.CREATE_TOKENS, ResourceType.USER, owner, ctx):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
        if any(renewer.principal_type != USER for renewer in request.renewers):
            raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE)
    except KafkaError as error:
        response.error_code = error.code
        response.issue_timestamp_ms = response.expiry_timestamp_ms = response.max_timestamp_ms = _NEVER
        return Reply(response)
    try:
        token = ctx.cluster.security.tokens.create(
            uuids.to_text(ctx.rng.randbytes(16)),
            owner=owner,
            requester=requester,
            renewers=tuple(f"{renewer.principal_type}:{renewer.principal_name}" for renewer in request.renewers),
            lifetime_ms=request.max_lifetime_ms,
            now_ms=ctx.now_ms,
        )
    except KafkaError as error:
        # This one is said by the controller, which leaves the times at 0.
        response.error_code = error.code
        return Reply(response)
    response.issue_timestamp_ms, response.expiry_timestamp_ms = token.issued_ms, token.expires_ms
    response.max_timestamp_ms, response.token_id, response.hmac = token.latest_ms, token.token_id, token.hmac
    return Reply(response)


def renew_delegation_token(request: RenewDelegationTokenRequest, ctx: Context) -> Outcome:
    """Put off the end of a token."""
    try:
        _check_may_ask(ctx)
    except KafkaError as error:
        return Reply(RenewDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=_NEVER))
    expires_ms = ctx.cluster.security.tokens.renew(
        bytes(request.hmac), ctx.connection.principal, period_ms=request.renew_period_ms, now_ms=ctx.now_ms
    )
    return Reply(RenewDelegationTokenResponse(expiry_timestamp_ms=expires_ms))


def expire_delegation_token(request: ExpireDelegationTokenRequest, ctx: Context) -> Outcome:
    """Set the end of a token, or forget it."""
    try:
        _check_may_ask(ctx)
    except KafkaError as error:
        return Reply(ExpireDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=_NEVER))
    expires_ms = ctx.cluster.security.tokens.expire(
        bytes(request.hmac), ctx.connection.principal, period_ms=request.expiry_time_period_ms, now_ms=ctx.now_ms
    )
    return Reply(ExpireDelegationTokenResponse(expiry_timestamp_ms=expires_ms))


def describe_delegation_token(request: DescribeDelegationTokenRequest, ctx: Context) -> Outcome:
    """Tell the tokens of some owners and renewers, or of all, as far as the one who asks may see them."""
    _check_may_ask(ctx)
    owners = None
    if request.owners is not None:
        owners = {f"{owner.principal_type}:{owner.principal_name}" for owner in request.owners}

    def wanted(token: Token) -> bool:
        """Kafka asks who is meant first, and then for permission."""
        if owners is not None and not any(token.concerns(owner) for owner in owners):
            return False
        return (
            token.concerns(ctx.connection.principal)
            or may(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id, ctx)
            or may(Operation.DESCRIBE_TOKENS, ResourceType.USER, token.owner, ctx)
        )

    tokens = ctx.cluster.security.tokens.described(wanted, now_ms=ctx.now_ms)
    return Reply(DescribeDelegationTokenResponse(tokens=[_described(token, ctx) for token in tokens]))


def _described(token: Token, ctx: Context) -> DescribedDelegationToken:
    row = DescribedDelegationToken(
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.latest_ms,
        token_id=token.token_id,
        hmac=token.hmac,
        renewers=[
            DescribedDelegationTokenRenewer(kind, name)
            for kind, _, name in (renewer.partition(":") for renewer in token.renewers)
        ],
    )
    row.principal_type, _, row.principal_name = token.owner.partition(":")
    if ctx.api_version >= 3:
        row.token_requester_principal_type, _, row.token_requester_principal_name = token.requester.partition(":")
    return row


def _check_may_ask(ctx: Context) -> None:
    """Raises: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED for those who have not proved who they are, or by a token only."""
    connection = ctx.connection
    is_nobody = connection.protocol == "SSL" and connection.principal == ANONYMOUS
    if connection.is_token or connection.protocol == "PLAINTEXT" or is_nobody:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
