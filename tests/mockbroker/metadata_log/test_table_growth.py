"""The work for one change of a stored quota, ACL, SCRAM credential or token does not depend on how many there are."""

from __future__ import annotations

import random
from collections.abc import Callable
from statistics import median
from typing import Any

import msgspec
import pytest

from kwire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from kwire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kwire.messages.create_acls import AclCreation, CreateAclsRequest
from kwire.messages.create_delegation_token import CreateDelegationTokenRequest
from kwire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kwire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kwire.messages.renew_delegation_token import RenewDelegationTokenRequest
from mockbroker.log_directory.simulated_files import SimulatedFiles
from tests.support.brokers.sasl_clients import CONFIG, log_in_plain
from tests.support.stored.admin_operations import AUTHORIZED
from tests.support.stored.stored_broker import StoredBroker
from tests.support.work_count import count_work

_FEW, _MANY, _MEASURED = 10, 300, 5
#: A change with a number, and the version of its request.
Changes = Callable[[int], tuple[msgspec.Struct, int]]


class TableBroker(StoredBroker):
    """A cluster with a data directory, and a client that has logged in."""

    def __init__(self) -> None:
        config = {**CONFIG, **AUTHORIZED, "super.users": "User:alice"}
        super().__init__(SimulatedFiles(random.Random(1)), config=config, snapshot_after=1 << 30)
        log_in_plain(self, "alice", "secret")

    def ask(self, request: msgspec.Struct, version: int) -> Any:
        return self.call(request, version, connection="a")

    def count_last(self, changes: Changes, numbers: range) -> float:
        """Make these changes. Returns: the median work of the last ones."""
        work = []
        for number in numbers:
            request, version = changes(number)
            if number < numbers[-_MEASURED]:
                self.ask(request, version)
            else:
                work.append(count_work(lambda: self.ask(request, version)))  # noqa: B023 - It is called at once.
        return median(work)


def set_quota(number: int) -> tuple[msgspec.Struct, int]:
    entity, change = [EntityData("user", f"u{number}")], OpData("producer_byte_rate", 1000.0, remove=False)
    return AlterClientQuotasRequest([AlterClientQuotasRequestEntryData(entity, [change])]), 1


def remove_quota(number: int) -> tuple[msgspec.Struct, int]:
    entity, change = [EntityData("user", f"u{number}")], OpData("producer_byte_rate", 0.0, remove=True)
    return AlterClientQuotasRequest([AlterClientQuotasRequestEntryData(entity, [change])]), 1


def add_user(number: int) -> tuple[msgspec.Struct, int]:
    change = ScramCredentialUpsertion(f"u{number}", 1, 4096, b"salt", b"p" * 32)
    return AlterUserScramCredentialsRequest([], [change]), 0


def remove_user(number: int) -> tuple[msgspec.Struct, int]:
    return AlterUserScramCredentialsRequest([ScramCredentialDeletion(f"u{number}", 1)], []), 0


def add_acl(number: int) -> tuple[msgspec.Struct, int]:
    return CreateAclsRequest([AclCreation(2, f"t{number}", 3, "User:u", "*", 3, 3)]), 3


def remove_acl(number: int) -> tuple[msgspec.Struct, int]:
    return DeleteAclsRequest([DeleteAclsFilter(2, f"t{number}", 3, None, None, 1, 1)]), 3


@pytest.mark.parametrize(
    ("add", "remove"),
    [(set_quota, remove_quota), (add_user, remove_user), (add_acl, remove_acl)],
    ids=["quotas", "SCRAM", "ACLs"],
)
def test_a_change_of_a_stored_table_costs_the_same_after_many(add: Changes, remove: Changes) -> None:
    broker = TableBroker()
    few = broker.count_last(add, range(_FEW))
    removed_few = broker.count_last(remove, range(_FEW))
    many = broker.count_last(add, range(_MANY))
    changed = broker.count_last(add, range(_FEW))
    stored = sum(len(table) for table in broker.image.tables.values())
    removed_many = broker.count_last(remove, range(_FEW))

    assert max(many, changed) < 1.3 * few
    assert removed_many < 1.3 * removed_few
    assert stored - sum(len(table) for table in broker.image.tables.values()) == _FEW


def test_a_change_of_a_delegation_token_costs_the_same_after_many() -> None:
    broker, secrets = TableBroker(), []

    def create(_number: int) -> tuple[msgspec.Struct, int]:
        secrets.append(broker.ask(CreateDelegationTokenRequest(max_lifetime_ms=10_000_000), 3).hmac)
        return CreateDelegationTokenRequest(max_lifetime_ms=10_000_000), 3

    def renew(number: int) -> tuple[msgspec.Struct, int]:
        return RenewDelegationTokenRequest(secrets[number], 1_000_000), 2

    def expire(number: int) -> tuple[msgspec.Struct, int]:
        return ExpireDelegationTokenRequest(secrets[number], -1), 2

    few = [broker.count_last(kind, range(_FEW)) for kind in (create, renew)]
    broker.count_last(create, range(_FEW, _MANY))
    many = [broker.count_last(kind, range(_FEW, 2 * _FEW)) for kind in (create, renew)]
    expired_many = broker.count_last(expire, range(_FEW))
    broker.count_last(expire, range(_FEW, len(secrets) - _FEW))
    expired_few = broker.count_last(expire, range(len(secrets) - _FEW, len(secrets)))

    assert all(secrets)
    for at in range(2):
        assert many[at] < 1.3 * few[at]
    assert expired_many < 1.3 * expired_few
