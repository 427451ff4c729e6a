"""What may import what: levels by reading the source, and no torch where files are enough by running without it."""

from __future__ import annotations

import ast
import functools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import benchkit
from benchkit.__main__ import names as command_names

PACKAGE = Path(benchkit.__file__).parent
LEVELS = (
    ("conf", "registry", "settings", "errors", "trust", "allocation", "geometry", "metrics", "provenance"),
    ("store", "features", "preprocess", "images", "progress", "render", "viz", "duplicates"),
    ("datasets", "backbones", "heads", "estimators"),
    ("eval",),
    ("export",),
    (
        "experiments",
        "submissions",
        "boards",
        "compare",
        "report",
        "inspect",
        "launch",
        "commands",
        "interface",
        "__main__",
    ),
)
LEVEL = {part: level for level, parts in enumerate(LEVELS) for part in parts}
HEAVY = ("scipy", "matplotlib", "torch", "torchvision", "timm", "open_clip", "transformers", "sklearn", "cv2", "pandas")
EVAL_MAY = ("numpy", "h5py", "rich", "yaml", "benchkit")


def modules() -> Iterator[tuple[str, Path]]:
    """Dotted name below benchkit and file of every module."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


@functools.cache
def imports(path: Path) -> list[tuple[str, int]]:
    """(dotted module, line) of every import that runs when the module is imported."""
    return list(_of(ast.parse(path.read_text(encoding="utf-8")).body))


def _of(body: list[ast.stmt]) -> Iterator[tuple[str, int]]:
    for node in body:
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide what is imported"
            for alias in node.names:  # `from benchkit import eval` imports a module
                yield f"{node.module}.{alias.name}" if node.module == "benchkit" else str(node.module), node.lineno
        elif isinstance(node, ast.If) and _only_for_types_or_script(node.test):
            yield from _of(node.orelse)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for field in ("body", "orelse", "finalbody", "handlers"):
                inner = getattr(node, field, [])
                yield from _of([each for each in inner if isinstance(each, ast.stmt)])
                for handler in (each for each in inner if isinstance(each, ast.ExceptHandler)):
                    yield from _of(handler.body)


def _only_for_types_or_script(test: ast.expr) -> bool:
    return ast.unparse(test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING", "__name__ == '__main__'")


def part_of(dotted: str) -> str | None:
    """The part of benchkit that a module belongs to: `__main__` of a package is a command."""
    below = dotted.removeprefix("benchkit").removeprefix(".").split(".")
    if below[-1] == "__main__":
        return "__main__"
    return below[0] or None


def test_every_part_has_a_level():
    parts = {part_of(name) for name, _ in modules()} - {None}
    assert parts <= set(LEVEL)


def test_no_module_imports_a_higher_level():
    wrong = []
    for name, path in modules():
        own = LEVEL[part_of(name)] if part_of(name) else 0  # benchkit itself may import nothing above either
        for imported, line in imports(path):
            part = part_of(imported) if imported.split(".")[0] == "benchkit" else None
            if part in LEVEL and LEVEL[part] > own:
                wrong.append(f"{path}:{line} imports {imported}")
    assert wrong == []


def test_level_two_never_imports_its_neighbours():
    wrong = []
    for name, path in modules():
        for imported, line in imports(path):
            pair = part_of(name), part_of(imported) if imported.split(".")[0] == "benchkit" else None
            if all(part in LEVELS[2] for part in pair) and pair[0] != pair[1]:
                wrong.append(f"{path}:{line} imports {imported}")
            if pair[0] == "eval" and pair[1] in ("datasets", "backbones", "heads"):
                wrong.append(f"{path}:{line} imports {imported}")
    assert wrong == []


def test_eval_imports_only_light_libraries():
    wrong = []
    for name, path in modules():
        for imported, line in imports(path):
            top = imported.split(".")[0]
            if part_of(name) == "eval" and top not in EVAL_MAY and top not in sys.stdlib_module_names:
                wrong.append(f"{path}:{line} imports {imported}")
            if top in HEAVY and part_of(name) not in ("backbones", "export") and "solvers" not in name:
                wrong.append(f"{path}:{line} imports {imported}")
    assert wrong == []


def test_the_walk_sees_imports_where_they_run(tmp_path: Path):
    source = tmp_path / "m.py"
    source.write_text(
        "import a\nfrom benchkit import x\nif 1:\n    import b\ntry:\n    import c\nexcept E:\n    import d\n"
        "class K:\n    import e\n\n    def f(self):\n        import no\ndef g():\n    import no\n"
        "if __name__ == '__main__':\n    import no\nif TYPE_CHECKING:\n    import no\nelse:\n    import f\n"
    )
    assert [name for name, _ in imports(source)] == ["a", "benchkit.x", "b", "c", "d", "e", "f"]


REFUSE = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "timm", "torchvision"):
            raise ImportError(f"{name} was imported")
sys.meta_path.insert(0, Refuse())
"""


