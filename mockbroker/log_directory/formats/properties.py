"""Small text files: meta.properties of a directory, partition.metadata of a partition, the mark of a clean shutdown.

Source: Kafka's PropertiesUtils, PartitionMetadataFile and CleanShutdownFileHandler.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from kwire import uuids
from kwire.errors import InvalidValue
from mockbroker.log_directory.formats.damage import DamagedFileError

META_PROPERTIES = "meta.properties"
PARTITION_METADATA = "partition.metadata"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"

_META_VERSION = "1"
_PARTITION_VERSION = "0"


class DirectoryIdentity(msgspec.Struct, frozen=True):
    """Whose directory it is. directory_id: 16 bytes, of which Kafka's controller knows where each replica is."""

    cluster_id: str
    node_id: int
    directory_id: bytes


def write_meta_properties(identity: DirectoryIdentity) -> bytes:
    """The file of an identity."""
    properties = {
        "version": _META_VERSION,
        "cluster.id": identity.cluster_id,
        "node.id": identity.node_id,
        "directory.id": uuids.to_text(identity.directory_id),
    }
    return "".join(f"{key}={value}\n" for key, value in properties.items()).encode()


def read_meta_properties(data: bytes, name: str) -> DirectoryIdentity:
    """The identity. Raises: DamagedFileError."""
    properties = _read_pairs(data, name, "=")
    if properties.get("version") != _META_VERSION:
        raise DamagedFileError(name, None, f"version {properties.get('version')!r}; expected {_META_VERSION}")
    node_id = _required(properties, "node.id", name)
    if not node_id.isascii() or not node_id.isdigit():
        raise DamagedFileError(name, None, f"node.id {node_id!r} is no number")
    directory_id = _read_uuid(_required(properties, "directory.id", name), "directory.id", name)
    return DirectoryIdentity(_required(properties, "cluster.id", name), int(node_id), directory_id)


def write_partition_metadata(topic_id: bytes) -> bytes:
    """The file of a partition of this topic."""
    return f"version: {_PARTITION_VERSION}\ntopic_id: {uuids.to_text(topic_id)}".encode()


def read_partition_metadata(data: bytes, name: str) -> bytes:
    """The topic id. Raises: DamagedFileError."""
    properties = _read_pairs(data, name, ":")
    if properties.get("version") != _PARTITION_VERSION:
        raise DamagedFileError(name, None, f"version {properties.get('version')!r}; expected {_PARTITION_VERSION}")
    return _read_uuid(_required(properties, "topic_id", name), "topic_id", name)


def write_clean_shutdown(broker_epoch: int) -> bytes:
    """The file that a broker of this epoch writes after all others."""
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


def read_clean_shutdown(data: bytes, name: str) -> int:
    """The epoch of the broker that shut down, -1 for an empty file of older releases. Raises: DamagedFileError."""
    if not data:
        return -1
    try:
        content: Any = json.loads(data)
        return int(content["brokerEpoch"])
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedFileError(name, None, f"no broker epoch in {data[:60]!r}") from error


def _read_pairs(data: bytes, name: str, separator: str) -> dict[str, str]:
    """The values by key; lines that begin with # are comments."""
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError as error:
        raise DamagedFileError(name, error.start, "not text in UTF-8") from error
    pairs = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        key, found, value = line.partition(separator)
        if not found:
            raise DamagedFileError(name, None, f"line {number}: {line[:60]!r} has no {separator!r}")
        pairs[key.strip()] = value.strip()
    return pairs


def _required(properties: dict[str, str], key: str, name: str) -> str:
    if key not in properties:
        raise DamagedFileError(name, None, f"no {key}")
    return properties[key]


def _read_uuid(text: str, key: str, name: str) -> bytes:
    try:
        return uuids.from_text(text)
    except InvalidValue as error:
        raise DamagedFileError(name, None, f"{key}: {error}") from error
