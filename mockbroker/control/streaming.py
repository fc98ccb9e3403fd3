"""`StreamedResponse`: a response in parts that ends as soon as its reader has gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING

from starlette.responses import Response

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send


class StreamedResponse(Response):
    """Sends the parts that a generator yields, and closes the generator at the end.

    With some versions of uvicorn, Starlette's own class does not notice that a connection has ended.
    """

    def __init__(self, parts: AsyncGenerator[bytes, None], *, media_type: str, headers: Mapping[str, str]) -> None:
        self._parts = parts
        self.status_code = 200
        self.media_type = media_type
        self.background = None
        self.init_headers(headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the parts until there are no more, or the connection has ended."""
        tasks = [asyncio.ensure_future(self._send_parts(send)), asyncio.ensure_future(_wait_for_end(receive))]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._parts.aclose()

    async def _send_parts(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for part in self._parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _wait_for_end(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
