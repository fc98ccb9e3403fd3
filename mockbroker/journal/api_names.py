"""Names of APIs in questions to the journal: an unknown one is an error, since it would match nothing."""

from __future__ import annotations

from functools import cache

import msgspec

from kwire import registry


def resolve_api_name(api: str | type[msgspec.Struct]) -> str:
    """The name of an API in exchanges, "ShareFetch". api: that name, or the class of its requests.

    Raises: ValueError for any other, with the nearest name.
    """
    if isinstance(api, type):
        name = api.__name__.removesuffix("Request")
        if name in _api_names() and api.__name__ != name:
            return name
        raise ValueError(f"{api.__name__} is not the class of a request")
    if api in _api_names():
        return api
    nearest = _find_nearest(api)
    hint = f"did you mean {nearest!r}?" if nearest else "the names are those of Kafka, as 'Fetch' or 'ShareFetch'"
    raise ValueError(f"{api!r} is not the name of an API; {hint}")


@cache
def _api_names() -> frozenset[str]:
    return frozenset(map(registry.api_name, registry.API_KEYS))


def _find_nearest(text: str) -> str | None:
    by_lower_case = {name.lower(): name for name in sorted(_api_names())}
    word = text.lower().removesuffix("request").removesuffix("response")
    if word in by_lower_case:
        return by_lower_case[word]
    # Imported here: difflib is needed for the message of an error only.
    from difflib import get_close_matches

    matches = get_close_matches(word, by_lower_case, n=1)
    return by_lower_case[matches[0]] if matches else None
