"""The command `python -m mockbroker.sim` in a process that goes on afterwards."""

from __future__ import annotations

import logging

import pytest

from mockbroker.sim.__main__ import main


@pytest.mark.parametrize("disabled", [logging.NOTSET, logging.INFO])
def test_the_log_of_the_process_is_as_before(disabled: int) -> None:
    logging.disable(disabled)
    try:
        assert main(["--seed", "1", "--steps", "10"]) == 0
        assert logging.root.manager.disable == disabled
    finally:
        logging.disable(logging.NOTSET)
