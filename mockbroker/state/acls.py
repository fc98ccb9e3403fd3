"""Access control entries: who may do what to which resource, and the filters that find them."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError

#: Any resource of a type, in an entry with a literal pattern; any host, in an entry.
WILDCARD = "*"
EVERYBODY = "User:*"
#: The one name that a cluster has.
CLUSTER_NAME = "kafka-cluster"
#: Not a choice in any of the enumerations below, and refused before anything else.
UNKNOWN = 0


class ResourceType(IntEnum):
    """What an entry protects; the numbers of the wire."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How an entry names resources; ANY and MATCH are for filters."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """What an entry allows or denies; ANY is for filters, ALL for entries. The numbers are also bit positions."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """Whether an entry allows or denies; ANY is for filters."""

    ANY = 1
    DENY = 2
    ALLOW = 3


class Acl(NamedTuple):
    """One entry. The fields that are choices are plain numbers, as a filter may ask for ones that nobody knows."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int


class AclFilter(NamedTuple):
    """What entries to find; None is any text. Source: Kafka's ResourcePatternFilter and AccessControlEntryFilter."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission: int

    def matches(self, acl: Acl) -> bool:
        """Whether this is one of the entries that are asked for."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._matches_pattern(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def _matches_pattern(self, acl: Acl) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        name = self.resource_name
        if name is None or name == acl.resource_name:
            return True
        # MATCH asks for what has a say about a resource of this name.
        return self.pattern_type == PatternType.MATCH and acl_names(acl, name)

    def check(self) -> None:
        """Refuse choices that nobody knows, as Kafka's controller does before it deletes by a filter.

        Raises: INVALID_REQUEST.
        """
        if not (_is_one(ResourceType, self.resource_type) and _is_one(PatternType, self.pattern_type)):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The filter's pattern is of a kind that is not known.")
        if not (_is_one(Operation, self.operation) and _is_one(Permission, self.permission)):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The filter's entry is of a kind that is not known.")


def acl_names(acl: Acl, resource_name: str) -> bool:
    """Whether the entry is about the resource of this name and of its own type."""
    if acl.pattern_type == PatternType.PREFIXED:
        return resource_name.startswith(acl.resource_name)
    return acl.resource_name in (resource_name, WILDCARD)


def check_acl(acl: Acl) -> None:
    """Refuse an entry that cannot be made. Source: Kafka's AclApis and AclControlManager.

    Operations that do not suit the type of resource are taken.
    Raises: INVALID_REQUEST.
    """
    problem = None
    if acl.resource_type == ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        problem = f"The only name of the cluster is {CLUSTER_NAME}, not {acl.resource_name!r}."
    elif not acl.resource_name:
        problem = "The name of the resource is empty."
    elif not _is_one(ResourceType, acl.resource_type):
        problem = f"{acl.resource_type} is no type of resource."
    elif acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        problem = f"{acl.pattern_type} is no type of pattern."
    elif not _is_one(Operation, acl.operation):
        problem = f"{acl.operation} is no operation."
    elif acl.permission not in (Permission.DENY, Permission.ALLOW):
        problem = f"{acl.permission} neither allows nor denies."
    elif ":" not in acl.principal:
        problem = f"{acl.principal!r} is no principal: it has no colon between type and name."
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)


def _is_one(choices: type[IntEnum], number: int) -> bool:
    return number in choices._value2member_map_
