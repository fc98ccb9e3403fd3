"""`python -m tools.lowest_versions [--as-declared] EXTRA ...`: the lowest versions that setup.cfg allows, for pip.

Printed for the dependencies of the project and of these extras: `msgspec>=0.19` becomes `msgspec==0.19`. With
`--as-declared` the requirements are printed as they stand. Exit code 2 for an unknown extra.
"""

from __future__ import annotations

import configparser
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

SETUP = Path(__file__).parent.parent / "setup.cfg"
_AS_DECLARED = "--as-declared"
_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)>=(?P<version>[0-9.]+)(?:,<[0-9.]+)?(?P<marker>\s*;.*)?")


def main(arguments: list[str]) -> int:
    """Print the requirements."""
    extras = [argument for argument in arguments if argument != _AS_DECLARED]
    options = configparser.ConfigParser(interpolation=None)
    options.read(SETUP, encoding="utf-8")
    known = options["options.extras_require"]
    unknown = [extra for extra in extras if extra not in known]
    if unknown:
        print(f"setup.cfg has no extra {', '.join(unknown)}; it has {', '.join(known)}", file=sys.stderr)
        return 2
    texts = [options["options"]["install_requires"], *(known[extra] for extra in extras)]
    declared = [line.strip() for text in texts for line in text.splitlines()]
    requirements = [line for line in declared if line and not line.startswith("#")]
    print(*(requirements if _AS_DECLARED in arguments else lowest(requirements)), sep="\n")
    return 0


def lowest(requirements: Iterable[str]) -> Iterator[str]:
    """Each requirement with its lowest version, once. Raises: ValueError for one that has none."""
    found: dict[str, str] = {}
    for requirement in requirements:
        match = _REQUIREMENT.fullmatch(requirement)
        if match is None:
            raise ValueError(f"setup.cfg: {requirement!r} has no lowest version; expected NAME>=VERSION")
        found[match["name"]] = f"{match['name']}=={match['version']}{match['marker'] or ''}"
    yield from found.values()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
