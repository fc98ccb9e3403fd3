"""Profiles of timers: Kafka's own, or short ones for tests. A profile only sets what an operator could set in Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mockbroker.config.keys import ConfigError

#: Members of the newer protocols send a heartbeat ten times a second.
_HEARTBEAT_MS = "100"

_QUICK = {
    "group.initial.rebalance.delay.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    **{f"group.{kind}.assignment.interval.ms": "0" for kind in ("consumer", "share", "streams")},
    **{f"group.{kind}.min.heartbeat.interval.ms": _HEARTBEAT_MS for kind in ("consumer", "share", "streams")},
    **{f"group.{kind}.heartbeat.interval.ms": _HEARTBEAT_MS for kind in ("consumer", "share", "streams")},
}

#: By name of the profile, the configurations of brokers that it sets; those that are set otherwise take precedence.
PROFILES: Mapping[str, Mapping[str, str]] = MappingProxyType({"kafka": {}, "quick": _QUICK})
DEFAULT_PROFILE = "kafka"


def profile_settings(profile: str) -> Mapping[str, str]:
    """The configurations of a profile. Raises: ConfigError for an unknown one."""
    if profile not in PROFILES:
        raise ConfigError(f"profile: {profile!r} is not one of {', '.join(PROFILES)}")
    return PROFILES[profile]
