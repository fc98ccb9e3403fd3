"""The live page: its files from the package, with a policy under which a browser loads and runs nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kwire.error_codes import ErrorCode
from kwire.registry import API_KEYS, api_name
from kwire.report.colours import style_sheet

#: Where the files of the page are, on disk and in paths.
FOLDER = Path(__file__).with_name("page")
_PREFIX = "/page"
_FIRST = "index.html"
_MEDIA_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".json": "application/json"}

#: A second protection, in case text from the wire is ever taken for markup.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class PageFile(NamedTuple):
    """A file of the page. name: behind the prefix of their paths."""

    name: str
    content: bytes

    @property
    def media_type(self) -> str:
        """By the ending of the name."""
        return _MEDIA_TYPES[Path(self.name).suffix]


def create_page_routes() -> list[Route]:
    """`/` for the page, and one path for each of its other files. They need no token, and hold nothing of a cluster."""
    names = [*(path.name for path in sorted(FOLDER.iterdir()) if path.suffix in _MEDIA_TYPES), *_GENERATED]
    return [_create_route("/" if name == _FIRST else f"{_PREFIX}/{name}", name) for name in names]


def _create_route(path: str, name: str) -> Route:
    async def send(request: Request) -> Response:
        file = read_page_file(name)
        return Response(file.content, headers=_HEADERS, media_type=file.media_type)

    return Route(path, send, methods=["GET"])


@cache
def read_page_file(name: str) -> PageFile:
    """A file by its name. Raises: FileNotFoundError."""
    generate = _GENERATED.get(name)
    return PageFile(name, (FOLDER / name).read_bytes() if generate is None else b"".join(generate()))


def _colours() -> Iterator[bytes]:
    """The colours of `kwire report`: one colour has one meaning on both pages."""
    yield style_sheet().encode()


def _names() -> Iterator[bytes]:
    """The names that forms suggest."""
    yield msgspec.json.encode(
        {
            "apis": sorted(api_name(key) for key in API_KEYS),
            "errors": [code.name for code in ErrorCode if code is not ErrorCode.NONE],
        }
    )


_GENERATED = {"colours.css": _colours, "names.json": _names}
