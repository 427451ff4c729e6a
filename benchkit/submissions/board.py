"""Submissions side by side: ranked only where versions and data agree, and the others with what keeps them out."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from benchkit.errors import printable
from benchkit.metrics.painting import TAXONOMY_VERSION
from benchkit.registry import find
from benchkit.submissions.entry import CLOSE, FAMILY, TRIPLE, beats_floor, contradictions

Entry = Mapping[str, Any]


@dataclasses.dataclass
class Board:
    """A ranking.

    Attributes:
        triple: what all ranked entries share: benchmark_version, taxonomy_version, dataset_id.
        ranked: (name, entry), best first.
        apart: name of an entry that is not ranked -> why.
    """

    triple: tuple[str, str, str]
    ranked: list[tuple[str, Entry]]
    apart: dict[str, str]


def rank(entries: Sequence[tuple[str, Entry]]) -> Board:
    """Rank entries by mIoU within one triple: this benchkit's versions where there are any, then the one with most entries.

    Ties are ordered by name. Equal content under two names is kept once, under the first.
    """
    counts = Counter(_triple(entry) for _, entry in entries)
    versions = (find("eval", FAMILY).build.benchmark_version, TAXONOMY_VERSION)
    chosen = min(counts, key=lambda triple: (triple[:2] != versions, -counts[triple], triple))
    ranked, apart = [], {}
    seen: list[tuple[str, Entry]] = []
    for name, entry in sorted(entries, key=lambda each: each[0]):
        twin = next((other for other, known in seen if known == entry), None)
        if twin is not None:
            apart[name] = f"it is the same as {twin}"
        elif _triple(entry) != chosen:
            odd = [f"{key} is {printable(entry[key], 80)}, not {known}" for key, known in zip(TRIPLE, chosen, strict=True)
                   if entry[key] != known]  # fmt: skip
            apart[name] = "; ".join(odd)
        else:
            ranked.append((name, entry))
        seen.append((name, entry))
    ranked.sort(key=lambda each: -_score(each[1]))
    return Board(chosen, ranked, apart)


def _triple(entry: Entry) -> tuple[str, str, str]:
    first, second, third = (str(entry[key]) for key in TRIPLE)
    return first, second, third


def _score(entry: Entry) -> float:
    value = entry["shared_metrics"]["mIoU"]
    return -1.0 if value is None else float(value)


def rows(board: Board) -> tuple[list[str], list[list[str]]]:
    """The ranking as a table, with inference size as a column and entries that do not beat the floor marked."""
    header = ["", "entry", "model", "mIoU", "other", "wall", "window", "precision", "recall", "coverage", "mIoU 10",
              "size", "floor", ""]  # fmt: skip
    table = []
    floors = Counter(entry["extra"]["floor"]["mIoU"] for _, entry in board.ranked)
    usual = max(floors, key=lambda floor: floors[floor]) if floors else None
    for place, (name, entry) in enumerate(board.ranked, 1):
        shared, paint = entry["shared_metrics"], entry["paint_state_metrics"]
        numbers = [shared["mIoU"], *(shared["iou"][k] for k in ("other", "wall", "window"))]
        numbers += [shared["window_precision"], shared["window_recall"]]
        numbers += [paint["painted_coverage_mae"], paint["mIoU_full_10class"]]
        floor, model = entry["extra"]["floor"]["mIoU"], printable(entry["extra"].get("model", ""), 40)
        marks = [] if beats_floor(entry) else ["does not beat the floor: has learned nothing"]
        if not _equal(floor, usual):
            marks.append(f"its floor is not that of the others ({_number(usual)}), though the data are")
        marks += contradictions(entry)
        table.append([str(place), printable(name, 200), model, *map(_number, numbers), str(entry["inference_size"]),
                      _number(floor), "; ".join(marks)])  # fmt: skip
    return header, table


def _equal(one: float | None, other: float | None) -> bool:
    return one == other or (one is not None and other is not None and abs(one - other) <= CLOSE)


def _number(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, int | float) else "null"
