"""Random access control lists for the topics, groups and transactional ids of a sequence."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from tools.oracle.fuzz.script_names import GROUPS, TRANSACTIONAL_IDS, Topic

Json = Any

_TOPIC, _GROUP, _TRANSACTIONAL_ID = 2, 3, 5
_LITERAL, _PREFIXED = 3, 4
_DENY, _ALLOW = 2, 3
#: ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS.
_OPERATIONS = (2, 3, 3, 4, 4, 5, 6, 7, 8, 8, 10, 11)
_PRINCIPALS = ("User:ANONYMOUS", "User:ANONYMOUS", "User:*", "User:p-${run}")


def make_creations(rng: random.Random, topics: Sequence[Topic]) -> list[Json]:
    """The creations of a CreateAcls: from then on some requests of the sequence are refused.

    What has no ACL is allowed to all clients, and what has one only to those that it allows.
    """
    names = {
        _TOPIC: [topic.name for topic in topics] + ["new-${run}", "none-${run}"],
        _GROUP: list(GROUPS.values()),
        _TRANSACTIONAL_ID: list(TRANSACTIONAL_IDS.values()),
    }
    creations = []
    for _ in range(rng.randrange(1, 6)):
        kind = rng.choice([_TOPIC, _TOPIC, _GROUP, _GROUP, _TRANSACTIONAL_ID])
        creations.append(
            {
                "resourceType": kind,
                "resourceName": rng.choice(names[kind]),
                "resourcePatternType": rng.choice([_LITERAL, _LITERAL, _LITERAL, _PREFIXED]),
                "principal": rng.choice(_PRINCIPALS),
                "host": rng.choice(["*", "*", "*", "127.0.0.1", "10.0.0.1"]),
                "operation": rng.choice(_OPERATIONS),
                "permissionType": rng.choice([_ALLOW, _ALLOW, _DENY]),
            }
        )
    return creations