@pytest.fixture(scope="module")
def without_torch(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which importing torch fails."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "usercustomize.py").write_text(REFUSE)
    (folder / "sitecustomize.py").write_text(REFUSE)
    return {**os.environ, "PYTHONPATH": f"{folder}:{PACKAGE.parent}", "BENCHKIT_OUTPUTS": str(folder / "outputs")}


def python(*argv: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *argv], env=env, capture_output=True, text=True, timeout=120)


def test_torch_is_refused_in_that_environment(without_torch: dict[str, str]):
    end = python("-c", "import torch", env=without_torch)
    assert "torch was imported" in end.stderr


@pytest.mark.parametrize("command", command_names())
def test_help_needs_no_torch(without_torch: dict[str, str], command: str):
    end = python("-m", "benchkit", command, "--help", env=without_torch)
    assert end.returncode == 0, end.stderr
    assert "usage:" in end.stdout


@pytest.mark.parametrize(
    "argv",
    [
        ["benchkit"],
        ["benchkit", "--version"],
        ["benchkit", "list"],
        ["benchkit", "list", "classification", "retrieval"],
        ["benchkit", "list", "--tags"],
        ["benchkit.export", "--help"],
        ["benchkit.export", "--benchmark", "retrieval", "--help"],
        ["benchkit.eval", "--help"],
        ["benchkit.eval.classification", "--help"],
    ],
    ids=" ".join,
)
def test_telling_what_there_is_needs_no_torch(without_torch: dict[str, str], argv: list[str]):
    end = python("-m", *argv, env=without_torch)
    assert end.returncode == 0, end.stderr


@pytest.fixture(scope="module")
def outputs(without_torch: dict[str, str]) -> Path:
    """A finished tag of each family of the colour histogram, made with torch."""
    root = Path(without_torch["BENCHKIT_OUTPUTS"])
    env = {**os.environ, "BENCHKIT_OUTPUTS": str(root), "PYTHONPATH": str(PACKAGE.parent)}
    end = python("-m", "benchkit", *EXPORT, env=env)
    assert end.returncode == 0, end.stderr
    return root


FAMILIES = ["classification", "retrieval", "homography", "relative_pose"]
EXPORT = [
    "export",
    "--conf",
    "color_histogram",
    "--benchmark",
    *FAMILIES,
    "data.n_train=24",
    "data.n_test=18",
    "data.side=32",
]


def test_a_finished_tag_is_left_without_torch(without_torch: dict[str, str], outputs: Path):
    end = python("-m", "benchkit", *EXPORT, env=without_torch)
    assert end.returncode == 0, end.stderr
    assert end.stdout.count("nothing has changed") == len(FAMILIES)


@pytest.mark.parametrize("family", FAMILIES)
def test_eval_needs_no_torch_and_no_data_set(without_torch: dict[str, str], outputs: Path, family: str):
    heavy = ["scipy", "matplotlib", "benchkit.datasets.scenes", "benchkit.heads.logreg", "benchkit.export.run"]
    script = (
        "import sys\nfrom benchkit.commands.eval import main\n"
        f"status = main(['{family}', '--tag', 'color_histogram'])\n"
        f"assert not set(sys.modules) & set({heavy}), set(sys.modules) & set({heavy})\nsys.exit(status)"
    )
    for _ in range(2):  # computed, then found
        end = python("-c", script, env=without_torch)
        assert end.returncode == 0, end.stderr
        assert "95 % interval" in end.stdout
    end = python("-m", f"benchkit.eval.{family}", "--tag", "color_histogram", env=without_torch)
    assert end.returncode == 0, end.stderr
    assert "RuntimeWarning" not in end.stderr


def test_doctor_of_a_path_needs_no_torch(without_torch: dict[str, str], outputs: Path):
    end = python("-m", "benchkit", "doctor", str(outputs), "--json", env=without_torch)
    assert end.returncode == 0, end.stderr
