"""The confs live beside the code in `configs/`; an installed package carries them as benchkit/configs."""

from setuptools import find_namespace_packages, setup

setup(
    packages=[*find_namespace_packages(include=["benchkit*"]), "benchkit.configs", "benchkit.configs.benchmarks"],
    package_dir={"benchkit.configs": "configs"},
    package_data={"benchkit.configs": ["*.yaml"], "benchkit.configs.benchmarks": ["*.yaml"]},
)
