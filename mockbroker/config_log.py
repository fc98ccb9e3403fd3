"""The lines about configurations that are set and have no effect, or another one than in Kafka."""

from __future__ import annotations

from mockbroker.config.broker_config import BrokerConfig
from mockbroker.config.plugins import Treatment
from mockbroker.log.subjects import SERVER


def log_configurations(config: BrokerConfig) -> None:
    """Log classes that are not supported, configurations without effect, and those that Kafka does not have."""
    for plugin in config.unsupported_plugins:
        log = SERVER.warning if plugin.key.treatment is Treatment.WARNED else SERVER.info
        template = "%(name)s=%(value)s is not supported: %(effect)s"
        log(template, name=plugin.name, value=plugin.value, effect=plugin.key.effect)
    if config.ignored:
        SERVER.info("configurations without effect: %(names)s", names=", ".join(sorted(config.ignored)))
    if config.unknown:
        template = "configurations unknown to Kafka %(release)s, ignored: %(names)s"
        SERVER.warning(template, release=config.release, names=", ".join(sorted(config.unknown)))
