"""Logs configurations that are set and have no effect."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mockbroker.config.plugins import Treatment
from mockbroker.log.subjects import SERVER

if TYPE_CHECKING:
    from mockbroker.config.broker_config import BrokerConfig

_LISTENER_PREFIX = re.compile(r"listener\.name\.[^.]*\.")
#: From which similarity on a name is suggested; Kafka's names have many parts in common.
_SIMILARITY = 0.85


def log_ineffective(config: BrokerConfig) -> None:
    """Log the plug-ins and configurations that have no effect here, and those that Kafka does not know."""
    for plugin in config.unsupported_plugins:
        log = SERVER.warning if plugin.key.treatment is Treatment.WARNED else SERVER.info
        template = "%(name)s=%(value)s is not supported: %(effect)s"
        log(template, name=plugin.name, value=plugin.value, effect=plugin.key.effect)
    if config.ignored:
        SERVER.info("configurations without effect: %(names)s", names=", ".join(sorted(config.ignored)))
    if config.unknown:
        template = "configurations unknown to Kafka %(release)s, ignored: %(names)s"
        SERVER.warning(template, release=config.release, names=", ".join(suggest_known(config)))


def suggest_known(config: BrokerConfig) -> list[str]:
    """The configurations that Kafka does not know, each with the most similar one that it knows."""
    from difflib import get_close_matches  # Few clusters have unknown configurations.

    known = list(config)
    names = []
    for name in sorted(config.unknown):
        prefix = _LISTENER_PREFIX.match(name)
        start = "" if prefix is None else prefix[0]
        nearest = get_close_matches(name.removeprefix(start), known, n=1, cutoff=_SIMILARITY)
        names.append(f"{name} (did you mean {start}{nearest[0]}?)" if nearest else name)
    return names
