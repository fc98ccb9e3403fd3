"""Each attack finds nothing in a short run."""

from __future__ import annotations

import pytest

from tests.attack.__main__ import main
from tests.attack.attacks import ATTACKS, run_attack


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_finds_no_violation(name: str) -> None:
    assert list(run_attack(name, 26, seconds=1.0)) == []


def test_an_unknown_attack_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["nothing"])

    assert exit_info.value.code == 2
    assert "unknown: nothing" in capsys.readouterr().err
