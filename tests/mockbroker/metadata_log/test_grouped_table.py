"""A table whose records are found by a property that several may share."""

from __future__ import annotations

from mockbroker.metadata_log.grouped_table import GroupedTable


def test_records_are_found_by_their_property_until_they_are_replaced_or_gone() -> None:
    table = GroupedTable(lambda record: record[0])
    for key, record in enumerate(["a1", "b1", "a2", "a3"]):
        table[key] = record
    assert (table.keys_of("a"), table.keys_of("b"), table.keys_of("c")) == ([0, 2, 3], [1], [])

    table[0] = "b2"
    del table[2]
    assert (table.pop(3), table.pop(3), table.pop(9, "none")) == ("a3", None, "none")

    assert (table.keys_of("a"), table.keys_of("b")) == ([], [1, 0])
    assert table == {0: "b2", 1: "b1"}
