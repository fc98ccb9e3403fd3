"""`--release` and `--edition` of all commands that read or write messages."""

from __future__ import annotations

import argparse

import pytest

from kwire.cli.edition import add_edition_arguments


def parse(*arguments: str) -> str:
    parser = argparse.ArgumentParser()
    add_edition_arguments(parser)
    return str(parser.parse_args(arguments).edition)


def test_the_newest_release_is_the_default() -> None:
    assert parse() == "4.4"


def test_a_release_and_an_edition_of_share_groups_can_be_chosen() -> None:
    assert parse("--release", "4.3") == "4.3"
    assert parse("--edition", "kip932-r3") == "kip932-r3"
    assert parse("--edition", "before-4.0") == "before-4.0"


def test_an_unknown_release_names_those_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        parse("--release", "5.0")

    assert exit_.value.code == 2
    error = capsys.readouterr().err.replace("'", "")  # Python 3.12 and later show the choices without quotes.
    assert "argument --release: invalid choice: 5.0 (choose from 4.4, 4.3)" in error


def test_a_release_and_an_edition_together_are_refused() -> None:
    with pytest.raises(SystemExit):
        parse("--release", "4.4", "--edition", "kip932-r3")
