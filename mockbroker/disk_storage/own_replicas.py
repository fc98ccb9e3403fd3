"""Folders of replicas that have logs of their own, where followers fetch: no file is shared with another node.

Where followers do not fetch, the folders of a partition have hard links to the same files (`replica_folders`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from mockbroker.disk_storage.node_folders import node_folder
from mockbroker.log_directory.file_layer import FileLayer
from mockbroker.log_directory.formats import names

#: In each node's directory while its replicas have logs of their own.
_MARK = ".mockbroker-own-replicas"
_COPY_SUFFIX = ".copy"
_CHUNK = 4 << 20


def separate_replicas(files: FileLayer, node_id: int, node_ids: Iterable[int]) -> None:
    """Give a node files of its own, by copies of those that it shares with other nodes; then mark its directory.

    Raises: OSError.
    """
    folder = node_folder(node_id)
    others = [node_folder(other) for other in node_ids if other != node_id]
    for name in files.list_names(folder):
        if names.parse_folder_name(name) is None:
            continue
        for file_name in files.list_names(f"{folder}/{name}"):
            path = f"{folder}/{name}/{file_name}"
            if any(files.is_same_file(path, f"{other}/{name}/{file_name}") for other in others):
                _replace_by_copy(files, path)
    files.write_file(f"{folder}/{_MARK}", b"")


def are_separated(files: FileLayer, node_ids: Sequence[int]) -> bool:
    """Whether a directory is marked, so that the leader's log is the right one, not the longest. Raises: OSError."""
    return any(files.read_file(mark) is not None for mark in _marks(node_ids))


def remove_separation_marks(files: FileLayer, node_ids: Sequence[int]) -> None:
    """The replicas share their files now. Raises: OSError."""
    for mark in _marks(node_ids):
        files.remove(mark)


def _marks(node_ids: Sequence[int]) -> list[str]:
    return [f"{node_folder(node_id)}/{_MARK}" for node_id in node_ids]


def _replace_by_copy(files: FileLayer, path: str) -> None:
    copy_path = path + _COPY_SUFFIX
    files.remove(copy_path)  # Of a start that was interrupted.
    source, copy = files.open_file(path), files.open_file(copy_path)
    try:
        for position in range(0, source.size, _CHUNK):
            copy.append(source.read(position, _CHUNK))
        copy.sync()
    except OSError:
        with suppress(OSError):
            files.remove(copy_path)
        raise
    finally:
        source.close()
        copy.close()
    files.rename(copy_path, path)
