"""The operations that clients are authorized for, and the types of resources that they are done on."""

from __future__ import annotations

from enum import IntEnum

#: The one name that a cluster has.
CLUSTER_NAME = "kafka-cluster"


class ResourceType(IntEnum):
    """The type of resource that an entry protects; the numbers of the wire."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclOperation(IntEnum):
    """An allowed or denied operation; ANY is for filters, ALL for entries. The numbers are also bit positions."""

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
