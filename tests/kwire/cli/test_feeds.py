"""Captures that grow: files that follow each other in a folder, that are emptied, that come late; pipes."""

from __future__ import annotations

import io
import os
import signal
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from kwire.capture.values import Packet
from kwire.cli.feeds import Counted, Following, Pipe, is_endless
from kwire.cli.stop import Stop
from tests.kwire.capture.wire import Wire, pcap


class Writer:
    """Does the next thing whenever the reader has nothing to do; then asks it to stop."""

    def __init__(self, stop: Stop, *steps: Callable[[], object]) -> None:
        self._stop = stop
        self._steps = list(steps)

    def __call__(self) -> None:
        if self._steps:
            self._steps.pop(0)()
        else:
            self._stop.was_signalled = True


def wires(*numbers: int) -> bytes:
    """A capture with packets whose content is their number."""
    return pcap([Wire(number * 1_000, bytes([number])) for number in numbers])


def followed(path: Path | str, *steps: Callable[[], object]) -> list[int]:
    stop = Stop()
    found = Following(str(path), stop, Writer(stop, *steps)).packets(None)
    # More than any of them holds: a file that is read again and again does not end.
    return [each.data[0] for each in islice(found, 20) if isinstance(each, Packet)]


def appended(path: Path, data: bytes) -> Callable[[], object]:
    def write() -> None:
        with path.open("ab") as file:
            file.write(data)

    return write


def written(path: Path, data: bytes, age: int) -> Callable[[], object]:
    """Write a file that was last touched so many seconds after another."""

    def write() -> None:
        path.write_bytes(data)
        os.utime(path, (1_700_000_000 + age, 1_700_000_000 + age))

    return write


def test_a_file_is_read_as_it_grows(tmp_path: Path) -> None:
    path, whole = tmp_path / "a.pcap", wires(1, 2, 3)
    path.write_bytes(whole[:30])

    assert followed(path, appended(path, whole[30:50]), appended(path, whole[50:])) == [1, 2, 3]


