"""The standard authorizer against a plain list of entries, and the rules that Kafka's documentation names."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.acls import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    check_acl,
)
from mockbroker.state.authorizer import Authorizer

TOPIC, LITERAL, PREFIXED = ResourceType.TOPIC, PatternType.LITERAL, PatternType.PREFIXED
HOST = "127.0.0.1"
ME = "User:ANONYMOUS"

names = st.sampled_from(["*", "a", "aa", "ab", "aab", "b", "hardcode"])
operations = st.sampled_from([one for one in Operation if one is not Operation.ANY])
acls = st.builds(
    Acl,
    st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP]),
    names,
    st.sampled_from([LITERAL, PREFIXED]),
    st.sampled_from([ME, "User:*", "User:other", "Role:ANONYMOUS"]),
    st.sampled_from(["*", HOST, "127.0.0.2"]),
    operations,
    st.sampled_from([Permission.ALLOW, Permission.DENY]),
)
filters = st.builds(
    AclFilter,
    st.sampled_from([ResourceType.ANY, ResourceType.TOPIC, ResourceType.GROUP, 99]),
    st.none() | names,
    st.sampled_from([*PatternType, 99]),
    st.sampled_from([None, ME, "User:*"]),
    st.sampled_from([None, "*", HOST]),
    st.sampled_from([Operation.ANY, Operation.READ, Operation.ALL, 99]),
    st.sampled_from([*Permission, 99]),
)


def allow(name: str, operation: int = Operation.READ, **fields: Any) -> Acl:
    return Acl(TOPIC, name, LITERAL, "User:*", "*", operation, Permission.ALLOW)._replace(**fields)


def deny(name: str, operation: int = Operation.READ, **fields: Any) -> Acl:
    return allow(name, operation, permission=Permission.DENY, **fields)


def authorizer(*entries: Acl, allow_if_none_found: bool = False, super_users: tuple[str, ...] = ()) -> Authorizer:
    made = Authorizer(super_users, allow_if_none_found=allow_if_none_found)
    for entry in entries:
        made.add(entry)
    return made


def may(made: Authorizer, name: str, operation: Operation = Operation.READ, *, host: str = HOST) -> bool:
    return made.may(ME, host, operation, TOPIC, name)


def is_about(entry: Acl, kind: ResourceType, name: str) -> bool:
    """The model: what an entry is about, written down a second time."""
    if entry.resource_type != kind:
        return False
    if entry.pattern_type == PREFIXED:
        return name[: len(entry.resource_name)] == entry.resource_name
    return entry.resource_name == "*" or entry.resource_name == name  # noqa: PLR1714  # One case each.


def model(entries: list[Acl], operation: Operation, kind: ResourceType, name: str, *, default: bool) -> bool:
    about = [entry for entry in entries if is_about(entry, kind, name)]
    mine = [entry for entry in about if entry.principal in (ME, "User:*") and entry.host in ("*", HOST)]
    if any(entry.permission == Permission.DENY and entry.operation in (Operation.ALL, operation) for entry in mine):
        return False
    enough = {Operation.ALL, operation}
    if operation is Operation.DESCRIBE:
        enough |= {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    if operation is Operation.DESCRIBE_CONFIGS:
        enough |= {Operation.ALTER_CONFIGS}
    if any(entry.permission == Permission.ALLOW and entry.operation in enough for entry in mine):
        return True
    return default and not about


@given(st.lists(acls), operations, st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP]), names, st.booleans())
def test_an_authorizer_answers_as_a_plain_list_of_its_entries(
    entries: list[Acl], operation: Operation, kind: ResourceType, name: str, default: bool
) -> None:
    made = authorizer(*entries, allow_if_none_found=default)

    assert made.may(ME, HOST, operation, kind, name) == model(entries, operation, kind, name, default=default)


def may_any_model(entries: list[Acl], operation: Operation, *, default: bool) -> bool:
    """KIP-679: an allowed pattern counts unless a denied one covers all of it."""
    if model(entries, operation, TOPIC, "hardcode", default=default):
        return True
    mine = [
        entry
        for entry in entries
        if entry.resource_type == TOPIC
        and entry.principal in (ME, "User:*")
        and entry.host in ("*", HOST)
        and entry.operation in (Operation.ALL, operation)
    ]
    denied = {(e.pattern_type, e.resource_name) for e in mine if e.permission == Permission.DENY}
    allowed = {(e.pattern_type, e.resource_name) for e in mine if e.permission == Permission.ALLOW}
    if (LITERAL, "*") in denied:
        return False
    if (LITERAL, "*") in allowed:
        return True
    for pattern, name in allowed:
        prefixes = {(PREFIXED, name[:end]) for end in range(1, len(name) + 1)}
        if not prefixes & denied and not (pattern == LITERAL and (LITERAL, name) in denied):
            return True
    return False


@given(st.lists(acls), operations, st.booleans())
def test_whether_any_topic_is_open_is_answered_as_by_a_plain_list(
    entries: list[Acl], operation: Operation, default: bool
) -> None:
    made = authorizer(*entries, allow_if_none_found=default)

    assert made.may_any(ME, HOST, operation, TOPIC) == may_any_model(entries, operation, default=default)


@given(st.lists(acls), st.lists(filters, max_size=4))
def test_entries_are_found_and_removed_as_in_a_set(entries: list[Acl], wanted: list[AclFilter]) -> None:
    made, left = authorizer(*entries), set(entries)

    for one in wanted:
        found = made.find(one)

        assert len(found) == len(set(found))
        assert set(found) == {entry for entry in left if one.matches(entry)}
        made.remove(found)
        left -= set(found)
        assert may(made, "aab") == model(list(left), Operation.READ, TOPIC, "aab", default=False)
    everything = AclFilter(ResourceType.ANY, None, PatternType.ANY, None, None, Operation.ANY, Permission.ANY)
    assert set(made.find(everything)) == left


def test_a_denial_wins_over_every_permission() -> None:
    made = authorizer(allow("orders"), allow("*", Operation.ALL), deny("ord", pattern_type=PREFIXED))

    assert not may(made, "orders")
    assert may(made, "bills")


def test_read_implies_describe_and_its_denial_does_not_deny_it() -> None:
    assert may(authorizer(allow("orders")), "orders", Operation.DESCRIBE)
    assert may(authorizer(deny("orders"), allow("orders", Operation.DESCRIBE)), "orders", Operation.DESCRIBE)
    assert not may(authorizer(allow("orders", Operation.DESCRIBE)), "orders")


def test_altering_configurations_implies_describing_them_and_nothing_else() -> None:
    made = authorizer(allow("orders", Operation.ALTER_CONFIGS))

    assert may(made, "orders", Operation.DESCRIBE_CONFIGS)
    assert not may(made, "orders", Operation.DESCRIBE)


@pytest.mark.parametrize("default", [True, False])
def test_a_resource_without_entries_is_everybodys_only_if_so_configured(default: bool) -> None:
    made = authorizer(allow("bills"), allow_if_none_found=default)

    assert may(made, "orders") is default


def test_an_entry_about_somebody_else_closes_a_resource() -> None:
    made = authorizer(allow("orders", principal="User:other"), allow_if_none_found=True)

    assert not may(made, "orders")
    assert not may(made, "orders", Operation.WRITE)


def test_entries_of_one_type_say_nothing_of_resources_of_another() -> None:
    made = authorizer(deny("orders", resource_type=ResourceType.GROUP), allow_if_none_found=True)

    assert may(made, "orders")


def test_hosts_are_compared_as_written() -> None:
    made = authorizer(allow("orders", host="127.0.0.2"))

    assert may(made, "orders", host="127.0.0.2")
    assert not may(made, "orders", host="127.0.0.1")


def test_super_users_may_do_what_is_denied_to_all() -> None:
    made = authorizer(deny("orders", Operation.ALL), super_users=(ME,))

    assert may(made, "orders")
    assert not made.may("User:other", HOST, Operation.READ, TOPIC, "orders")


@pytest.mark.parametrize(
    "wrong",
    [
        allow("orders", resource_type=99),
        allow("orders", resource_type=ResourceType.CLUSTER),
        allow(""),
        allow("orders", pattern_type=PatternType.MATCH),
        allow("orders", pattern_type=99),
        allow("orders", operation=99),
        allow("orders", permission=99),
        allow("orders", principal="nobody"),
    ],
)
def test_entries_that_make_no_sense_are_refused(wrong: Acl) -> None:
    with pytest.raises(KafkaError) as refusal:
        check_acl(wrong)

    assert refusal.value.code is ErrorCode.INVALID_REQUEST
    assert refusal.value.message


def test_entries_need_not_suit_their_resource() -> None:
    check_acl(allow("orders", Operation.IDEMPOTENT_WRITE, principal=":"))
    check_acl(allow(CLUSTER_NAME, resource_type=ResourceType.CLUSTER, pattern_type=PREFIXED))


@pytest.mark.parametrize("wrong", [{"resource_type": 99}, {"pattern_type": 99}, {"operation": 99}, {"permission": 99}])
def test_filters_of_an_unknown_kind_are_refused_where_they_delete(wrong: dict[str, Any]) -> None:
    everything = AclFilter(ResourceType.ANY, None, PatternType.ANY, None, None, Operation.ANY, Permission.ANY)
    everything.check()

    with pytest.raises(KafkaError):
        everything._replace(**wrong).check()
