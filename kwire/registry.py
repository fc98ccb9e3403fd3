"""From names, API keys and editions to message classes; a module is imported when it is first asked for."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module

import msgspec

from kwire.codec_table import Codec
from kwire.errors import UnsupportedVersion
from kwire.messages.index import APIS, LAYERS, MODULES, Api

DEFAULT_EDITION = "4.3"

#: The editions there are; each but the default lies over others and has only the messages in which it differs.
EDITIONS = tuple(LAYERS)

#: The keys of all APIs of the default edition, ascending.
API_KEYS = tuple(APIS[DEFAULT_EDITION])


def require_edition(edition: str, asked_for: str = "") -> None:
    """Raises: UnsupportedVersion when there is no such edition, with the name of what was asked for in it."""
    if edition not in LAYERS:
        raise UnsupportedVersion(asked_for, f"edition {edition!r} is not one of {', '.join(EDITIONS)}")


@cache
def codec_of_name(name: str, edition: str = DEFAULT_EDITION) -> Codec:
    """The codec of a message by its name; what an edition does not have itself is that of the editions below it.

    Raises: UnsupportedVersion when there is no such edition or message.
    """
    require_edition(edition, name)
    dotted = next((MODULES[layer][name] for layer in LAYERS[edition] if name in MODULES[layer]), None)
    if dotted is None:
        raise UnsupportedVersion(name, f"is not a message of edition {edition}")
    codecs: dict[str, Codec] = import_module(dotted).CODECS
    return codecs[name]


@cache
def codec_of_class(message: type[msgspec.Struct]) -> Codec:
    """The codec of a message class.

    Raises: UnsupportedVersion when the class is not a generated message.
    """
    codecs: dict[str, Codec] = getattr(sys.modules.get(message.__module__), "CODECS", {})
    codec = codecs.get(message.__name__)
    if codec is None or codec.message is not message:
        raise UnsupportedVersion(message.__name__, "is not a message class of kwire")
    return codec


def message_class(name: str, edition: str = DEFAULT_EDITION) -> type[msgspec.Struct]:
    """The class of a message by its name in the schema, such as ShareFetchRequest.

    Raises: UnsupportedVersion when there is no such edition or message.
    """
    return codec_of_name(name, edition).message


def api_name(api_key: int, edition: str = DEFAULT_EDITION) -> str:
    """The name of an API, such as ShareFetch.

    Raises: UnsupportedVersion when no API has the key, or there is no such edition.
    """
    return _api(api_key, edition).name


def api_versions(api_key: int, edition: str = DEFAULT_EDITION) -> tuple[int, int]:
    """The first and last version of an API in an edition.

    Raises: UnsupportedVersion when no API has the key, or there is no such edition.
    """
    api = _api(api_key, edition)
    return api.low, api.high


def request_class(api_key: int, edition: str = DEFAULT_EDITION) -> type[msgspec.Struct]:
    """The request class of an API.

    Raises: UnsupportedVersion when no API has the key, or there is no such edition.
    """
    return message_class(f"{api_name(api_key, edition)}Request", edition)


def response_class(api_key: int, edition: str = DEFAULT_EDITION) -> type[msgspec.Struct]:
    """The response class of an API.

    Raises: UnsupportedVersion when no API has the key, or there is no such edition.
    """
    return message_class(f"{api_name(api_key, edition)}Response", edition)


def header_versions(api_key: int, version: int, edition: str = DEFAULT_EDITION) -> tuple[int, int]:
    """The versions of the request header and of the response header that go with an API's version.

    Versions outside the API's range are answered too: a broker reads the header before it knows what it refuses.

    Raises: UnsupportedVersion when no API has the key, or there is no such edition.
    """
    api = _api(api_key, edition)
    return (2 if version >= api.flexible_request else 1), (1 if version >= api.flexible_response else 0)


@cache
def _api(api_key: int, edition: str) -> Api:
    require_edition(edition)
    found = next((APIS[layer][api_key] for layer in LAYERS[edition] if api_key in APIS[layer]), None)
    if found is None:
        raise UnsupportedVersion("", f"no API has the key {api_key}")
    return found
