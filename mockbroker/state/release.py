"""What differs between releases of Apache Kafka, as one frozen value, nested by subject.

Handlers and state machines read these fields and never the name of a release. The defaults are those of 4.3.0.
tools/reference builds docs/releases.md from the docstrings here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from kwire.error_codes import ErrorCode
from mockbroker.config.features import FEATURES, FeatureSupport
from mockbroker.state.group.coordinator_rules import RULES_4_3, GroupCoordinatorRules
from mockbroker.state.share.share_rules import DeadLetterRules, FetchRules, GroupRules, ShareRules, StateRules
from mockbroker.state.streams.streams_rules import StreamsRules


class ApiRules(msgspec.Struct, frozen=True):
    """The APIs of a release, compared with those of the newest one, whose table is mockbroker/handlers.

    last_versions: API key to the last version that is served, where a newer release serves more. absent: keys of APIs
    that only newer releases have.
    """

    last_versions: Mapping[int, int] = MappingProxyType({})
    absent: frozenset[int] = frozenset()


class AdminRules(msgspec.Struct, frozen=True):
    """Administration of topics, configurations and ACLs.

    limits_added_partitions: a CreatePartitions that adds more than 10,000 partitions in all is refused; else the topics
    with which it exceeds them have an unknown server error.
    authorizes_broker_first: whether the client may alter the configuration of brokers is checked before the broker's
    id, and a refusal has no text.
    checks_acl_hosts: the host of an ACL must not be empty, and one with a slash is a range of addresses, which needs
    metadata.version 32; else any text is accepted, and only equal hosts match.
    checks_logger_operations: an unknown operation in a change of a broker's loggers is an invalid request; else an
    unknown server error.
    """

    limits_added_partitions: bool = False
    authorizes_broker_first: bool = False
    checks_acl_hosts: bool = False
    checks_logger_operations: bool = False


class Release(msgspec.Struct, frozen=True):
    """One release.

    name: as in `--release`. apis: its APIs and their versions. features: the levels it supports. admin: administration.
    groups: the group coordinator. share: share groups. streams: streams groups. Its configurations are in
    mockbroker/config/configs.tsv.
    """

    name: str
    features: FeatureSupport
    apis: ApiRules = ApiRules()
    admin: AdminRules = AdminRules()
    groups: GroupCoordinatorRules = RULES_4_3
    share: ShareRules = ShareRules()
    streams: StreamsRules = StreamsRules()


_KAFKA_4_3 = Release(
    name="4.3",
    features=FEATURES["4.3"],
    apis=ApiRules(last_versions=MappingProxyType({18: 4, 28: 5, 42: 2, 88: 0, 89: 0}), absent=frozenset({93, 94})),
)

_KAFKA_4_4 = Release(
    name="4.4",
    features=FEATURES["4.4"],
    admin=AdminRules(
        limits_added_partitions=True,
        authorizes_broker_first=True,
        checks_acl_hosts=True,
        checks_logger_operations=True,
    ),
    groups=GroupCoordinatorRules(
        assigns_emptied_groups=True,
        assignor_change_bumps_epoch=True,
        frees_former_instances=True,
        readmits_known_instances=True,
        refuses_classic_members=True,
        unreadable_subscription_error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    ),
    share=ShareRules(
        dead_letters=DeadLetterRules(resumes_archiving=True),
        groups=GroupRules(added_partition_start=0),
        fetch=FetchRules(names_unknown_topics=True),
        state=StateRules(refuses_negative_epochs=True, keeps_highest_start=True, merges_neighbours=True),
    ),
    streams=StreamsRules(
        sends_recovery_settings=True,
        accepts_task_offsets=True,
        accepts_warmup_tasks=True,
        accepts_static_members=True,
        continues_from_current_tasks=True,
        passes_over_holders=True,
        computes_process_entries=True,
        changes_roles_in_place=True,
        lists_existing_partitions=True,
        counts_changed_endpoints=True,
        lets_members_rejoin_full_group=True,
    ),
)

#: All releases by name, newest first.
RELEASES: Mapping[str, Release] = MappingProxyType({release.name: release for release in (_KAFKA_4_4, _KAFKA_4_3)})
