"""Documentation texts of configurations."""

from __future__ import annotations

import pytest

from mockbroker.config.config_docs import config_docs
from mockbroker.config.keys import Scope, config_keys


@pytest.mark.parametrize("scope", Scope)
def test_each_configuration_has_one_sentence(scope: Scope) -> None:
    texts = config_docs(scope)
    names = {name for release in ("4.3", "4.4") for name in config_keys(scope, release)}

    assert texts.keys() == names
    assert [name for name, text in texts.items() if not text.endswith(".") or ". " in text] == []
