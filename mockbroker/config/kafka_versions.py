"""`ApiLimits`: the API versions of an older broker, of a release of Kafka or by the name of each API.

api_versions.tsv has those of the releases; tools/oracle/api_versions.py reads them from Kafka's jars.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path

import msgspec

from mockbroker.config.features import FeatureSupport
from mockbroker.config.keys import ConfigError

#: The first and the last version.
Range = tuple[int, int]
#: A release, "2.8", or the last version by the name of the API, -1 for none.
VersionsOption = str | Mapping[str, int]

_TABLE = Path(__file__).with_name("api_versions.tsv")
#: The first release with the features of today in ApiVersions, other than metadata.version.
_FIRST_WITH_FEATURES = (4, 0)
_METADATA_VERSION = "metadata.version"
#: The API without which a feature has no effect.
_API_OF_FEATURE = {"group.version": 68, "share.version": 78, "streams.version": 88}
#: Level 2 of transaction.version needs this version of EndTxn (KIP-890).
_TRANSACTION_VERSION, _END_TXN, _END_TXN_VERSION = "transaction.version", 26, 5


class ApiLimits(msgspec.Struct, frozen=True):
    """The versions that a broker serves at most, by API key.

    is_complete: other APIs are not served. has_features: feature levels are listed.
    """

    versions: Mapping[int, Range]
    is_complete: bool = False
    has_features: bool = True

    def range_of(self, api_key: int) -> Range | None:
        """The versions of an API, (0, 32767) without a limit, None if it is not served."""
        given = self.versions.get(api_key)
        if given is None:
            return None if self.is_complete else (0, 0x7FFF)
        return given if given[0] <= given[1] else None

    def limit_features(self, support: FeatureSupport) -> FeatureSupport:
        """The features whose APIs are served; before 4.0 metadata.version alone, which is not listed."""
        if not self.has_features:
            levels = {_METADATA_VERSION: support.levels[_METADATA_VERSION]}
            return msgspec.structs.replace(support, levels=levels, is_listed=False)
        levels = {
            name: span
            for name, span in support.levels.items()
            if name not in _API_OF_FEATURE or self.range_of(_API_OF_FEATURE[name]) is not None
        }
        end_txn = self.range_of(_END_TXN)
        if _TRANSACTION_VERSION in levels and (end_txn is None or end_txn[1] < _END_TXN_VERSION):
            levels[_TRANSACTION_VERSION] = (0, 1)
        return msgspec.structs.replace(support, levels=levels)


def parse_versions(given: VersionsOption) -> ApiLimits:
    """The limits of a release, "2.8" or "2.8.1", or of single APIs, {"Produce": 8} or "Produce=8,Fetch=11".

    Raises: ConfigError for an unknown release or API, and for a version below -1.
    """
    if isinstance(given, str) and "=" not in given:
        return _release_limits(given)
    return ApiLimits({_api_key(name): (0, _version(name, last)) for name, last in _pairs(given)})


def known_releases() -> tuple[str, ...]:
    """The releases whose API versions are known, oldest first."""
    return tuple(_read_table()[1])


def _release_limits(release: str) -> ApiLimits:
    apis = _read_table()[1]
    name = release[: match.end()] if (match := re.match(r"\d+\.\d+(?=\.\d+$|$)", release)) else release
    if name not in apis:
        raise ConfigError(f"versions: {release!r} is no release from {next(iter(apis))} to {list(apis)[-1]}")
    major, minor = name.split(".")
    return ApiLimits(apis[name], is_complete=True, has_features=(int(major), int(minor)) >= _FIRST_WITH_FEATURES)


def _pairs(given: VersionsOption) -> list[tuple[str, object]]:
    if isinstance(given, str):
        return [(name.strip(), last.strip()) for name, _, last in (part.partition("=") for part in given.split(","))]
    return list(given.items())


def _api_key(name: str) -> int:
    keys = _read_table()[0]
    if name not in keys:
        nearest = get_close_matches(name, keys, n=1)
        hint = f"did you mean {nearest[0]!r}?" if nearest else f"the APIs are {', '.join(keys)}"
        raise ConfigError(f"versions: {name!r} is not the name of an API; {hint}")
    return keys[name]


def _version(name: str, given: object) -> int:
    text = str(given)
    if isinstance(given, bool) or not re.fullmatch(r"-1|\d{1,4}", text, re.ASCII):
        raise ConfigError(f"versions: {name}: {given!r} is no version; -1 leaves the API out")
    return int(text)


@cache
def _read_table() -> tuple[dict[str, int], dict[str, dict[int, Range]]]:
    """The keys of APIs by name, and the versions of each by release."""
    header, *rows = (line.split("\t") for line in _TABLE.read_text(encoding="utf-8").splitlines())
    keys = {name: int(key) for key, name, *_ in rows}
    releases: dict[str, dict[int, Range]] = {release: {} for release in header[2:]}
    for key, _, *spans in rows:
        for release, span in zip(header[2:], spans, strict=True):
            if span:
                low, _, high = span.partition("-")
                releases[release][int(key)] = int(low), int(high)
    return keys, releases
