"""DescribeAcls (29), CreateAcls (30) and DeleteAcls (31). Source: Kafka's AclApis and AclControlManager."""

from __future__ import annotations

from kwire.error_codes import ErrorCode
from kwire.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse
from kwire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from kwire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from mockbroker.context import Context
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Hangup, Outcome, Reply
from mockbroker.security.authorize import CLUSTER_NAME, Operation, ResourceType, must
from mockbroker.state.acls import UNKNOWN, Acl, AclFilter, PatternType, Permission, check_acl
from mockbroker.state.authorizer import Authorizer

_UNREADABLE = Hangup("an ACL of an unknown kind, 0, which Kafka does not take for a request")


def describe_acls(request: DescribeAclsRequest, ctx: Context) -> Outcome:
    """Tell the entries that match a filter, those with one pattern in one row.

    Pinned by the conversations other-acl-*.
    """
    wanted = AclFilter(
        request.resource_type_filter,
        request.resource_name_filter,
        request.pattern_type_filter,
        request.principal_filter,
        request.host_filter,
        request.operation,
        request.permission_type,
    )
    if _is_unreadable(wanted):
        return _UNREADABLE
    authorizer = _authorizer(Operation.DESCRIBE, ctx)
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for acl in authorizer.find(wanted):
        pattern = acl.resource_type, acl.resource_name, acl.pattern_type
        row = resources.setdefault(pattern, DescribeAclsResource(*pattern, acls=[]))
        row.acls.append(AclDescription(acl.principal, acl.host, acl.operation, acl.permission))
    return Reply(DescribeAclsResponse(resources=list(resources.values())))


def create_acls(request: CreateAclsRequest, ctx: Context) -> Outcome:
    """Take entries; rows fail one by one, and one that is there already is no failure."""
    acls = [_acl(row) for row in request.creations]
    if any(_is_unreadable(acl) for acl in acls):
        return _UNREADABLE
    authorizer = _authorizer(Operation.ALTER, ctx)
    if any(_is_for_filters(acl) for acl in acls):
        # 4.3.0 fails to build such an entry, and with it the whole answer.
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return Reply(CreateAclsResponse(results=[_created(acl, authorizer) for acl in acls]))


def refuse_create_acls(request: CreateAclsRequest, error: KafkaError) -> CreateAclsResponse:
    """A response that carries an error in every row."""
    return CreateAclsResponse(results=[AclCreationResult(error.code, error.message) for _ in request.creations])


def delete_acls(request: DeleteAclsRequest, ctx: Context) -> Outcome:
    """Forget the entries that match filters; one that matches several is told for each of them."""
    filters = [_filter(row) for row in request.filters]
    if any(_is_unreadable(wanted) for wanted in filters):
        return _UNREADABLE
    authorizer = _authorizer(Operation.ALTER, ctx)
    rows, deleted = [], []
    for wanted in filters:
        try:
            wanted.check()
        except KafkaError as error:
            rows.append(DeleteAclsFilterResult(error.code, error.message))
            continue
        found = authorizer.find(wanted)
        deleted += found
        rows.append(DeleteAclsFilterResult(error_message=None, matching_acls=[_matching(acl) for acl in found]))
    authorizer.remove(deleted)
    return Reply(DeleteAclsResponse(filter_results=rows))


def refuse_delete_acls(request: DeleteAclsRequest, error: KafkaError) -> DeleteAclsResponse:
    """A response that carries an error in every row."""
    return DeleteAclsResponse(
        filter_results=[DeleteAclsFilterResult(error.code, error.message) for _ in request.filters]
    )


def _authorizer(operation: Operation, ctx: Context) -> Authorizer:
    """The cluster's authorizer, for those who may use it so.

    Raises: CLUSTER_AUTHORIZATION_FAILED, SECURITY_DISABLED when there is none.
    """
    must(operation, ResourceType.CLUSTER, CLUSTER_NAME, ctx, message=f"{operation.name} of the cluster is not allowed.")
    authorizer = ctx.cluster.authorizer
    if authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No authorizer is configured.")
    return authorizer


def _is_unreadable(one: Acl | AclFilter) -> bool:
    """Kafka fails to read requests with the number 0 in a choice; other numbers without a meaning are refused later."""
    return UNKNOWN in (one.resource_type, one.pattern_type, one.operation, one.permission)


def _is_for_filters(acl: Acl) -> bool:
    patterns = (PatternType.ANY, PatternType.MATCH)
    one_of_any = acl.resource_type == ResourceType.ANY or acl.pattern_type in patterns
    return one_of_any or acl.operation == Operation.ANY or acl.permission == Permission.ANY


def _acl(row: AclCreation) -> Acl:
    return Acl(
        row.resource_type,
        row.resource_name,
        row.resource_pattern_type,
        row.principal,
        row.host,
        row.operation,
        row.permission_type,
    )


def _filter(row: DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        row.resource_type_filter,
        row.resource_name_filter,
        row.pattern_type_filter,
        row.principal_filter,
        row.host_filter,
        row.operation,
        row.permission_type,
    )


def _created(acl: Acl, authorizer: Authorizer) -> AclCreationResult:
    try:
        check_acl(acl)
    except KafkaError as error:
        return AclCreationResult(error.code, error.message)
    authorizer.add(acl)
    return AclCreationResult()


def _matching(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
