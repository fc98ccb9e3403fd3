"""The data directory: identity, marks and locks of the nodes' log directories."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from mockbroker.disk_storage.data_directory import DataDirectory, DirectoryOptions
from mockbroker.log_directory.directory_lock import DirectoryInUseError
from mockbroker.log_directory.formats.damage import DamagedFileError
from mockbroker.log_directory.simulated_files import SimulatedFiles
from tests.support.log_directory import unpack_kafka_directory

OPTIONS = DirectoryOptions()


def test_a_new_directory_gets_an_identity_that_is_read_again() -> None:
    files = SimulatedFiles(random.Random(1))
    first = DataDirectory(files, (1, 2), OPTIONS)
    was_new = first.cluster_id is None
    first.initialize("cluster", random.Random(2))
    second = DataDirectory(files, (1, 2), OPTIONS)

    assert was_new
    assert second.cluster_id == "cluster"
    assert second.directory_ids == first.directory_ids
    assert len(set(second.directory_ids.values())) == 2


def test_a_node_that_is_added_gets_an_identity_of_its_own() -> None:
    files = SimulatedFiles(random.Random(1))
    first = DataDirectory(files, (1,), OPTIONS)
    first.initialize("cluster", random.Random(2))
    second = DataDirectory(files, (1, 2), OPTIONS)
    second.initialize("cluster", random.Random(3))

    assert second.directory_ids[1] == first.directory_ids[1] != second.directory_ids[2]


def test_only_a_clean_shutdown_of_every_node_counts_and_only_once() -> None:
    files = SimulatedFiles(random.Random(1))
    DataDirectory(files, (1, 2), OPTIONS).close(clean=True, broker_epochs={1: 7})
    refused = DataDirectory(files, (1, 2), OPTIONS)
    refused.close(clean=False)
    clean = DataDirectory(files, (1, 2), OPTIONS)
    clean.begin_use()
    again = DataDirectory(files, (1, 2), OPTIONS)
    again.close(clean=True)
    with_another = DataDirectory(files, (1, 2, 3), OPTIONS)

    assert refused.was_clean
    assert (clean.was_clean, again.was_clean, with_another.was_clean) == (True, False, False)


def test_the_same_boot_is_known_only_by_its_id() -> None:
    files = SimulatedFiles(random.Random(1))
    opened: list[DataDirectory] = []
    for boot_id in ("a", "a", "b", None, None):
        opened.append(DataDirectory(files, (1,), OPTIONS, boot_id=boot_id))
        opened[-1].begin_use()

    assert [one.is_same_boot for one in opened] == [False, True, False, False, False]


def test_a_start_that_was_refused_does_not_count_as_one_of_this_boot() -> None:
    files = SimulatedFiles(random.Random(1))
    DataDirectory(files, (1,), OPTIONS, boot_id="a").begin_use()
    DataDirectory(files, (1,), OPTIONS, boot_id="b").close(clean=False)

    assert not DataDirectory(files, (1,), OPTIONS, boot_id="b").is_same_boot


def test_another_program_that_has_closed_the_directory_is_noticed() -> None:
    files = SimulatedFiles(random.Random(1))
    DataDirectory(files, (1,), OPTIONS).close(clean=True, broker_epochs={1: 7})
    here = DataDirectory(files, (1,), OPTIONS).was_closed_here
    files.write_file("node-1/.kafka_cleanshutdown", b'{"version":0,"brokerEpoch":9}')
    elsewhere = DataDirectory(files, (1,), OPTIONS)

    assert (here, elsewhere.was_closed_here, elsewhere.was_clean) == (True, False, True)


def test_directories_of_different_clusters_or_of_another_node_are_refused() -> None:
    files = SimulatedFiles(random.Random(1))
    DataDirectory(files, (1,), OPTIONS).initialize("one", random.Random(1))
    DataDirectory(files, (2,), OPTIONS).initialize("two", random.Random(1))
    with pytest.raises(DamagedFileError, match=r"node-2/meta.properties: cluster id two; the other nodes have one"):
        DataDirectory(files, (1, 2), OPTIONS)
    files.create_folder("node-3")
    files.write_file("node-3/meta.properties", files.read_file("node-1/meta.properties") or b"")
    with pytest.raises(DamagedFileError, match=r"the directory of node 1, not 3"):
        DataDirectory(files, (1, 3), OPTIONS)


def test_a_second_use_is_refused_until_the_first_one_ends(tmp_path: Path) -> None:
    first = DataDirectory.open(tmp_path / "data", (1, 2), OPTIONS)
    with pytest.raises(DirectoryInUseError, match=r"node-1 is in use by process \d+"):
        DataDirectory.open(tmp_path / "data", (1,), OPTIONS)
    first.close(clean=False)
    second = DataDirectory.open(tmp_path / "data", (1, 2), OPTIONS)
    second.close(clean=True)

    assert sorted(path.name for path in (tmp_path / "data" / "node-2").iterdir()) == [
        ".kafka_cleanshutdown",
        ".lock",
        ".mockbroker-clean",
    ]


def test_the_directory_of_a_real_broker_has_an_identity(tmp_path: Path) -> None:
    unpacked = unpack_kafka_directory(tmp_path)
    (tmp_path / "all").mkdir()
    unpacked.rename(tmp_path / "all" / "node-0")
    directory = DataDirectory.open(tmp_path / "all", (0,), OPTIONS)
    directory.close(clean=True)

    assert directory.was_clean
    assert directory.cluster_id
    assert len(directory.directory_ids[0]) == 16
