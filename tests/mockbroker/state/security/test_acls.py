"""The standard authorizer against a plain list of entries, and the rules that Kafka's documentation names."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.security.acls import Acl, AclFilter, PatternType, Permission, check_acl
from mockbroker.state.security.authorizer import Authorizer
from mockbroker.state.security.operations import CLUSTER_NAME, AclOperation, ResourceType

TOPIC, LITERAL, PREFIXED = ResourceType.TOPIC, PatternType.LITERAL, PatternType.PREFIXED
READ, DESCRIBE = AclOperation.READ, AclOperation.DESCRIBE
HOST = "127.0.0.1"
ME = "User:ANONYMOUS"
EVERYTHING = AclFilter(ResourceType.ANY, None, PatternType.ANY, None, None, AclOperation.ANY, Permission.ANY)

names = st.sampled_from(["*", "a", "aa", "ab", "aab", "b", "hardcode"])
operations = st.sampled_from([one for one in AclOperation if one is not AclOperation.ANY])
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
    st.sampled_from([AclOperation.ANY, AclOperation.READ, AclOperation.ALL, 99]),
    st.sampled_from([*Permission, 99]),
)


def allow(name: str, operation: int = READ, **fields: Any) -> Acl:
    return Acl(TOPIC, name, LITERAL, "User:*", "*", operation, Permission.ALLOW)._replace(**fields)


def deny(name: str, operation: int = READ, **fields: Any) -> Acl:
    return allow(name, operation, permission=Permission.DENY, **fields)


def authorizer(*entries: Acl, allow_if_none_found: bool = False, super_users: tuple[str, ...] = ()) -> Authorizer:
    under_test = Authorizer(super_users, allow_if_none_found=allow_if_none_found)
    for entry in entries:
        under_test.add_acl(entry)
    return under_test


def is_allowed(under_test: Authorizer, name: str, operation: AclOperation = READ, *, host: str = HOST) -> bool:
    return under_test.is_allowed(ME, host, operation, TOPIC, name)


def is_about(entry: Acl, kind: ResourceType, name: str) -> bool:
    """The model: what an entry is about, written down a second time."""
    if entry.resource_type != kind:
        return False
    if entry.pattern_type == PREFIXED:
        return name[: len(entry.resource_name)] == entry.resource_name
    return entry.resource_name == "*" or entry.resource_name == name  # noqa: PLR1714  # One case each.


def is_allowed_model(
    entries: list[Acl], operation: AclOperation, kind: ResourceType, name: str, *, default: bool
) -> bool:
    about = [entry for entry in entries if is_about(entry, kind, name)]
    applicable = [entry for entry in about if entry.principal in (ME, "User:*") and entry.host in ("*", HOST)]
    denying = [entry for entry in applicable if entry.permission == Permission.DENY]
    if any(entry.operation in (AclOperation.ALL, operation) for entry in denying):
        return False
    enough = {AclOperation.ALL, operation}
    if operation is AclOperation.DESCRIBE:
        enough |= {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}
    if operation is AclOperation.DESCRIBE_CONFIGS:
        enough |= {AclOperation.ALTER_CONFIGS}
    if any(entry.permission == Permission.ALLOW and entry.operation in enough for entry in applicable):
        return True
    return default and not about


@given(st.lists(acls), operations, st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP]), names, st.booleans())
def test_an_authorizer_decides_as_a_plain_list_of_its_entries(
    entries: list[Acl], operation: AclOperation, kind: ResourceType, name: str, default: bool
) -> None:
    under_test = authorizer(*entries, allow_if_none_found=default)

    expected = is_allowed_model(entries, operation, kind, name, default=default)
    assert under_test.is_allowed(ME, HOST, operation, kind, name) == expected


def is_allowed_for_any_model(entries: list[Acl], operation: AclOperation, *, default: bool) -> bool:
    """KIP-679: an allowed pattern counts unless a denied one covers all of it."""
    if is_allowed_model(entries, operation, TOPIC, "hardcode", default=default):
        return True
    applicable = [
        entry
        for entry in entries
        if entry.resource_type == TOPIC
        and entry.principal in (ME, "User:*")
        and entry.host in ("*", HOST)
        and entry.operation in (AclOperation.ALL, operation)
    ]
    denied = {(e.pattern_type, e.resource_name) for e in applicable if e.permission == Permission.DENY}
    allowed = {(e.pattern_type, e.resource_name) for e in applicable if e.permission == Permission.ALLOW}
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
def test_authorization_for_any_topic_is_the_same_as_with_a_plain_list(
    entries: list[Acl], operation: AclOperation, default: bool
) -> None:
    under_test = authorizer(*entries, allow_if_none_found=default)

    expected = is_allowed_for_any_model(entries, operation, default=default)
    assert under_test.is_allowed_for_any(ME, HOST, operation, TOPIC) == expected


@given(st.lists(acls), st.lists(filters, max_size=4))
def test_entries_are_found_and_removed_as_in_a_set(entries: list[Acl], acl_filter: list[AclFilter]) -> None:
    under_test, left = authorizer(*entries), set(entries)

    for one in acl_filter:
        matching = under_test.find_acls(one)

        assert len(matching) == len(set(matching))
        assert set(matching) == {entry for entry in left if one.matches(entry)}
        under_test.remove_acls(matching)
        left -= set(matching)
        assert is_allowed(under_test, "aab") == is_allowed_model(list(left), READ, TOPIC, "aab", default=False)
    assert set(under_test.find_acls(EVERYTHING)) == left


A_DENIAL_WINS = (allow("orders"), allow("*", AclOperation.ALL), deny("ord", pattern_type=PREFIXED))
READ_IS_DENIED = (deny("orders"), allow("orders", DESCRIBE))


@pytest.mark.parametrize(
    ("entries", "name", "operation", "expected"),
    [
        (A_DENIAL_WINS, "orders", READ, False),
        (A_DENIAL_WINS, "bills", READ, True),
        # READ implies DESCRIBE, and its denial does not deny it.
        ([allow("orders")], "orders", DESCRIBE, True),
        (READ_IS_DENIED, "orders", DESCRIBE, True),
        ([allow("orders", DESCRIBE)], "orders", READ, False),
        # ALTER_CONFIGS implies DESCRIBE_CONFIGS, and nothing else.
        ([allow("orders", AclOperation.ALTER_CONFIGS)], "orders", AclOperation.DESCRIBE_CONFIGS, True),
        ([allow("orders", AclOperation.ALTER_CONFIGS)], "orders", DESCRIBE, False),
    ],
)
def test_denials_win_and_some_operations_imply_others(
    entries: list[Acl], name: str, operation: AclOperation, expected: bool
) -> None:
    assert is_allowed(authorizer(*entries), name, operation) is expected


@pytest.mark.parametrize("default", [True, False])
def test_a_resource_without_entries_is_open_to_all_only_if_so_configured(default: bool) -> None:
    under_test = authorizer(allow("bills"), allow_if_none_found=default)

    assert is_allowed(under_test, "orders") is default


def test_an_entry_for_another_principal_closes_a_resource() -> None:
    under_test = authorizer(allow("orders", principal="User:other"), allow_if_none_found=True)

    assert not is_allowed(under_test, "orders")
    assert not is_allowed(under_test, "orders", AclOperation.WRITE)


def test_entries_of_one_type_do_not_apply_to_resources_of_another() -> None:
    under_test = authorizer(deny("orders", resource_type=ResourceType.GROUP), allow_if_none_found=True)

    assert is_allowed(under_test, "orders")


def test_hosts_are_compared_as_written() -> None:
    under_test = authorizer(allow("orders", host="127.0.0.2"))

    assert is_allowed(under_test, "orders", host="127.0.0.2")
    assert not is_allowed(under_test, "orders", host="127.0.0.1")


def test_super_users_may_do_what_is_denied_to_all() -> None:
    under_test = authorizer(deny("orders", AclOperation.ALL), super_users=(ME,))

    assert is_allowed(under_test, "orders")
    assert not under_test.is_allowed("User:other", HOST, AclOperation.READ, TOPIC, "orders")


@pytest.mark.parametrize(
    "invalid",
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
def test_invalid_entries_are_rejected(invalid: Acl) -> None:
    with pytest.raises(KafkaError) as error:
        check_acl(invalid)

    assert error.value.code is ErrorCode.INVALID_REQUEST
    assert error.value.message


def test_entries_need_not_suit_their_resource() -> None:
    check_acl(allow("orders", AclOperation.IDEMPOTENT_WRITE, principal=":"))
    check_acl(allow(CLUSTER_NAME, resource_type=ResourceType.CLUSTER, pattern_type=PREFIXED))


@pytest.mark.parametrize(
    "invalid", [{"resource_type": 99}, {"pattern_type": 99}, {"operation": 99}, {"permission": 99}]
)
def test_filters_of_an_unknown_kind_are_rejected_where_they_delete(invalid: dict[str, Any]) -> None:
    EVERYTHING.check_values()

    with pytest.raises(KafkaError):
        EVERYTHING._replace(**invalid).check_values()
