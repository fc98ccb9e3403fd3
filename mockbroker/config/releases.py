"""The releases of Apache Kafka that a cluster can be."""

from __future__ import annotations

from kwire.registry import RELEASES
from mockbroker.config.keys import ConfigError

__all__ = ["DEFAULT_RELEASE", "EDITION_RELEASE", "RELEASES", "choose_release"]

#: The release of a cluster for which no other is selected.
DEFAULT_RELEASE = "4.4"

#: The release that the editions of share groups change: all else is served as by this one.
EDITION_RELEASE = "4.3"


def choose_release(release: str | None, share_edition: str | None = None) -> str:
    """The name of the selected release, of the default one, or of the one that an edition of share groups changes.

    Raises: ConfigError for an unknown release, and for an edition with any other release than its own.
    """
    if release is None:
        return DEFAULT_RELEASE if share_edition is None else EDITION_RELEASE
    if release not in RELEASES:
        raise ConfigError(f"release: {release!r} is not one of {', '.join(RELEASES)}")
    if share_edition is not None and release != EDITION_RELEASE:
        raise ConfigError(f"release: share edition {share_edition!r} is served by {EDITION_RELEASE}, not by {release}")
    return release
