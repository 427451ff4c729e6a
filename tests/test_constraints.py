"""constraints.txt holds one version of everything that pyproject.toml asks for, and of what that needs."""

import re
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def asked() -> list[Requirement]:
    extras = [text for name, group in PROJECT["optional-dependencies"].items() if name != "all" for text in group]
    return [Requirement(text) for text in (*PROJECT["dependencies"], *extras)]


def pinned() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = [re.fullmatch(r"([A-Za-z0-9._-]+)==(\S+)", line) for line in lines if line and not line.startswith("#")]
    assert all(pairs), "every line is name==version"
    return {canonicalize_name(pair[1]): pair[2] for pair in pairs if pair}


@pytest.mark.parametrize("requirement", asked(), ids=lambda r: r.name)
def test_each_dependency_is_pinned_to_a_version_it_allows(requirement):
    version = pinned().get(canonicalize_name(requirement.name))
    assert version is not None, f"{requirement.name} is missing from constraints.txt"
    assert requirement.specifier.contains(version)


def needed(name: str, seen: set[tuple[str, str]], extra: str = "") -> None:
    """Adds (name, extra) of everything that a distribution needs, also by an extra that somebody asks it for."""
    if (name, extra) in seen:
        return
    seen.add((name, extra))
    for text in distribution(name).requires or []:
        need = Requirement(text)
        if need.marker is None or need.marker.evaluate({**default_environment(), "extra": extra}):
            for each in ("", *need.extras):
                needed(canonicalize_name(need.name), seen, each)


def test_what_the_dependencies_need_is_pinned_and_nothing_else():
    found: set[tuple[str, str]] = set()
    for requirement in asked():
        needed(canonicalize_name(requirement.name), found)
    seen = {name for name, _ in found}
    missing, idle = seen - set(pinned()), set(pinned()) - seen
    # CUDA libraries come with torch on some platforms only, and through extras of their own
    idle = {name for name in idle if not name.startswith(("nvidia-", "cuda-", "triton"))}
    assert not missing, f"not pinned: {sorted(missing)}"
    assert not idle, f"pinned, but nothing asks for it: {sorted(idle)}"


def test_dependencies_are_bounded_above():
    for requirement in asked():
        assert any(s.operator in ("<", "<=", "==", "~=") for s in requirement.specifier), requirement.name
