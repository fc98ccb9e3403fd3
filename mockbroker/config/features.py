"""Feature levels: those that a release of Kafka supports, and those finalized in a freshly formatted cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

import msgspec

from mockbroker.config.keys import ConfigError
from mockbroker.config.releases import DEFAULT_RELEASE

#: Listed only after UpdateFeatures has raised it.
_UNLISTED = "kraft.version"
_METADATA_VERSION = "metadata.version"


class FeatureSupport(msgspec.Struct, frozen=True):
    """The features of a release.

    levels: name to the lowest and the highest level that is supported. metadata_versions_with_new_records: levels of
    metadata.version that a downgrade cannot leave, because their records do not exist below them. is_listed: in the
    answers to ApiVersions.
    """

    levels: Mapping[str, tuple[int, int]]
    metadata_versions_with_new_records: frozenset[int]
    is_listed: bool = True

    def with_unstable_levels(self) -> FeatureSupport:
        """The features of a broker with `unstable.feature.versions.enable`: one more level of metadata.version.

        Source: the answers of 4.3.0 and 4.4.0 brokers to ApiVersions.
        """
        low, high = self.levels[_METADATA_VERSION]
        levels = MappingProxyType({**self.levels, _METADATA_VERSION: (low, high + 1)})
        return FeatureSupport(levels, self.metadata_versions_with_new_records)

    def intersect(self, other: FeatureSupport) -> FeatureSupport:
        """The levels that brokers of both kinds support; features that one lacks, or has no level of, are left out."""
        spans = {
            name: (max(low, other.levels[name][0]), min(high, other.levels[name][1]))
            for name, (low, high) in self.levels.items()
            if name in other.levels
        }
        levels = {name: span for name, span in spans.items() if span[0] <= span[1]}
        return msgspec.structs.replace(self, levels=MappingProxyType(levels))


#: Source: the answer to ApiVersions of a 4.3.0 broker, and Kafka's MetadataVersion.
_FEATURES_4_3 = FeatureSupport(
    levels=MappingProxyType(
        {
            "eligible.leader.replicas.version": (0, 1),
            "group.version": (0, 1),
            "kraft.version": (0, 1),
            "metadata.version": (7, 30),
            "share.version": (0, 1),
            "streams.version": (0, 1),
            "transaction.version": (0, 2),
        }
    ),
    metadata_versions_with_new_records=frozenset({8, 11, 13, 14, 15, 17, 23, 30}),
)

#: Source: the same of 4.4.0.
_FEATURES_4_4 = FeatureSupport(
    levels=MappingProxyType({**_FEATURES_4_3.levels, "metadata.version": (7, 33), "share.version": (0, 2)}),
    metadata_versions_with_new_records=_FEATURES_4_3.metadata_versions_with_new_records | {32, 33},
)

#: The features of each release.
FEATURES: Mapping[str, FeatureSupport] = MappingProxyType({"4.4": _FEATURES_4_4, "4.3": _FEATURES_4_3})


def finalize_levels(
    settings: Iterable[str] = (),
    release: str = DEFAULT_RELEASE,
    *,
    unstable: bool = False,
    limit: Callable[[FeatureSupport], FeatureSupport] = lambda support: support,
) -> dict[str, int]:
    """The finalized levels of a new cluster: the highest, or as in settings such as `share.version=0`.

    Level 0 is not listed, as in Kafka. unstable: `unstable.feature.versions.enable`. limit: those of an older broker.
    Raises: ConfigError for an unknown feature or level.
    """
    features = FEATURES[release]
    supported = limit(features.with_unstable_levels() if unstable else features).levels
    levels = {name: high for name, (_, high) in supported.items() if name != _UNLISTED}
    for setting in settings:
        name, _, text = setting.partition("=")
        if name not in supported:
            raise ConfigError(f"feature {name!r} is not known; known features: {', '.join(supported)}")
        low, high = supported[name]
        if not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
            raise ConfigError(f"feature {name}: level {text!r} is not allowed; valid values: [{low},...,{high}]")
        if name != _UNLISTED:
            levels[name] = int(text)
    return {name: level for name, level in levels.items() if level > 0}