def test_a_file_may_come_later_than_its_reader(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"

    assert followed(path, lambda: None, lambda: path.write_bytes(wires(1))) == [1]


def test_a_file_that_is_left_inside_a_packet_is_not_damaged(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(wires(1, 2)[:-1])
    stop = Stop()
    found = list(Following(str(path), stop, Writer(stop)).packets(None))

    assert [each.data for each in found if isinstance(each, Packet)] == [b"\x01"]
    assert len(found) == 1


def test_what_is_followed_ends_when_that_is_asked_for_though_more_is_there(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(wires(1, 2, 3))
    stop = Stop()
    found = Following(str(path), stop, Writer(stop)).packets(None)
    first = next(found)
    stop.was_signalled = True

    assert isinstance(first, Packet)
    assert first.data == b"\x01"
    assert list(found) == []


def test_what_was_written_before_a_file_was_replaced_is_read(tmp_path: Path) -> None:
    path, whole = tmp_path / "a.pcap", wires(1, 2)
    path.write_bytes(whole[:-17])

    def replace() -> None:
        appended(path, whole[-17:])()
        path.rename(tmp_path / "a.pcap.old")
        path.write_bytes(wires(3))

    assert followed(path, replace, appended(path, wires(4)[24:])) == [1, 2, 3, 4]


def test_a_file_that_is_emptied_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(wires(1, 2, 3))

    assert followed(path, lambda: path.write_bytes(wires(4))) == [1, 2, 3, 4]


@pytest.mark.parametrize("argument", ["", "*.pcap*"])
def test_a_folder_is_followed_from_its_latest_file_on(tmp_path: Path, argument: str) -> None:
    path = str(tmp_path / argument) if argument else tmp_path
    written(tmp_path / "z.pcap", wires(1), 0)()
    written(tmp_path / "a.pcap", wires(2), 10)()
    written(tmp_path / "notes.txt", b"no capture", 90)()
    steps = (
        written(tmp_path / "c.pcap1", wires(3), 20),
        written(tmp_path / "b.pcap", wires(4), 30),
        written(tmp_path / "d.pcapng", wires(5), 40),
    )

    assert followed(path, *steps) == [2, 3, 4, 5]


def test_two_files_that_came_while_one_was_read_come_in_their_order(tmp_path: Path) -> None:
    written(tmp_path / "a.pcap", wires(1), 0)()

    def both() -> None:
        written(tmp_path / "b.pcap", wires(3), 20)()
        written(tmp_path / "c.pcap", wires(2), 10)()

    assert followed(tmp_path, both) == [1, 2, 3]


def test_files_that_were_written_at_one_time_are_read_once(tmp_path: Path) -> None:
    written(tmp_path / "a.pcap", wires(1), 0)()
    written(tmp_path / "b.pcap", wires(2), 0)()

    assert followed(tmp_path, written(tmp_path / "c.pcap", wires(3), 0)) == [2, 3]


def test_a_file_that_was_read_is_not_read_again_when_it_grows(tmp_path: Path) -> None:
    first, second = tmp_path / "a.pcap", tmp_path / "b.pcap"
    written(first, wires(1), 0)()
    steps = (
        written(second, wires(2), 10),
        written(first, wires(1, 3), 20),
        written(second, wires(2, 4), 30),
        written(tmp_path / "c.pcap", wires(5), 40),
    )

    assert followed(tmp_path, *steps) == [1, 2, 4, 5]


def test_a_ring_of_files_is_followed_round_and_round(tmp_path: Path) -> None:
    first, second = tmp_path / "a.pcap", tmp_path / "b.pcap"
    written(first, wires(1), 0)()
    steps = (written(second, wires(2), 10), written(first, wires(3, 4), 20), written(second, wires(5, 6), 30))

    assert followed(tmp_path, *steps) == [1, 2, 3, 4, 5, 6]


def test_a_file_that_takes_the_place_of_another_is_read_though_it_is_older(tmp_path: Path) -> None:
    path, older = tmp_path / "a.pcap", tmp_path / "older"
    written(path, wires(1), 10)()
    written(older, wires(2), 0)()

    assert followed(path, lambda: older.rename(path)) == [1, 2]


def test_a_pipe_shows_what_is_held_before_it_waits() -> None:
    reader, writer = os.pipe()
    stop, shown = Stop(), []

    def idle() -> None:
        shown.append(True)
        os.write(writer, b"more")

    with io.FileIO(reader) as file:
        pipe = Pipe(file, "-", stop, idle)
        os.write(writer, b"first")
        assert (pipe.read1(100), shown) == (b"first", [])
        assert (pipe.read1(100), shown) == (b"more", [True])
        os.close(writer)
        assert pipe.read1(100) == b""


def test_a_pipe_that_nobody_opened_has_ended() -> None:
    assert Pipe(None, "fifo", Stop(), lambda: None).read(1) == b""


def test_what_may_wait_is_endless(tmp_path: Path) -> None:
    fifo, file = tmp_path / "fifo", tmp_path / "file"
    os.mkfifo(fifo)
    file.touch()

    assert is_endless(str(fifo))
    assert is_endless("/dev/null")
    assert not is_endless(str(file))
    assert not is_endless(str(tmp_path))
    assert not is_endless(str(tmp_path / "absent"))


def test_a_counted_file_tells_how_far_it_is_read(tmp_path: Path) -> None:
    path, told = tmp_path / "a.pcap", list[int]()
    path.write_bytes(b"0123456789")
    counted = Counted(str(path), told.append)

    assert (counted.read(4), counted.read(100), counted.read(1)) == (b"0123", b"456789", b"")
    assert told == [4, 10, 10]
    counted.close()


def test_the_first_signal_asks_and_the_second_interrupts() -> None:
    with Stop() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.is_asked
        assert stop.waiting(lambda: "never") is None
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_a_signal_breaks_off_what_waits() -> None:
    with Stop() as stop:
        assert stop.waiting(lambda: signal.raise_signal(signal.SIGTERM)) is None
        assert stop.was_signalled
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_time_is_up_when_it_is() -> None:
    assert Stop(seconds=0).is_asked
    assert not Stop(seconds=1_000).is_asked
    assert Stop().seconds_left is None
