"""The confs live beside the code in `configs/`; a built package carries them as benchkit/configs.

Copied at build time, not mapped: with a mapping, an editable install needs an import hook, and then a folder that happens
to be called benchkit beside a user's script hides the package.
"""

import shutil
from pathlib import Path

from setuptools import find_namespace_packages, setup
from setuptools.command.build_py import build_py


class BuildWithConfs(build_py):
    """Copies the confs into the package, except for an editable install, which reads them where they are."""

    def run(self):
        super().run()
        if not self.editable_mode:
            shutil.copytree("configs", Path(self.build_lib) / "benchkit" / "configs", dirs_exist_ok=True)


setup(
    packages=find_namespace_packages(include=["benchkit*"]),
    package_data={"benchkit.inspect": ["page/*"], "benchkit.report": ["page/*"]},
    package_dir={"": "."},  # so that an editable install is this folder on the path, and nothing cleverer
    cmdclass={"build_py": BuildWithConfs},
)
