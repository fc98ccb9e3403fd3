"""Access control entries, and the filters that find them."""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import NamedTuple

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.security.operations import CLUSTER_NAME, AclOperation, ResourceType

#: Any resource of a type, in an entry with a literal pattern; any host, in an entry.
WILDCARD = "*"
EVERYBODY = "User:*"
#: Not a value of the enumerations below; it is rejected first.
UNKNOWN = 0


class PatternType(IntEnum):
    """How an entry matches resource names; ANY and MATCH are for filters."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """Return whether an entry allows or denies; ANY is for filters."""

    ANY = 1
    DENY = 2
    ALLOW = 3


class Acl(NamedTuple):
    """One entry. Enumeration fields are plain numbers, as a filter may contain unknown ones."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int


class AclFilter(NamedTuple):
    """A filter; None matches any text. Source: Kafka's ResourcePatternFilter and AccessControlEntryFilter."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission: int

    def matches(self, acl: Acl) -> bool:
        """Return whether the filter matches an entry."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._matches_pattern(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def _matches_pattern(self, acl: Acl) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        name = self.resource_name
        if name is None or name == acl.resource_name:
            return True
        # MATCH finds all entries that apply to a resource of this name.
        return self.pattern_type == PatternType.MATCH and acl_names(acl, name)

    def check_values(self) -> None:
        """Reject unknown values, as Kafka's controller does before it deletes by a filter. Raises: INVALID_REQUEST."""
        if not (_is_member(ResourceType, self.resource_type) and _is_member(PatternType, self.pattern_type)):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The filter's pattern type is unknown.")
        if not (_is_member(AclOperation, self.operation) and _is_member(Permission, self.permission)):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The filter's operation or permission type is unknown.")


def acl_names(acl: Acl, resource_name: str) -> bool:
    """Return whether the entry applies to the resource of this name and of its own type."""
    if acl.pattern_type == PatternType.PREFIXED:
        return resource_name.startswith(acl.resource_name)
    return acl.resource_name in (resource_name, WILDCARD)


def check_acl(acl: Acl) -> None:
    """Reject an invalid entry. Source: Kafka's AclApis and AclControlManager.

    Operations that do not apply to the type of resource are accepted.
    Raises: INVALID_REQUEST.
    """
    problem = None
    if acl.resource_type == ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        problem = f"The only name of the cluster is {CLUSTER_NAME}, not {acl.resource_name!r}."
    elif not acl.resource_name:
        problem = "The name of the resource is empty."
    elif not _is_member(ResourceType, acl.resource_type):
        problem = f"{acl.resource_type} is not a resource type."
    elif acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        problem = f"{acl.pattern_type} is not a pattern type."
    elif not _is_member(AclOperation, acl.operation):
        problem = f"{acl.operation} is not an operation."
    elif acl.permission not in (Permission.DENY, Permission.ALLOW):
        problem = f"{acl.permission} neither allows nor denies."
    elif ":" not in acl.principal:
        problem = f"{acl.principal!r} is not a principal: it has no colon between type and name."
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)


def check_host(host: str, *, ranges_supported: bool) -> None:
    """Reject an empty host, and an invalid range of addresses. Raises: INVALID_REQUEST, UNSUPPORTED_VERSION."""
    if not host:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The host of an entry is empty.")
    if "/" in host and not ranges_supported:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{host} is a range; metadata.version is too low for ranges.")
    if "/" in host and parse_host_range(host) is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{host!r} is not a range of addresses.")


@lru_cache(maxsize=1024)
def parse_host_range(host: str) -> IPv4Network | IPv6Network | None:
    """The addresses of a host with a prefix length, such as 10.0.0.0/8; None if it is none."""
    prefix_length = host.partition("/")[2]
    try:
        return ip_network(host, strict=False) if prefix_length.isdecimal() else None
    except ValueError:
        return None


def is_in_host_range(host: str, host_range: str) -> bool:
    """Whether a client's address is in a range of addresses."""
    network = parse_host_range(host_range)
    try:
        return network is not None and ip_address(host) in network
    except ValueError:
        return False


def _is_member(choices: type[IntEnum], number: int) -> bool:
    return number in choices._value2member_map_
