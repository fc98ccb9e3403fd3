"""Rules of administration that differ between releases."""

from __future__ import annotations

import msgspec


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
