"""Puts the schemas, which lie beside the packages in a checkout, into the wheel, and builds the accelerator.

All else is in setup.cfg. The accelerator is optional: without a compiler the installation has the Python code only.
"""

import shutil
from pathlib import Path

from setuptools import Extension, setup
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


NATIVE = Extension(
    "kwire.accelerator.native",
    sources=sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("kwire/accelerator/src/*.c")),
    depends=sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("kwire/accelerator/src/*.h")),
    optional=True,
)

setup(ext_modules=[NATIVE], cmdclass={"build_py": BuildWithSchemas})
