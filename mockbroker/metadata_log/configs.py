"""Dynamic configuration and client quotas as records, and back."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from kwire.records.metadata.client_quota_record import ClientQuotaRecord, EntityData
from kwire.records.metadata.config_record import ConfigRecord
from mockbroker.metadata_log.tables import MetadataLogError, quota_entity
from mockbroker.state.metadata.configs import Resource, ResourceKind

if TYPE_CHECKING:
    from mockbroker.metadata_log.image import MetadataImage
    from mockbroker.state.metadata.client_quotas import ClientQuotas, QuotaEntity
    from mockbroker.state.metadata.configs import Configs

#: The resources whose configuration Kafka stores; that of broker loggers ends with the process.
STORED_KINDS = (ResourceKind.TOPIC, ResourceKind.BROKER, ResourceKind.CLIENT_METRICS, ResourceKind.GROUP)


def describe_configs(configs: Configs, resources: Collection[Resource] | None = None) -> Iterator[ConfigRecord]:
    """All texts that are set, by resource. resources: only of these, None for all."""
    for kind in STORED_KINDS:
        named = resources if resources is None else sorted(each.name for each in resources if each.kind is kind)
        for name in configs.configured_names(kind) if named is None else named:
            for key, text in configs.overrides(Resource(kind, name)).items():
                yield ConfigRecord(int(kind), name, key, text)


def restore_configs(image: MetadataImage, configs: Configs) -> None:
    """Set exactly the texts of an image. Raises: MetadataLogError for a type of resource that Kafka does not store."""
    set_already = [Resource(kind, name) for kind in STORED_KINDS for name in configs.configured_names(kind)]
    texts: dict[Resource, dict[str, str]] = {resource: {} for resource in set_already}
    for record in image.tables[ConfigRecord].values():
        if record.resource_type not in STORED_KINDS:
            raise MetadataLogError(f"ConfigRecord {record.name}: resource type {record.resource_type} is unknown")
        resource = Resource(ResourceKind(record.resource_type), record.resource_name)
        texts.setdefault(resource, {})[record.name] = record.value
    for resource, given in texts.items():
        if configs.overrides(resource) != given:
            configs.set_overrides(resource, given)


def describe_quotas(
    quotas: ClientQuotas, entities: Collection[QuotaEntity] | None = None
) -> Iterator[ClientQuotaRecord]:
    """All quotas, by entity and key. entities: only of these, None for all."""
    found = quotas.find_entities((), strict=False) if entities is None else [(e, quotas.values_of(e)) for e in entities]
    for entity, values in found:
        for key, value in values.items():
            yield ClientQuotaRecord([EntityData(kind, name) for kind, name in entity], key, value, remove=False)


def restore_quotas(image: MetadataImage, quotas: ClientQuotas) -> None:
    """Set exactly the quotas of an image."""
    values: dict[QuotaEntity, dict[str, float]] = {entity: {} for entity, _ in quotas.find_entities((), strict=False)}
    for record in image.tables[ClientQuotaRecord].values():
        values.setdefault(quota_entity(record), {})[record.key] = record.value
    known = dict(quotas.find_entities((), strict=False))
    for entity, given in values.items():
        if known.get(entity, {}) != given:
            quotas.set_quotas(entity, given)
