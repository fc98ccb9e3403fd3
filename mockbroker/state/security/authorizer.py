"""Kafka's standard authorizer. Source: StandardAuthorizerData."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from mockbroker.state.changed_keys import ChangedKeys
from mockbroker.state.security.acls import (
    EVERYBODY,
    WILDCARD,
    Acl,
    AclFilter,
    PatternType,
    Permission,
    acl_names,
    is_in_host_range,
)
from mockbroker.state.security.operations import AclOperation, ResourceType

#: An operation is also allowed by an entry that allows one of these; a denial of one of them does not deny it.
_IMPLIED_BY: dict[int, tuple[int, ...]] = {
    AclOperation.DESCRIBE: (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.ALTER_CONFIGS,),
}


class Authorizer:
    """The entries of a cluster, and the authorization of operations.

    super_users: principals that may do everything. allow_if_none_found: whether a resource without entries is open to
    all principals (`allow.everyone.if.no.acl.found`). host_ranges: whether an entry's host may be a range of addresses.
    changed: the entries that are new or gone.
    """

    def __init__(
        self, super_users: Iterable[str] = (), *, allow_if_none_found: bool = False, host_ranges: bool = False
    ) -> None:
        self._host_ranges = host_ranges
        self._super_users = frozenset(super_users)
        self._allow_if_none_found = allow_if_none_found
        # By type, pattern and name: a resource is looked up by its name, by the wildcard, and by those of its prefixes
        # that are as long as one that is there. A name may have 32,767 characters.
        self._acls: dict[tuple[int, int, str], dict[Acl, None]] = {}
        self._prefix_lengths: Counter[int] = Counter()
        self.changed: ChangedKeys[Acl] = ChangedKeys()

    def add_acl(self, acl: Acl) -> None:
        """Add an entry, unless it exists."""
        if self.has_acl(acl):
            return
        self.changed.add(acl)
        if acl.pattern_type == PatternType.PREFIXED and _pattern_key(acl) not in self._acls:
            self._prefix_lengths[len(acl.resource_name)] += 1
        self._acls.setdefault(_pattern_key(acl), {})[acl] = None

    def has_acl(self, acl: Acl) -> bool:
        """Return whether an entry exists."""
        return acl in self._acls.get(_pattern_key(acl), ())

    def remove_acls(self, acls: Iterable[Acl]) -> None:
        """Remove entries."""
        for acl in acls:
            remaining = self._acls.get(_pattern_key(acl), {})
            if acl not in remaining:
                continue
            del remaining[acl]
            self.changed.add(acl)
            if remaining:
                continue
            del self._acls[_pattern_key(acl)]
            if acl.pattern_type == PatternType.PREFIXED:
                self._prefix_lengths -= Counter([len(acl.resource_name)])

    def find_acls(self, acl_filter: AclFilter) -> list[Acl]:
        """The entries that match, those with one pattern together."""
        kind, name, pattern = acl_filter.resource_type, acl_filter.resource_name, acl_filter.pattern_type
        by_pattern: Iterable[Iterable[Acl]] = self._acls.values()
        if name is not None and kind != ResourceType.ANY and pattern in (PatternType.LITERAL, PatternType.PREFIXED):
            # As many filters as entries would be compared with each other.
            by_pattern = [self._acls.get((kind, pattern, name), ())]
        return [acl for acls in by_pattern for acl in acls if acl_filter.matches(acl)]

    def is_allowed(self, principal: str, host: str, operation: AclOperation, kind: ResourceType, name: str) -> bool:
        """Return whether a principal at a host may do this to the resource of this name.

        One entry that denies overrides all that allow. If a resource has entries, but none for this principal, it is
        denied.
        """
        if principal in self._super_users:
            return True
        has_acls = allowed = False
        for acl in self._acls_for(kind, name):
            has_acls = True
            if _applies_to(acl, principal, host, host_ranges=self._host_ranges) and _covers_operation(acl, operation):
                if acl.permission == Permission.DENY:
                    return False
                allowed = True
        return allowed or (self._allow_if_none_found and not has_acls)

    def is_allowed_for_any(self, principal: str, host: str, operation: AclOperation, kind: ResourceType) -> bool:
        """Return whether there can be a resource of this type that the principal may do this to (KIP-679).

        Here READ does not imply DESCRIBE, and a principal that may access a resource without entries may access any.
        """
        if self.is_allowed(principal, host, operation, kind, "hardcode"):
            # The name that Kafka tries first, for super users.
            return True
        acls = self.find_acls(AclFilter(kind, None, PatternType.ANY, None, None, AclOperation.ANY, Permission.ANY))
        acls = [acl for acl in acls if acl.operation in (operation, AclOperation.ALL)]
        applicable = [acl for acl in acls if _applies_to(acl, principal, host, host_ranges=self._host_ranges)]
        denying = [acl for acl in applicable if acl.permission == Permission.DENY]
        if any(acl.pattern_type == PatternType.LITERAL and acl.resource_name == WILDCARD for acl in denying):
            return False
        return any(acl.permission == Permission.ALLOW and not _is_dominated(acl, denying) for acl in applicable)

    def _acls_for(self, kind: int, name: str) -> Iterator[Acl]:
        acls = self._acls
        if not acls:
            return
        yield from acls.get((kind, PatternType.LITERAL, name), ())
        if name != WILDCARD:
            yield from acls.get((kind, PatternType.LITERAL, WILDCARD), ())
        for length in self._prefix_lengths:
            if length <= len(name):
                yield from acls.get((kind, PatternType.PREFIXED, name[:length]), ())


def _pattern_key(acl: Acl) -> tuple[int, int, str]:
    return acl.resource_type, acl.pattern_type, acl.resource_name


def _applies_to(acl: Acl, principal: str, host: str, *, host_ranges: bool) -> bool:
    if acl.principal not in (principal, EVERYBODY):
        return False
    return acl.host in (WILDCARD, host) or (host_ranges and "/" in acl.host and is_in_host_range(host, acl.host))


def _covers_operation(acl: Acl, operation: int) -> bool:
    if acl.operation in (operation, AclOperation.ALL):
        return True
    return acl.permission == Permission.ALLOW and acl.operation in _IMPLIED_BY.get(operation, ())


def _is_dominated(acl: Acl, denying: Collection[Acl]) -> bool:
    """Return whether everything that an entry allows is denied by another one; a wildcard is never fully denied."""
    if acl.pattern_type == PatternType.LITERAL:
        return acl.resource_name != WILDCARD and any(acl_names(denial, acl.resource_name) for denial in denying)
    prefixed = (denial for denial in denying if denial.pattern_type == PatternType.PREFIXED)
    return any(acl_names(denial, acl.resource_name) for denial in prefixed)
