"""Which benchmarks are meant: by instance, by family, by level; in the order of levels, instances below their family."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchkit.conf.find import find_benchmark
from benchkit.errors import BenchkitError, RunError, UsageError, printable
from benchkit.eval.base import LEVELS
from benchkit.provenance.record import read_record
from benchkit.store.outputs import Outputs


@dataclasses.dataclass(frozen=True, order=True)
class Instance:
    """A benchmark with tags; in the order of boards.

    Attributes:
        level: its number in LEVELS; family; below: its name, "" of a family itself.
    """

    level: int
    family: str
    below: str

    @property
    def name(self) -> str:
        """As it is called in paths."""
        return self.below or self.family


def chosen_benchmarks(outputs: Outputs, names: Sequence[str] = ()) -> list[Instance]:
    """Benchmarks with tags that fit any of the names, which are instances, families or levels; all without a name.

    Raises:
        UsageError: a name is none of a benchmark, or nothing below the outputs folder fits.
    """
    known = [place for name in outputs.benchmarks() if (place := _instance(outputs, name))]
    if not known:
        raise UsageError(f"{outputs.root} has no scored tag: benchkit run makes one.")
    chosen: set[Instance] = set()
    for name in names:
        fits = {each for each in known if name in (LEVELS[each.level], each.family, each.name)}
        if not fits and name not in LEVELS:
            find_benchmark(name)
        if not fits:
            what = f"the {name} level" if name in LEVELS else name
            raise UsageError(f"{outputs.root} has no scored tag of {what}: benchkit run makes one.")
        chosen |= fits
    return sorted(chosen if names else known)


def _instance(outputs: Outputs, name: str) -> Instance | None:
    """What the first readable record of a benchmark says; None where nothing is finished or broken."""
    found: Instance | None = None
    for folder in outputs.folders(name):
        with contextlib.suppress(BenchkitError):  # it is told of where all tags are read
            record = read_record(folder)
            if record is None:
                continue
            family = str(record["family"])
            return Instance(level_of(folder, record), family, "" if name == family else name)
        found = Instance(len(LEVELS) - 1, name, "")
    return found


def level_of(folder: Path, record: Mapping[str, Any]) -> int:
    """The number of a record's level in LEVELS.

    Raises:
        RunError: there is no such level.
    """
    if record["level"] not in LEVELS:
        level = printable(record["level"], 80)
        raise RunError(f"{folder}/record.json has the level {level!r}: there are {', '.join(LEVELS)}. Export again.")
    return LEVELS.index(record["level"])
