"""Rules of the group coordinator that differ between releases, for groups of all types."""

from __future__ import annotations

import msgspec

from kwire.error_codes import ErrorCode


class GroupCoordinatorRules(msgspec.Struct, frozen=True):
    """Groups of all types on their coordinator.

    assigns_emptied_groups: when its last member leaves, a consumer, share or streams group has an empty target of its
    new epoch, and the next target is not delayed; else the epoch of its last target remains.
    assignor_change_bumps_epoch: a heartbeat that changes the server-side assignor of a consumer group raises its epoch.
    frees_former_instances: a member of a consumer group that comes with another instance id loses the former one; else
    it can be found by both.
    readmits_known_instances: a static member whose instance is known comes back to a full consumer group with a new
    member id.
    refuses_classic_members: with the migration policy `disabled`, members of the classic protocol cannot join a
    consumer group that has members.
    unreadable_subscription_error: the error for a member of the classic protocol that joins a consumer group with a
    subscription that cannot be read.
    """

    assigns_emptied_groups: bool = False
    assignor_change_bumps_epoch: bool = False
    frees_former_instances: bool = False
    readmits_known_instances: bool = False
    refuses_classic_members: bool = False
    unreadable_subscription_error: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR


#: The rules of Apache Kafka 4.3.0.
RULES_4_3 = GroupCoordinatorRules()
