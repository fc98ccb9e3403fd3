"""Names of APIs in questions to the journal."""

from __future__ import annotations

import msgspec
import pytest

from kwire.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from mockbroker.journal.api_names import resolve_api_name


@pytest.mark.parametrize("api", ["ShareFetch", ShareFetchRequest])
def test_a_name_and_the_class_of_requests_name_an_api(api: str | type[msgspec.Struct]) -> None:
    assert resolve_api_name(api) == "ShareFetch"


@pytest.mark.parametrize(
    ("api", "hint"),
    [
        ("ProduceRequest", "did you mean 'Produce'?"),
        ("produce", "did you mean 'Produce'?"),
        ("DeleteTopic", "did you mean 'DeleteTopics'?"),
        ("sharefetch response", "did you mean 'ShareFetch'?"),
        ("", "the names are those of Kafka"),
        ("?", "the names are those of Kafka"),
    ],
)
def test_an_unknown_name_is_an_error_with_the_nearest_one(api: str, hint: str) -> None:
    with pytest.raises(ValueError, match="is not the name of an API") as error:
        resolve_api_name(api)

    assert hint in str(error.value)


@pytest.mark.parametrize("wrong", [ShareFetchResponse, int])
def test_another_class_is_an_error(wrong: type) -> None:
    with pytest.raises(ValueError, match=f"{wrong.__name__} is not the class of a request"):
        resolve_api_name(wrong)
