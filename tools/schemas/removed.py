"""What Kafka 4.0 removed of the schemas of Kafka 3.9: the lower versions of each message, and their fields."""

from __future__ import annotations

import json
from typing import Any

from kwire.schema import Versions
from kwire.schema.versions import NONE
from tools.schemas.compare import parse_schema

_SUBSTRUCTS = ("fields", "commonStructs")


def removed_schemas(earlier: dict[str, str], newest: dict[str, str]) -> dict[str, str]:
    """The earlier schemas by file, with only the versions below those of the newest ones; without any they are omitted.

    Versions of share groups before their release are early access, and an edition of their own.
    """
    out: dict[str, str] = {}
    for file, text in earlier.items():
        tree = parse_schema(file, text)
        if file not in newest or file.startswith("Share") or tree["type"] not in {"request", "response", "header"}:
            continue
        removed = removed_range(_versions(tree), _versions(parse_schema(file, newest[file])))
        if removed:
            out[file] = json.dumps({**restrict_fields(tree, removed), "validVersions": str(removed)})
    return out


def removed_range(earlier: Versions, newest: Versions) -> Versions:
    """The earlier versions that are below the newest ones; all of them where there are none left."""
    return earlier if not newest else earlier.intersect(Versions(0, newest.low - 1)) if newest.low else NONE


def restrict_fields(tree: dict[str, Any], versions: Versions) -> dict[str, Any]:
    """A message, struct or field with only the fields that some of the versions have."""
    out = {key: value for key, value in tree.items() if key not in _SUBSTRUCTS}
    for key in _SUBSTRUCTS:
        if key in tree:
            out[key] = [restrict_fields(item, versions) for item in tree[key] if _exists_in(item, versions)]
    return out


def _exists_in(item: dict[str, Any], versions: Versions) -> bool:
    return bool(Versions.parse(item.get("versions") or item["taggedVersions"]).intersect(versions))


def _versions(tree: dict[str, Any]) -> Versions:
    return Versions.parse(tree["validVersions"])
