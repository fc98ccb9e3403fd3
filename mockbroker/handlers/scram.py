"""DescribeUserScramCredentials (50) and AlterUserScramCredentials (51). Source: Kafka's ScramImage."""

from __future__ import annotations

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
from mockbroker.context import Context
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Hangup, Outcome, Park, Reply
from mockbroker.security.authorize import CLUSTER_NAME, Operation, ResourceType, may, must
from mockbroker.state.credentials import Deletion, Upsertion

_CLUSTER = (ResourceType.CLUSTER, CLUSTER_NAME)


def describe_user_scram_credentials(request: DescribeUserScramCredentialsRequest, ctx: Context) -> Outcome:
    """Tell users' mechanisms, of all when none is named; pinned by the conversation other-sasl-scram-credentials."""
    if request.users is None and not may(Operation.DESCRIBE, *_CLUSTER, ctx):
        # 4.3.0 fails to build this refusal, and says nothing more on the connection until it is idle for too long.
        idle_ms = ctx.cluster.config.integer("connections.max.idle.ms")
        return Park(ctx.now_ms + idle_ms, (), lambda _: Hangup("idle behind a request that 4.3.0 never answers"))
    must(Operation.DESCRIBE, *_CLUSTER, ctx)
    names = [user.name for user in request.users or ()]
    return Reply(
        DescribeUserScramCredentialsResponse(
            results=[
                _described(name, names.count(name), ctx)
                for name in dict.fromkeys(names or ctx.cluster.security.credentials.users())
            ]
        )
    )


def refuse_describe_user_scram_credentials(
    request: DescribeUserScramCredentialsRequest, error: KafkaError
) -> DescribeUserScramCredentialsResponse:
    """The error at the top and in a row for each user, which 4.3.0 leaves without a name."""
    rows = [
        DescribeUserScramCredentialsResult(error_code=error.code, error_message=error.message)
        for _ in request.users or ()
    ]
    return DescribeUserScramCredentialsResponse(error_code=error.code, error_message=error.message, results=rows)


def _described(user: str, times: int, ctx: Context) -> DescribeUserScramCredentialsResult:
    try:
        if times > 1:
            raise KafkaError(ErrorCode.DUPLICATE_RESOURCE, f"user {user} is asked for twice in one request")
        found = ctx.cluster.security.credentials.of(user)
    except KafkaError as error:
        return DescribeUserScramCredentialsResult(user, error.code, error.message)
    return DescribeUserScramCredentialsResult(
        user, credential_infos=[CredentialInfo(mechanism.number, iterations) for mechanism, iterations in found]
    )


def alter_user_scram_credentials(request: AlterUserScramCredentialsRequest, ctx: Context) -> Outcome:
    """Make, change and forget credentials; users fail one by one."""
    must(Operation.ALTER, *_CLUSTER, ctx, message="ALTER of the cluster is not allowed.")
    deletions = [Deletion(row.name, row.mechanism) for row in request.deletions]
    upsertions = [
        Upsertion(row.name, row.mechanism, row.iterations, bytes(row.salt), bytes(row.salted_password))
        for row in request.upsertions
    ]
    results = ctx.cluster.security.credentials.alter(deletions, upsertions)
    return Reply(AlterUserScramCredentialsResponse(results=[_altered(user, error) for user, error in results]))


def refuse_alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, error: KafkaError
) -> AlterUserScramCredentialsResponse:
    """A row for each user, in the order of their names."""
    users = {row.name for row in request.deletions} | {row.name for row in request.upsertions}
    return AlterUserScramCredentialsResponse(results=[_altered(user, error) for user in sorted(users)])


def _altered(user: str, error: KafkaError | None) -> AlterUserScramCredentialsResult:
    if error is None:
        return AlterUserScramCredentialsResult(user, error_message=None)
    return AlterUserScramCredentialsResult(user, error.code, error.message)
