"""The versions of Apache Kafka that run as the reference."""

from __future__ import annotations

from kwire.schema import DEFAULT_EDITION
from kwire.schema.library import RELEASES
from tools.oracle.jars import KAFKA_VERSIONS, NEWEST_VERSION
from tools.schemas.jars import SOURCES


def test_every_release_has_a_version_and_the_newest_is_the_default_edition() -> None:
    assert set(RELEASES) < set(KAFKA_VERSIONS) == set(SOURCES)
    assert KAFKA_VERSIONS[DEFAULT_EDITION] == NEWEST_VERSION
