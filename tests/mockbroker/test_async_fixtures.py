"""The fixtures of clusters in asynchronous tests, with pytest-asyncio and with anyio."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

_TEST = """
import asyncio

import pytest

from kwire import headers
from kwire.messages.list_groups import ListGroupsRequest


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def send_request(cluster):
    reader, writer = await asyncio.open_connection(*cluster.bootstrap_servers.split(":"))
    frame = headers.encode_request(ListGroupsRequest(), 5, 1, "c")
    writer.write(len(frame).to_bytes(4, "big") + frame)
    await reader.readexactly(8)
    writer.close()
    await writer.wait_closed()


@pytest.mark.{marker}
async def test_a_request_of_the_same_event_loop_is_waited_for(kafka):
    sent, history = await asyncio.gather(send_request(kafka), kafka.aio.wait_for_request("ListGroups"))
    assert len(history) == 1
    assert await kafka.aio.add_node() == 1


@pytest.mark.{marker}
async def test_a_shared_cluster_is_reset_after_an_asynchronous_test(kafka_session):
    kafka_session.create_topic("orders")
    await kafka_session.aio.pause_node(0)


@pytest.mark.{marker}
async def test_it_is_as_new(kafka_session):
    assert kafka_session.topics() == {{}}
    await send_request(kafka_session)
"""


@pytest.mark.parametrize(
    ("package", "marker", "option"),
    [("pytest_asyncio", "asyncio", "asyncio_default_fixture_loop_scope=function"), ("anyio", "anyio", None)],
)
def test_asynchronous_tests_use_the_fixtures(
    pytester: pytest.Pytester, package: str, marker: str, option: str | None
) -> None:
    pytest.importorskip(package)
    pytester.makepyfile(_TEST.format(marker=marker))
    arguments = ["-o", option] if option else ["-p", "no:asyncio"]

    pytester.runpytest_inprocess("-p", "no:cacheprovider", *arguments).assert_outcomes(passed=3)
