"""The version of the installed package."""

from __future__ import annotations

#: What a checkout has that is not installed.
UNKNOWN = "unknown"


def version_line(command: str) -> str:
    """What a command prints for --version."""
    version = package_version()
    return f"{command} (from a checkout that is not installed)" if version == UNKNOWN else f"{command} {version}"


def package_version() -> str:
    """The version of the package, or `UNKNOWN`."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("kwire")
    except PackageNotFoundError:
        return UNKNOWN
