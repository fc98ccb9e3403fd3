"""Kafka's standard authorizer: what the entries together say of one request. Source: StandardAuthorizerData."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from mockbroker.state.acls import (
    EVERYBODY,
    WILDCARD,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    acl_names,
)

#: To be allowed one of these is to be allowed the operation too; to be denied one of them says nothing of it.
_IMPLIED_BY: dict[int, tuple[int, ...]] = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}


class Authorizer:
    """The entries of a cluster, and the answer to whether somebody may do something.

    super_users: principals that may do everything. allow_if_none_found: whether a resource that no entry is about is
    everybody's (`allow.everyone.if.no.acl.found`).
    """

    def __init__(self, super_users: Iterable[str] = (), *, allow_if_none_found: bool = False) -> None:
        self._super_users = frozenset(super_users)
        self._allow_if_none_found = allow_if_none_found
        # By type, pattern and name: a resource is looked up by its name, by the wildcard, and by those of its prefixes
        # that are as long as one that is there. A name may have 32,767 characters.
        self._acls: dict[tuple[int, int, str], dict[Acl, None]] = {}
        self._prefix_lengths: Counter[int] = Counter()

    def add(self, acl: Acl) -> None:
        """Take an entry; one that is there already stays as it is."""
        if acl.pattern_type == PatternType.PREFIXED and _key(acl) not in self._acls:
            self._prefix_lengths[len(acl.resource_name)] += 1
        self._acls.setdefault(_key(acl), {})[acl] = None

    def remove(self, acls: Iterable[Acl]) -> None:
        """Forget entries."""
        for acl in acls:
            kept = self._acls.get(_key(acl), {})
            if acl not in kept:
                continue
            del kept[acl]
            if kept:
                continue
            del self._acls[_key(acl)]
            if acl.pattern_type == PatternType.PREFIXED:
                self._prefix_lengths -= Counter([len(acl.resource_name)])

    def find(self, wanted: AclFilter) -> list[Acl]:
        """The entries that match, those with one pattern together."""
        return [acl for acls in self._acls.values() for acl in acls if wanted.matches(acl)]

    def may(self, principal: str, host: str, operation: Operation, kind: ResourceType, name: str) -> bool:
        """Whether a principal at a host may do this to the resource of this name.

        One entry that denies wins over all that allow. Where entries are about the resource, and none of them about
        this principal, it is denied.
        """
        if principal in self._super_users:
            return True
        found = allowed = False
        for acl in self._about(kind, name):
            found = True
            if _speaks_to(acl, principal, host) and _covers(acl, operation):
                if acl.permission == Permission.DENY:
                    return False
                allowed = True
        return allowed or (self._allow_if_none_found and not found)

    def may_any(self, principal: str, host: str, operation: Operation, kind: ResourceType) -> bool:
        """Whether there can be a resource of this type that the principal may do this to (KIP-679).

        Here READ does not imply DESCRIBE, and a principal that may touch a resource without entries may touch any.
        """
        if self.may(principal, host, operation, kind, "hardcode"):
            # The name that Kafka tries first, for those who may do everything.
            return True
        said = [
            acl
            for acl in self.find(AclFilter(kind, None, PatternType.ANY, None, None, Operation.ANY, Permission.ANY))
            if _speaks_to(acl, principal, host) and acl.operation in (operation, Operation.ALL)
        ]
        denying = [acl for acl in said if acl.permission == Permission.DENY]
        if any(acl.pattern_type == PatternType.LITERAL and acl.resource_name == WILDCARD for acl in denying):
            return False
        return any(acl.permission == Permission.ALLOW and not _is_dominated(acl, denying) for acl in said)

    def _about(self, kind: int, name: str) -> Iterator[Acl]:
        acls = self._acls
        if not acls:
            return
        yield from acls.get((kind, PatternType.LITERAL, name), ())
        if name != WILDCARD:
            yield from acls.get((kind, PatternType.LITERAL, WILDCARD), ())
        for length in self._prefix_lengths:
            if length <= len(name):
                yield from acls.get((kind, PatternType.PREFIXED, name[:length]), ())


def _key(acl: Acl) -> tuple[int, int, str]:
    return acl.resource_type, acl.pattern_type, acl.resource_name


def _speaks_to(acl: Acl, principal: str, host: str) -> bool:
    return acl.principal in (principal, EVERYBODY) and acl.host in (WILDCARD, host)


def _covers(acl: Acl, operation: int) -> bool:
    if acl.operation in (operation, Operation.ALL):
        return True
    return acl.permission == Permission.ALLOW and acl.operation in _IMPLIED_BY.get(operation, ())


def _is_dominated(acl: Acl, denying: Collection[Acl]) -> bool:
    """Whether all that an entry allows is denied by another; of a wildcard something is always left."""
    if acl.pattern_type == PatternType.LITERAL:
        return acl.resource_name != WILDCARD and any(acl_names(one, acl.resource_name) for one in denying)
    return any(one.pattern_type == PatternType.PREFIXED and acl_names(one, acl.resource_name) for one in denying)
