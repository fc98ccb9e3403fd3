"""Growing captures: files that follow each other in a folder, are truncated, or are created late; pipes."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from kwire.capture.files.packet_reader import read_packets
from kwire.capture.model import NO_PACKET, Packet
from kwire.cli.inputs import CountedFile, FollowedCapture, PipeInput, is_stream
from kwire.cli.interrupt import StopSignal
from tests.support.captures.capture_files import CapturedPacket, build_pcap

pytestmark = pytest.mark.slow


class Writer:
    """Runs the next step whenever the reader is idle; then requests a stop."""

    def __init__(self, stop: StopSignal, *steps: Callable[[], object]) -> None:
        self._stop = stop
        self._steps = list(steps)

    def __call__(self) -> None:
        if self._steps:
            self._steps.pop(0)()
        else:
            self._stop.was_signalled = True


def wires(*numbers: int) -> bytes:
    """A capture with packets whose content is their number."""
    return build_pcap([CapturedPacket(number * 1_000, bytes([number])) for number in numbers])


def follow_capture(path: Path | str, *steps: Callable[[], object]) -> list[int]:
    stop = StopSignal()
    found = FollowedCapture(str(path), stop, Writer(stop, *steps)).packets(None)
    # More packets than any file has: a file that is read repeatedly would not end.
    return [each.data[0] for each in islice(found, 20) if isinstance(each, Packet)]


def append_step(path: Path, data: bytes) -> Callable[[], object]:
    def write() -> None:
        with path.open("ab") as file:
            file.write(data)

    return write


def write_step(path: Path, data: bytes, age: int) -> Callable[[], object]:
    """Write a file with a modification time some seconds after another."""

    def write() -> None:
        path.write_bytes(data)
        os.utime(path, (1_700_000_000 + age, 1_700_000_000 + age))

    return write


def test_a_file_is_read_as_it_grows(tmp_path: Path) -> None:
    path, whole = tmp_path / "a.pcap", wires(1, 2, 3)
    path.write_bytes(whole[:30])

    assert follow_capture(path, append_step(path, whole[30:50]), append_step(path, whole[50:])) == [1, 2, 3]


def test_a_file_may_be_created_after_reading_began(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"

    assert follow_capture(path, lambda: None, lambda: path.write_bytes(wires(1))) == [1]


def test_a_file_left_inside_a_packet_is_not_damaged(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(wires(1, 2)[:-1])
    stop = StopSignal()
    found = list(read_packets(FollowedCapture(str(path), stop, Writer(stop))))

    assert [each.data for each in found if isinstance(each, Packet)] == [b"\x01"]
    assert len(found) == 1


def test_following_ends_on_request_before_the_end_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(wires(1, 2, 3))
    stop = StopSignal()
    found = FollowedCapture(str(path), stop, Writer(stop)).packets(None)
    first = next(found)
    stop.was_signalled = True

    assert isinstance(first, Packet)
    assert first.data == b"\x01"
    assert list(found) == []


def test_data_written_before_a_replacement_is_read(tmp_path: Path) -> None:
    path, whole = tmp_path / "a.pcap", wires(1, 2)
    path.write_bytes(whole[:-17])

    def replace() -> None:
        append_step(path, whole[-17:])()
        path.rename(tmp_path / "a.pcap.old")
        path.write_bytes(wires(3))

    assert follow_capture(path, replace, append_step(path, wires(4)[24:])) == [1, 2, 3, 4]


def test_a_truncated_file_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(wires(1, 2, 3))

    assert follow_capture(path, lambda: path.write_bytes(wires(4))) == [1, 2, 3, 4]


@pytest.mark.parametrize("argument", ["", "*.pcap*"])
def test_a_folder_is_followed_from_its_latest_file_on(tmp_path: Path, argument: str) -> None:
    path = str(tmp_path / argument) if argument else tmp_path
    for name, content, age in (("z.pcap", wires(1), 0), ("a.pcap", wires(2), 10), ("notes.txt", b"no capture", 90)):
        write_step(tmp_path / name, content, age)()
    names = ("c.pcap1", "b.pcap", "d.pcapng")
    steps = [write_step(tmp_path / name, wires(number), 10 * number) for number, name in enumerate(names, 3)]

    assert follow_capture(path, *steps) == [2, 3, 4, 5]


def test_two_files_created_during_reading_are_read_in_order(tmp_path: Path) -> None:
    write_step(tmp_path / "a.pcap", wires(1), 0)()

    def both() -> None:
        write_step(tmp_path / "b.pcap", wires(3), 20)()
        write_step(tmp_path / "c.pcap", wires(2), 10)()

    assert follow_capture(tmp_path, both) == [1, 2, 3]


def test_files_with_equal_times_are_read_once(tmp_path: Path) -> None:
    write_step(tmp_path / "a.pcap", wires(1), 0)()
    write_step(tmp_path / "b.pcap", wires(2), 0)()

    assert follow_capture(tmp_path, write_step(tmp_path / "c.pcap", wires(3), 0)) == [2, 3]


def test_a_file_that_was_read_is_not_read_again_when_it_grows(tmp_path: Path) -> None:
    first, second = tmp_path / "a.pcap", tmp_path / "b.pcap"
    write_step(first, wires(1), 0)()
    steps = (
        write_step(second, wires(2), 10),
        write_step(first, wires(1, 3), 20),
        write_step(second, wires(2, 4), 30),
        write_step(tmp_path / "c.pcap", wires(5), 40),
    )

    assert follow_capture(tmp_path, *steps) == [1, 2, 4, 5]


def test_a_ring_of_files_is_followed_repeatedly(tmp_path: Path) -> None:
    first, second = tmp_path / "a.pcap", tmp_path / "b.pcap"
    write_step(first, wires(1), 0)()
    steps = (write_step(second, wires(2), 10), write_step(first, wires(3, 4), 20), write_step(second, wires(5, 6), 30))

    assert follow_capture(tmp_path, *steps) == [1, 2, 3, 4, 5, 6]


def test_a_replacing_file_is_read_even_if_it_is_older(tmp_path: Path) -> None:
    path, older = tmp_path / "a.pcap", tmp_path / "older"
    write_step(path, wires(1), 10)()
    write_step(older, wires(2), 0)()

    assert follow_capture(path, lambda: older.rename(path)) == [1, 2]


def test_a_pipe_prints_buffered_rows_before_it_waits() -> None:
    reader, writer = os.pipe()
    stop, shown = StopSignal(), []

    def idle() -> None:
        shown.append(True)
        os.write(writer, b"more")

    with io.FileIO(reader) as file:
        pipe = PipeInput(file, "-", stop, idle)
        os.write(writer, b"first")
        assert (pipe.read1(100), shown) == (b"first", [])
        assert (pipe.read1(100), shown) == (b"more", [True])
        os.close(writer)
        assert pipe.read1(100) == b""


def test_a_pipe_with_half_a_packet_gives_a_marker_before_it_waits() -> None:
    reader, writer = os.pipe()
    data, idle = wires(1, 2), list[int]()
    with io.FileIO(reader) as file:
        pipe = PipeInput(file, "-", StopSignal(), lambda: idle.append(os.write(writer, data[50:])))
        os.write(writer, data[:50])
        found = read_packets(pipe, with_markers=True)
        first, marker = next(found), next(found)
        assert isinstance(first, Packet)
        assert (first.data, marker, idle) == (b"\x01", NO_PACKET, [])
        second = next(found)
        assert isinstance(second, Packet)
        assert (second.data, idle) == (b"\x02", [8])
        os.close(writer)
        assert list(found) == []


def test_a_followed_file_gives_a_marker_before_it_waits(tmp_path: Path) -> None:
    path, data, stop = tmp_path / "a.pcap", wires(1, 2), StopSignal()
    path.write_bytes(data[:50])
    steps = append_step(path, data[50:]), write_step(tmp_path / "b.pcap", wires(3), 1_000_000_000)
    found = FollowedCapture(str(tmp_path), stop, Writer(stop, *steps)).packets(None)
    items = [item.data[0] if isinstance(item, Packet) else item for item in islice(found, 20)]

    assert items == [1, NO_PACKET, 2, NO_PACKET, NO_PACKET, 3, NO_PACKET, NO_PACKET]


def test_a_pipe_without_a_writer_has_ended() -> None:
    assert PipeInput(None, "fifo", StopSignal(), lambda: None).read(1) == b""


def test_inputs_that_may_block_are_streams(tmp_path: Path) -> None:
    fifo, file = tmp_path / "fifo", tmp_path / "file"
    os.mkfifo(fifo)
    file.touch()

    assert is_stream(str(fifo))
    assert is_stream("/dev/null")
    assert not is_stream(str(file))
    assert not is_stream(str(tmp_path))
    assert not is_stream(str(tmp_path / "absent"))


def test_a_counted_file_reports_the_bytes_read(tmp_path: Path) -> None:
    path, counts = tmp_path / "a.pcap", list[int]()
    path.write_bytes(b"0123456789")
    counted = CountedFile(str(path), counts.append)

    assert (counted.read(4), counted.read(100), counted.read(1)) == (b"0123", b"456789", b"")
    assert counts == [4, 10, 10]
    counted.close()
