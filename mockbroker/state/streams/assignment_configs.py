"""The settings of the assignor of streams groups: copies of tasks, and the client tags by which they are spread."""

from __future__ import annotations

from mockbroker.state.settings import Settings, read_int
from mockbroker.state.streams.streams_members import StreamsMember
from mockbroker.state.streams.streams_topics import StatusCode, StreamsStatus

#: Names and values of settings, sorted, as the group's records have them.
AssignmentConfigs = tuple[tuple[str, str], ...]

_STANDBYS = "num.standby.replicas"
_TAGS = "rack.aware.assignment.tags"


def standby_count(configs: AssignmentConfigs) -> int:
    """The number of copies of each task with state."""
    return int(dict(configs)[_STANDBYS])


def assignment_configs(settings: Settings) -> AssignmentConfigs:
    """The settings of the assignor; tags only where the release has the configuration, and it is not empty."""
    standbys = (_STANDBYS, str(read_int(settings, "streams.num.standby.replicas")))
    tags = settings.get(f"streams.{_TAGS}")
    return (standbys, (_TAGS, ",".join(tags))) if isinstance(tags, list) and tags else (standbys,)


def missing_tag_statuses(member: StreamsMember, configs: AssignmentConfigs) -> list[StreamsStatus]:
    """The status of a member that lacks tags by which copies are to be spread."""
    required = dict(configs).get(_TAGS, "")
    missing = [tag for tag in required.split(",") if tag not in dict(member.client_tags)] if required else []
    if not missing:
        return []
    return [StreamsStatus(StatusCode.MISSING_CLIENT_TAGS, f"The member lacks required tags: {', '.join(missing)}")]
