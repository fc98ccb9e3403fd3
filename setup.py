"""Puts the schemas, which lie beside the packages in a checkout, into the wheel; all else is in setup.cfg."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent


class BuildWithSchemas(build_py):
    """As usual, and then schemas/ becomes kwire/_schemas."""

    def run(self) -> None:
        """An editable install reads the checkout's own schemas, so nothing is copied for it."""
        super().run()
        if self.editable_mode:
            return
        target = Path(self.build_lib) / "kwire" / "_schemas"
        # A build directory that is used again must not keep a schema that is gone.
        shutil.rmtree(target, ignore_errors=True)
        for file in sorted((ROOT / "schemas").rglob("*.json")):
            copy = target / file.relative_to(ROOT / "schemas")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)


setup(cmdclass={"build_py": BuildWithSchemas})
