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
from kwire.messages.describe_acls import AclDescription, DescribeAclsRequest, DescribeAclsResource, DescribeAclsResponse
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import CloseConnection, Outcome, Reply
from mockbroker.handlers.shared.authorize import AclOperation, ResourceType, authorize_cluster
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.record_limit import RECORDS_MAX, check_record_count
from mockbroker.state.security.acls import UNKNOWN, Acl, AclFilter, PatternType, Permission, check_acl, check_host
from mockbroker.state.security.authorizer import Authorizer

#: The level of metadata.version from which on the host of an entry may be a range of addresses.
_HOST_RANGES_SINCE = 32
_UNREADABLE_REQUEST = CloseConnection("an ACL with an enumeration value of 0, which Kafka cannot parse")


def describe_acls(request: DescribeAclsRequest, ctx: Context) -> Outcome:
    """Return the entries that match a filter; entries of one pattern share a row.

    Pinned by the conversations other-acl-*.
    """
    acl_filter = _to_filter(request)
    if _is_unreadable(acl_filter):
        return _UNREADABLE_REQUEST
    authorizer = _require_authorizer(AclOperation.DESCRIBE, ctx)
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for acl in authorizer.find_acls(acl_filter):
        pattern = acl.resource_type, acl.resource_name, acl.pattern_type
        row = resources.setdefault(pattern, DescribeAclsResource(*pattern, acls=[]))
        row.acls.append(AclDescription(acl.principal, acl.host, acl.operation, acl.permission))
    return Reply(DescribeAclsResponse(resources=list(resources.values())))


def create_acls(request: CreateAclsRequest, ctx: Context) -> Outcome:
    """Add entries; rows fail one by one, and an existing entry is no error. Raises: POLICY_VIOLATION for too many."""
    acls = [_to_acl(row) for row in request.creations]
    if any(_is_unreadable(acl) for acl in acls):
        return _UNREADABLE_REQUEST
    authorizer = _require_authorizer(AclOperation.ALTER, ctx)
    if any(_has_filter_value(acl) for acl in acls):
        # 4.3.0 fails to build such an entry, and with it the whole answer.
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    added: dict[Acl, None] = {}
    rows = [_plan_acl(acl, added, authorizer, ctx) for acl in acls]
    check_record_count(len(added))
    for acl in added:
        authorizer.add_acl(acl)
    return Reply(CreateAclsResponse(results=rows))


def refuse_create_acls(request: CreateAclsRequest, error: KafkaError) -> CreateAclsResponse:
    """A response with the error in every row."""
    return CreateAclsResponse(results=[AclCreationResult(error.code, error.message) for _ in request.creations])


def delete_acls(request: DeleteAclsRequest, ctx: Context) -> Outcome:
    """Delete the entries that match filters; an entry that matches several filters is in the row of each."""
    filters = [_to_filter(row) for row in request.filters]
    if any(_is_unreadable(acl_filter) for acl_filter in filters):
        return _UNREADABLE_REQUEST
    authorizer = _require_authorizer(AclOperation.ALTER, ctx)
    rows: list[DeleteAclsFilterResult] = []
    deleted: dict[Acl, None] = {}
    for acl_filter in filters:
        try:
            acl_filter.check_values()
        except KafkaError as error:
            rows.append(DeleteAclsFilterResult(error.code, error.message))
            continue
        matching = authorizer.find_acls(acl_filter)
        deleted.update(dict.fromkeys(matching))
        if len(deleted) > RECORDS_MAX:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"more than {RECORDS_MAX} entries match: none is deleted")
        matching_rows = [DeleteAclsMatchingAcl(ErrorCode.NONE, None, *acl) for acl in matching]
        rows.append(DeleteAclsFilterResult(error_message=None, matching_acls=matching_rows))
    authorizer.remove_acls(deleted)
    return Reply(DeleteAclsResponse(filter_results=rows))


def refuse_delete_acls(request: DeleteAclsRequest, error: KafkaError) -> DeleteAclsResponse:
    """A response with the error in every row."""
    rows = [DeleteAclsFilterResult(error.code, error.message) for _ in request.filters]
    return DeleteAclsResponse(filter_results=rows)


def _require_authorizer(operation: AclOperation, ctx: Context) -> Authorizer:
    """The cluster's authorizer, if the client may do this operation.

    Raises: CLUSTER_AUTHORIZATION_FAILED, SECURITY_DISABLED when there is none.
    """
    authorize_cluster(operation, ctx, message=f"{operation.name} of the cluster is not allowed.")
    authorizer = ctx.cluster.authorizer
    if authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No authorizer is configured.")
    return authorizer


def _is_unreadable(acl: Acl | AclFilter) -> bool:
    """Return whether Kafka cannot parse the request: an enumeration is 0. Other unknown values fail later."""
    return UNKNOWN in (acl.resource_type, acl.pattern_type, acl.operation, acl.permission)


def _has_filter_value(acl: Acl) -> bool:
    patterns = (PatternType.ANY, PatternType.MATCH)
    one_of_any = acl.resource_type == ResourceType.ANY or acl.pattern_type in patterns
    return one_of_any or acl.operation == AclOperation.ANY or acl.permission == Permission.ANY


def _to_acl(row: AclCreation) -> Acl:
    return Acl(
        row.resource_type,
        row.resource_name,
        row.resource_pattern_type,
        row.principal,
        row.host,
        row.operation,
        row.permission_type,
    )


def _to_filter(row: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        row.resource_type_filter,
        row.resource_name_filter,
        row.pattern_type_filter,
        row.principal_filter,
        row.host_filter,
        row.operation,
        row.permission_type,
    )


def _plan_acl(acl: Acl, added: dict[Acl, None], authorizer: Authorizer, ctx: Context) -> AclCreationResult:
    """The row of an entry, which is among those that are added unless it is invalid or exists."""
    try:
        check_acl(acl)
        if ctx.cluster.release.admin.checks_acl_hosts:
            level = ctx.cluster.features["metadata.version"]
            check_host(acl.host, ranges_supported=level >= _HOST_RANGES_SINCE)
    except KafkaError as error:
        return AclCreationResult(error.code, error.message)
    if not authorizer.has_acl(acl):
        added[acl] = None
    return AclCreationResult()
