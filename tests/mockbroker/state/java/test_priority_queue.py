"""The heap gives equal elements back in the order in which Java's would."""

from __future__ import annotations

import random

from mockbroker.state.java.priority_queue import JavaHeap


def test_elements_come_out_by_rank() -> None:
    heap: JavaHeap[int] = JavaHeap(lambda item: item)
    numbers = random.Random(3).choices(range(50), k=200)
    for number in numbers:
        heap.add(number)

    assert [heap.poll() for _ in range(len(heap))] == sorted(numbers)


def test_the_last_of_equal_elements_overtakes_the_others_when_the_first_is_taken() -> None:
    heap: JavaHeap[str] = JavaHeap(lambda item: 0)
    for name in "abcd":
        heap.add(name)

    # java.util.PriorityQueue gives a, d, c, b: the last one is put on top, and does not sink.
    assert [heap.poll() for _ in range(4)] == ["a", "d", "c", "b"]
