"""Settings of the documentation site; `make docs` builds it."""

from __future__ import annotations

import importlib
import re
import sys
from importlib.metadata import version as installed_version
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

sys.path.insert(0, str(Path(__file__).parents[1]))

project = "kwire"
author = "the kwire contributors"
copyright = "the kwire contributors"
release = installed_version("kwire")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinxcontrib.mermaid"]

# Markdown: headings get anchors, so that links to `page.md#heading` are checked too.
myst_heading_anchors = 4
# Diagrams: the same fences that code hosts draw.
myst_fence_as_directive = ["mermaid"]
myst_enable_extensions = ["colon_fence", "deflist"]

# Docstrings are plain text with names in single backticks.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
maximum_signature_line_length = 88

html_theme = "furo"
html_title = "kwire and mockbroker"
html_static_path: list[str] = []
html_theme_options = {"navigation_with_keys": True, "top_of_page_buttons": []}

#: Packages whose public names the API reference must document.
PUBLIC_PACKAGES = ("mockbroker", "kwire", "kwire.records", "kwire.client", "kwire.capture", "kwire.spark")


def report_undocumented_names(app: Sphinx, env: BuildEnvironment) -> None:
    """Warn, and so fail the build, about public names that the API reference lacks: those have no docstring."""
    documented = set(env.get_domain("py").objects)  # type: ignore[attr-defined]
    modules = {package: importlib.import_module(package) for package in PUBLIC_PACKAGES}
    for package, module in modules.items():
        for name in getattr(module, "__all__", ()):
            # A name that two packages export is documented with one of them.
            homes = [other for other in modules if getattr(modules[other], name, None) is getattr(module, name)]
            if not documented & {f"{home}.{name}" for home in homes}:
                logging.getLogger(__name__).warning("%s.%s is public and not documented", package, name)


SECTION = re.compile(r"(Args|Returns|Yields|Raises|Source|Sources): ?(.*)")


def format_docstring(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Turn the sections of the project's docstrings (`Args:`, `Returns:`, `Raises:`, `Source:`) into field lists."""
    formatted: list[str] = []
    is_in_section = False
    for line in lines:
        section = SECTION.match(line)
        if section:
            if not is_in_section and formatted and formatted[-1]:
                formatted.append("")
            formatted.append(f":{section[1]}: {section[2]}")
            is_in_section = True
        elif is_in_section and line.strip():
            formatted.append(f"    {line.strip()}")
        else:
            is_in_section = False
            formatted.append(line)
    lines[:] = formatted


def setup(app: Sphinx) -> None:
    """Register the check of public names and the layout of docstrings."""
    app.connect("autodoc-process-docstring", format_docstring)
    app.connect("env-check-consistency", report_undocumented_names)
