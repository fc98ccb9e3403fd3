"""`JwksRefresher`: fetches the keys of listeners whose JWKS has a URL: at the start, at intervals, and on demand.

Source: KIP-768; Kafka's RefreshingHttpsJwks. Only http: URLs of this machine are accepted (`security/oauth_config.py`).
"""

from __future__ import annotations

import asyncio
import http.client
import io
import ipaddress
from collections.abc import Iterable
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

from mockbroker.config.broker_config import ConfigError
from mockbroker.engine.internal_errors import log_internal_error
from mockbroker.log.subjects import SERVER
from mockbroker.security.verification_keys import JWKS_BYTES_MAX, FetchedKeys

if TYPE_CHECKING:
    import socket

    from mockbroker.clock import Clock

_HEAD_MAX = 64 << 10
#: The maximum duration of one attempt, seconds of the wall clock.
_TIMEOUT_S = 5.0
_HTTP_PORT = 80


class JwksRefresher:
    """Keeps keys up to date in one event loop. Intervals are on the cluster's clock, pauses after failures are not."""

    def __init__(self, keys: Iterable[FetchedKeys], clock: Clock) -> None:
        self._keys = list(keys)
        self._clock = clock
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def fetch_all(self) -> None:
        """Fetch all keys for the first time. Raises: ConfigError; then the cluster does not start, as Kafka."""
        for keys in self._keys:
            try:
                keys.set_keys(await fetch(keys.url), now_ms=self._clock.now_ms())
            except (OSError, ValueError) as error:
                raise ConfigError(f"sasl.oauthbearer.jwks.endpoint.url: {keys.url}: {_describe(error)}") from error
        self.check()

    def replace(self, keys: Iterable[FetchedKeys], clock: Clock) -> None:
        """Go on with those of another cluster with the same configuration, which get the keys that are known."""
        known = {one.url: one for one in self._keys}
        self._keys, self._clock = list(keys), clock
        for one in self._keys:
            one.copy_from(known[one.url])
        self.check()

    def check(self) -> None:
        """Begin to fetch what is due; called after each event. At most one attempt for each URL is in progress."""
        now_ms = self._clock.now_ms()
        due = [keys for keys in self._keys if keys.url not in self._tasks and keys.due_ms is not None]
        for keys in due:
            if keys.due_ms is not None and keys.due_ms <= now_ms:
                self._tasks[keys.url] = asyncio.get_running_loop().create_task(self._refresh(keys))
        self._set_timer(now_ms)

    def _set_timer(self, now_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting = [keys.due_ms for keys in self._keys if keys.due_ms is not None and keys.url not in self._tasks]
        if waiting and not self._clock.is_frozen:
            delay_s = max(0, min(waiting) - now_ms) / 1_000 + 0.001
            self._timer = asyncio.get_running_loop().call_later(delay_s, self.check)

    async def stop(self) -> None:
        """End all attempts."""
        if self._timer is not None:
            self._timer.cancel()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _refresh(self, keys: FetchedKeys) -> None:
        pause_ms, waited_ms = max(1, keys.backoff_ms), 0
        try:
            while True:
                try:
                    keys.set_keys(await fetch(keys.url), now_ms=self._clock.now_ms())
                    SERVER.info("fetched the JWKS of %(url)s", url=keys.url)
                    return
                except (OSError, ValueError) as error:
                    if waited_ms + pause_ms > keys.backoff_max_ms:
                        keys.postpone(now_ms=self._clock.now_ms())
                        template = "the JWKS of %(url)s cannot be fetched, its last keys remain: %(error)s"
                        SERVER.warning(template, url=keys.url, error=_describe(error))
                        return
                await asyncio.sleep(pause_ms / 1_000)
                waited_ms, pause_ms = waited_ms + pause_ms, pause_ms * 2
        except Exception as error:
            keys.postpone(now_ms=self._clock.now_ms())  # Otherwise it would be due again at once.
            log_internal_error(f"the refresh of the JWKS of {keys.url}", error)
        finally:
            del self._tasks[keys.url]
            self._set_timer(self._clock.now_ms())


async def fetch(url: str) -> bytes:
    """The body of a URL of this machine, of limited size and in limited time; redirects are not followed.

    Raises: OSError, also after the time limit; ValueError for anything but a body with status 200.
    """
    parts = urlsplit(url)
    async with asyncio.timeout(_TIMEOUT_S):
        port = parts.port or _HTTP_PORT
        reader, writer = await asyncio.open_connection(parts.hostname, port, limit=_HEAD_MAX)
        try:
            address = writer.get_extra_info("peername")[0]
            if not ipaddress.ip_address(address).is_loopback:
                raise ValueError(f"{parts.hostname} is {address}, which is not this machine")
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            lines = [f"GET {path} HTTP/1.1", f"Host: {parts.netloc}", "Accept: application/json", "Connection: close"]
            writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
            return _read_body(await _read_all(reader))
        finally:
            writer.close()


async def _read_all(reader: asyncio.StreamReader) -> bytes:
    data = bytearray()
    while chunk := await reader.read(_HEAD_MAX):
        data += chunk
        if len(data) > JWKS_BYTES_MAX + _HEAD_MAX:
            raise ValueError(f"the answer has more than {JWKS_BYTES_MAX} bytes")
    return bytes(data)


class _ReceivedBytes:
    """What `http.client` needs of a socket."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, _mode: str) -> io.BytesIO:
        """The bytes as a file."""
        return io.BytesIO(self._data)


def _read_body(data: bytes) -> bytes:
    response = http.client.HTTPResponse(cast("socket.socket", _ReceivedBytes(data)))
    try:
        response.begin()
        body = response.read()
    except http.client.HTTPException as error:
        raise ValueError(f"no valid answer: {type(error).__name__}") from error
    if response.status != http.HTTPStatus.OK:
        raise ValueError(f"the answer has the status {response.status}")
    return body


def _describe(error: Exception) -> str:
    return str(error) or f"no answer within {_TIMEOUT_S:.0f} s"
