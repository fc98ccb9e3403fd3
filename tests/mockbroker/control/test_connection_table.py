"""Which connection is closed for a new one."""

from __future__ import annotations

from mockbroker.control.connection_table import ConnectionTable, HttpLimits


class _Connection:
    def __init__(self, host: str, *, has_request: bool = False) -> None:
        self.client: tuple[str, int] | None = (host, 1)
        self.has_request = has_request
        self.is_given_up = False

    def give_up(self) -> None:
        self.is_given_up = True


def _add(table: ConnectionTable, *hosts: str, has_request: bool = False) -> list[_Connection]:
    connections = [_Connection(host, has_request=has_request) for host in hosts]
    for connection in connections:
        assert table.add(connection)
    return connections


def test_the_oldest_idle_connection_of_the_client_is_closed() -> None:
    table = ConnectionTable(HttpLimits(client_connections=3))
    others = _add(table, "10.0.0.2", "10.0.0.2")
    busy = _add(table, "10.0.0.1", has_request=True)
    idle = _add(table, "10.0.0.1", "10.0.0.1")

    _add(table, "10.0.0.1")

    assert [each.is_given_up for each in [*others, *busy, *idle]] == [False, False, False, True, False]
    assert len(table) == 5


def test_of_too_many_in_all_the_client_with_the_most_loses_one() -> None:
    table = ConnectionTable(HttpLimits(connections=4))
    few = _add(table, "10.0.0.2")
    many = _add(table, "10.0.0.1", "10.0.0.1", "10.0.0.1")

    _add(table, "10.0.0.3")

    assert [each.is_given_up for each in [*few, *many]] == [False, True, False, False]


def test_a_connection_is_refused_while_all_have_requests_and_not_after_they_ended() -> None:
    table = ConnectionTable(HttpLimits(connections=10, client_connections=2))
    busy = _add(table, "10.0.0.1", "10.0.0.1", has_request=True)
    refused = _Connection("10.0.0.1")

    assert not table.add(refused)
    for connection in (*busy, refused, refused):  # A second time: nothing happens.
        table.remove(connection)
    assert len(table) == 0
    assert len(_add(table, "10.0.0.1", "10.0.0.1")) == 2
