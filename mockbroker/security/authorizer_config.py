"""Creating the authorizer from `authorizer.class.name`, `super.users` and `allow.everyone.if.no.acl.found`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mockbroker.config.broker_config import BrokerConfig, ConfigError

if TYPE_CHECKING:
    from mockbroker.state.security.authorizer import Authorizer


def create_authorizer(config: BrokerConfig, *, host_ranges: bool) -> Authorizer | None:
    """Create the configured authorizer if it is the standard one; others have no effect here.

    host_ranges: whether the host of an entry may be a range of addresses.
    Raises: ConfigError for a super user without a type.
    """
    if not config.has_authorizer:
        return None
    from mockbroker.state.security.authorizer import Authorizer

    # These two configurations are the authorizer's own; Kafka's list of configurations does not contain them.
    super_users = [user.strip() for user in config.given.get("super.users", "").split(";") if user.strip()]
    for user in super_users:
        if ":" not in user:
            raise ConfigError(f"super.users: {user!r} has no colon between type and name")
    allow = config.given.get("allow.everyone.if.no.acl.found", "").strip().lower() == "true"
    return Authorizer(super_users, allow_if_none_found=allow, host_ranges=host_ranges)
