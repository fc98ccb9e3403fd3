"""Finalized features and blocks of producer ids as records, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from kwire.records.metadata.feature_level_record import FeatureLevelRecord
from kwire.records.metadata.producer_ids_record import ProducerIdsRecord
from mockbroker.state.metadata.feature_levels import KRAFT_VERSION

if TYPE_CHECKING:
    from mockbroker.metadata_log.image import MetadataImage


def describe_features(levels: Mapping[str, int]) -> Iterator[FeatureLevelRecord]:
    """The finalized levels. That of kraft.version is not among them: a control record of the log has it."""
    return (FeatureLevelRecord(name, level) for name, level in levels.items() if name != KRAFT_VERSION)


def describes_others(image: MetadataImage, levels: Mapping[str, int]) -> bool:
    """Whether an image has other levels than these, that of kraft.version left out."""
    stored = {record.name: record.feature_level for record in image.tables[FeatureLevelRecord].values()}
    return stored != {name: level for name, level in levels.items() if name != KRAFT_VERSION}


def restore_features(image: MetadataImage, levels: dict[str, int]) -> None:
    """Replace all levels but that of kraft.version."""
    stored = {record.name: record.feature_level for record in image.tables[FeatureLevelRecord].values()}
    kraft = {KRAFT_VERSION: levels[KRAFT_VERSION]} if KRAFT_VERSION in levels else {}
    levels.clear()
    levels.update({**stored, **kraft})


def describe_producer_ids(
    next_producer_id: int, broker_id: int, previous: MetadataImage
) -> Iterator[ProducerIdsRecord]:
    """The start of the next block of producer ids, if any block has been given out.

    broker_id: named as the receiver of a new block; the cluster does not hold who got the last one.
    """
    known = previous.tables[ProducerIdsRecord].get(())
    if known is not None and known.next_producer_id == next_producer_id:
        yield known
    elif next_producer_id > 0:
        yield ProducerIdsRecord(broker_id, -1, next_producer_id)


def stored_producer_id(image: MetadataImage) -> int:
    """The first producer id of the next block."""
    record = image.tables[ProducerIdsRecord].get(())
    return record.next_producer_id if record is not None else 0
