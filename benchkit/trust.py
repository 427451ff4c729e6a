"""Whose code may run. A dotted path is code that will be imported and called, and a file that names one may be a stranger's.

A dotted path is used where the user typed it (on the command line, or as an argument in Python), where the module is the
user's own (it lies below the working directory, in packages with an `__init__.py`, or it is one of benchkit's components), or
where everything is trusted: `--trust`, `trust=True`, or BENCHKIT_TRUST=1. A conf may name dotted paths where it came with
the package or lies below the working directory; any other needs trust for every one of them.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from benchkit.errors import UsageError

KEYS = ("name", "path", "estimator", "family")  # settings that hold what is imported
PLACES = (
    "repo",
    "commit",
)  # settings that say where code lies that runs: a folder, or a commit, which may be of anybody's fork
OURS = ("datasets", "backbones", "heads", "estimators", "eval")  # packages of benchkit that hold components
_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")
_PACKAGE = Path(__file__).resolve().parent
_INSTALLED = ("site-packages", "dist-packages")

_typed: set[str] = set()
_everything = False


def begin(everything: bool) -> None:
    """A command starts: nothing has been typed yet."""
    global _everything
    _everything = everything
    _typed.clear()


def typed(*texts: str) -> None:
    """The user wrote these names; those that are dotted paths may be imported from now on."""
    _typed.update(text for text in texts if _DOTTED.fullmatch(text))


def typed_setting(key: str, text: str) -> None:
    """The user wrote `key=text`: one name, or several between commas."""
    if key.rpartition(".")[2] in KEYS:
        typed(*(each.strip() for each in text.strip("[]").split(",")))


@contextlib.contextmanager
def everything(given: bool) -> Iterator[None]:
    """While the block runs, any dotted path may be imported, if `given`."""
    global _everything
    before, _everything = _everything, _everything or given
    try:
        yield
    finally:
        _everything = before


def refuse_foreign(path: str) -> None:
    """See the module.

    Raises:
        UsageError: this dotted path may not be imported.
    """
    if not (_allowed(path) or _is_own(path)):
        raise UsageError(
            f"{path!r} is code that would be imported and run, and a file names it, not you. {_mend(path)}, or name it "
            "yourself on the command line."
        )


def named_in_conf(path: Path, key: str, text: str, where: str) -> None:
    """What a conf says under one key: a dotted path may be imported from now on, if the conf is the user's.

    Raises:
        UsageError: it would import code, and nobody said that the conf is trusted.
    """
    last = key.rpartition(".")[2]
    if last in PLACES and not (_everything or _by_environment() or _came_with_us(path)):
        raise UsageError(
            f"{key} ({where}): this conf is from outside the working directory, and says which code runs. {_mend(text)}."
        )
    named = text if key == f"benchmarks.{text}" else text if last in KEYS else ""
    for each in (part.strip() for part in named.strip("[]").split(",")):
        if not _DOTTED.fullmatch(each):
            continue
        if _came_with_us(path):
            typed(each)
        elif not _allowed(each):
            raise UsageError(
                f"{key} ({where}): this conf is from outside the working directory, and {each} is code that it would import and "
                f"run. {_mend(each)}."
            )


def _mend(path: str) -> str:
    return f"Read it first; where you trust {path}, give --trust (from Python trust=True), or set BENCHKIT_TRUST=1"


def _allowed(path: str) -> bool:
    return _everything or path in _typed or _by_environment()


def _by_environment() -> bool:
    return os.environ.get("BENCHKIT_TRUST") == "1"


def _came_with_us(conf: Path) -> bool:
    """Whether a conf lies in the package, in the checkout's `configs`, or below the working directory."""
    places = [_PACKAGE, *_here()]
    if (_PACKAGE.parent / "pyproject.toml").is_file():
        places.append(_PACKAGE.parent / "configs")
    return any(conf.resolve().is_relative_to(place) for place in places)


def _here() -> list[Path]:
    """The working directory, unless that is the root of everything."""
    here = Path.cwd().resolve()
    return [here] if here != here.parent else []


def _is_own(path: str) -> bool:
    """Whether a dotted path is the user's own code, or a component that ships; nothing is imported to find out."""
    first, *rest = path.split(".")
    if first == "benchkit":
        return bool(rest) and rest[0] in OURS
    try:
        spec = importlib.util.find_spec(first)
    except (ImportError, ValueError):
        return False
    if spec is None or not spec.origin or not spec.has_location or not _is_below(Path(spec.origin)):
        return False
    folder = Path(spec.origin).parent if spec.submodule_search_locations is not None else None
    for part in rest:
        if folder is None or not (folder / part).is_dir():
            return folder is None or _is_below(folder / f"{part}.py")
        folder = folder / part
        if not (folder / "__init__.py").is_file() or not _is_below(folder):
            return False  # any folder of files could be called so, also one of results that was copied here
    return True


def _is_below(file: Path) -> bool:
    real = file.resolve()
    installed = real.is_relative_to(Path(sysconfig.get_path("stdlib")).resolve()) or any(
        part in _INSTALLED for part in real.parts
    )
    return not installed and any(real.is_relative_to(place) for place in _here())
