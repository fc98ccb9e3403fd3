"""Logs configurations that are set and have no effect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mockbroker.log.subjects import SERVER

if TYPE_CHECKING:
    from mockbroker.config.broker_config import BrokerConfig


def log_ineffective(config: BrokerConfig) -> None:
    """Log the configurations that have no effect here, and those that Kafka does not know."""
    if config.ignored:
        SERVER.info("configurations without effect: %(names)s", names=", ".join(sorted(config.ignored)))
    if config.unknown:
        template = "configurations unknown to Kafka %(release)s, ignored: %(names)s"
        SERVER.warning(template, release=config.release, names=", ".join(sorted(config.unknown)))
