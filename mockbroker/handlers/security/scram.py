"""DescribeUserScramCredentials (50) and AlterUserScramCredentials (51). Source: Kafka's ScramImage."""

from __future__ import annotations

from collections import Counter

from kwire.error_codes import ErrorCode
from kwire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from kwire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import CloseConnection, Outcome, Park, Reply
from mockbroker.handlers.shared.authorize import AclOperation, authorize_cluster, is_authorized_on_cluster
from mockbroker.kafka_error import KafkaError
from mockbroker.state.security.scram_credentials import CredentialDeletion, CredentialUpsertion


def describe_user_scram_credentials(request: DescribeUserScramCredentialsRequest, ctx: Context) -> Outcome:
    """Return the mechanisms of some users or all; pinned by other-sasl-scram-credentials."""
    if request.users is None and not is_authorized_on_cluster(AclOperation.DESCRIBE, ctx):
        # 4.3.0 fails to build this error response, and does not respond until the connection is idle for too long.
        deadline_ms = ctx.now_ms + ctx.cluster.config.integer("connections.max.idle.ms")
        closed = CloseConnection("idle after a request to which 4.3.0 never responds")
        return Park(deadline_ms, (), lambda _: closed)
    authorize_cluster(AclOperation.DESCRIBE, ctx)
    named = Counter(user.name for user in request.users or ())
    users = named or dict.fromkeys(ctx.cluster.security.credentials.users(), 1)
    rows = [_describe_user(name, times, ctx) for name, times in users.items()]
    return Reply(DescribeUserScramCredentialsResponse(results=rows))


def refuse_describe_user_scram_credentials(
    request: DescribeUserScramCredentialsRequest, error: KafkaError
) -> DescribeUserScramCredentialsResponse:
    """The error at the top level and in a row for each user, which 4.3.0 leaves without a name."""
    row_class = DescribeUserScramCredentialsResult
    rows = [row_class(error_code=error.code, error_message=error.message) for _ in request.users or ()]
    return DescribeUserScramCredentialsResponse(error_code=error.code, error_message=error.message, results=rows)


def _describe_user(user: str, times: int, ctx: Context) -> DescribeUserScramCredentialsResult:
    try:
        if times > 1:
            raise KafkaError(ErrorCode.DUPLICATE_RESOURCE, f"user {user} is listed twice in one request")
        mechanisms = ctx.cluster.security.credentials.describe_user(user)
    except KafkaError as error:
        return DescribeUserScramCredentialsResult(user, error.code, error.message)
    infos = [CredentialInfo(mechanism.number, iterations) for mechanism, iterations in mechanisms]
    return DescribeUserScramCredentialsResult(user, credential_infos=infos)


def alter_user_scram_credentials(request: AlterUserScramCredentialsRequest, ctx: Context) -> Outcome:
    """Create, change and delete credentials; users fail one by one."""
    authorize_cluster(AclOperation.ALTER, ctx, message="ALTER of the cluster is not allowed.")
    deletions = [CredentialDeletion(row.name, row.mechanism) for row in request.deletions]
    upsertions = [
        CredentialUpsertion(row.name, row.mechanism, row.iterations, bytes(row.salt), bytes(row.salted_password))
        for row in request.upsertions
    ]
    results = ctx.cluster.security.credentials.alter_credentials(deletions, upsertions)
    return Reply(AlterUserScramCredentialsResponse(results=[_result_row(user, error) for user, error in results]))


def refuse_alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, error: KafkaError
) -> AlterUserScramCredentialsResponse:
    """A row for each user, in the order of their names."""
    users = {row.name for row in request.deletions} | {row.name for row in request.upsertions}
    return AlterUserScramCredentialsResponse(results=[_result_row(user, error) for user in sorted(users)])


def _result_row(user: str, error: KafkaError | None) -> AlterUserScramCredentialsResult:
    if error is None:
        return AlterUserScramCredentialsResult(user, error_message=None)
    return AlterUserScramCredentialsResult(user, error.code, error.message)
