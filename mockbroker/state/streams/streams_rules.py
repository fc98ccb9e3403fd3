"""Rules of streams groups that differ between releases of Kafka, as a frozen value."""

from __future__ import annotations

import msgspec


class StreamsRules(msgspec.Struct, frozen=True):
    """Members, assignment and reconciliation of streams groups.

    sends_recovery_settings: heartbeats are answered with the interval of task offsets and the acceptable recovery lag.
    accepts_task_offsets: members report the offsets of their tasks, which are described; else such a heartbeat is an
    invalid request.
    accepts_warmup_tasks: a member that has joined may list warm-up tasks; else such a heartbeat is an invalid request.
    accepts_static_members: a member may have an instance id, under which it returns after leaving with epoch -2; else
    such a heartbeat is an invalid request.
    continues_from_current_tasks: an assignment continues from the tasks that members have and from the offsets that
    they report; else from the previous assignment.
    passes_over_holders: a process that has a task is passed over when a copy is placed; else there is no copy if it is
    the first choice.
    computes_process_entries: the assignor's map of processes is filled by computeIfAbsent instead of put, which decides
    between equal processes.
    changes_roles_in_place: a member keeps a standby task until it gets the task as active one, and has an active task
    as standby one while it revokes it; else it revokes the task before it gets it in another role.
    lists_existing_partitions: an endpoint lists the partitions of its tasks that the topic has, in order; else as many
    as the topic has partitions.
    counts_changed_endpoints: the epoch of endpoints is raised when an endpoint or its tasks have changed, and a member
    that joins without an endpoint loses its former one; else it is raised by each join.
    lets_members_rejoin_full_group: a member of a full group may join again.
    """

    sends_recovery_settings: bool = False
    accepts_task_offsets: bool = False
    accepts_warmup_tasks: bool = False
    accepts_static_members: bool = False
    continues_from_current_tasks: bool = False
    passes_over_holders: bool = False
    computes_process_entries: bool = False
    changes_roles_in_place: bool = False
    lists_existing_partitions: bool = False
    counts_changed_endpoints: bool = False
    lets_members_rejoin_full_group: bool = False


#: Those of Kafka 4.3.0.
DEFAULT_STREAMS_RULES = StreamsRules()
