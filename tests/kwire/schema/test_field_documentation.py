"""Every field of the share messages has a text; every text is short and contains the unit of a time."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from kwire.schema import EDITIONS, FieldSpec, load_schema, message_names

SHARE_APIS = {*range(76, 80), *range(83, 88), *range(90, 93)}
FIND_COORDINATOR, API_VERSIONS = 10, 18


def fields_of(name: str, edition: str) -> Iterator[tuple[str, FieldSpec]]:
    message = load_schema(name, edition)
    waiting = [(field.name, field) for field in message.fields]
    while waiting:
        path, field = waiting.pop()
        yield path, field
        waiting += [(f"{path}.{below.name}", below) for below in field.fields]


def is_explained_in_full(name: str, edition: str) -> bool:
    message = load_schema(name, edition)
    if message.kind == "header":
        return True
    if message.kind in {"request", "response"}:
        return message.api_key in {*SHARE_APIS, FIND_COORDINATOR, API_VERSIONS}
    return name.startswith("Share")


@pytest.mark.parametrize("edition", sorted(EDITIONS))
def test_every_field_of_the_share_messages_is_documented(edition: str) -> None:
    explained = [name for name in message_names(edition) if is_explained_in_full(name, edition)]
    missing = [f"{name}.{path}" for name in explained for path, field in fields_of(name, edition) if not field.about]

    assert len(explained) >= 18
    assert missing == []


@pytest.mark.parametrize("edition", sorted(EDITIONS))
def test_a_time_field_documents_its_unit(edition: str) -> None:
    silent = [
        f"{name}.{path}"
        for name in message_names(edition)
        for path, field in fields_of(name, edition)
        if re.search(r"(Ms|Timestamp)$", field.name) and field.about and "milliseconds" not in field.about
    ]

    assert silent == []


@pytest.mark.parametrize("edition", sorted(EDITIONS))
def test_a_field_text_is_a_short_sentence(edition: str) -> None:
    for name in message_names(edition):
        for path, field in fields_of(name, edition):
            if field.about:
                assert field.about.endswith("."), f"{name}.{path}"
                assert len(field.about) <= 280, f"{name}.{path}"
                assert field.about.isprintable(), f"{name}.{path}"
