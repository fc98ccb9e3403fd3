"""The version of the installed package."""

from __future__ import annotations

from kwire.accelerator import describe_implementation

#: What a checkout has that is not installed.
UNKNOWN = "unknown"


def version_line(command: str) -> str:
    """What a command prints for --version: the version, and whether the codec is compiled."""
    version = package_version()
    known = "(from a checkout that is not installed)" if version == UNKNOWN else version
    return f"{command} {known}, {describe_implementation()} codec"


def package_version() -> str:
    """The version of the package, or `UNKNOWN`."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("kwire")
    except PackageNotFoundError:
        return UNKNOWN
