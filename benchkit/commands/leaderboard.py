"""Rank experiments that may be compared, and name what keeps the others out: the scored tags of a benchmark, or submissions.

examples:
  benchkit leaderboard retrieval
  benchkit leaderboard painting_vision --from submissions/*.json
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchkit.commands._shared import guarded, parse, parser, say
from benchkit.commands._tables import FORMATS, beats_floor, number, render


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns the exit status (2 where a file is no submission)."""
    made = parser("benchkit leaderboard", __doc__)
    made.add_argument("benchmark", help="a benchmark; of submissions one with a board, such as painting_vision")
    made.add_argument(
        "--from", dest="files", nargs="+", type=Path, metavar="FILE", help="submissions, in place of tags"
    )
    made.add_argument("--outputs", metavar="DIR", help="default: $BENCHKIT_OUTPUTS, else ./outputs")
    made.add_argument("--format", choices=FORMATS, default="table", help="how the table is printed")
    given = parse(made, sys.argv[1:] if argv is None else argv)
    return guarded(lambda: _submissions(given) if given.files else _tags(given), given.traceback)


def _tags(given: argparse.Namespace) -> int:
    from benchkit.conf.find import find_benchmark
    from benchkit.errors import UsageError
    from benchkit.provenance.record import read_record
    from benchkit.store.outputs import Outputs
    from benchkit.submissions.records import rank_records

    find_benchmark(given.benchmark)
    where = Outputs(given.outputs)
    found = [read_record(where.tag(given.benchmark, tag)) for tag in where.tags(given.benchmark)]
    ranking = rank_records([record for record in found if record])
    if not ranking.ranked:
        raise UsageError(f"{where.root} has no scored tag of {given.benchmark}: benchkit run makes one.")
    header = ["", "tag", "model", "head", f"{ranking.metric} ({ranking.better})", "low", "high", "floor", ""]
    print(render(header, [_row(p, r, ranking.metric) for p, r in enumerate(ranking.ranked, 1)], given.format))
    _say_apart(ranking.apart)
    return 0


def _row(place: int, record: Any, metric: str) -> list[str]:
    score = record["scores"][metric]
    numbers = map(number, (score["value"], *(score["interval"] or (None, None)), score["floor"]))
    mark = "" if beats_floor(score) else "does not beat the floor"
    return [str(place), record["tag"], record["backbone"]["name"], record["head"]["name"], *numbers, mark]


def _submissions(given: argparse.Namespace) -> int:
    from benchkit.conf.find import find_benchmark
    from benchkit.errors import UsageError
    from benchkit.submissions.board import rank, rows
    from benchkit.submissions.entry import FAMILY, read_entry

    if find_benchmark(given.benchmark).family != FAMILY:
        raise UsageError(f"{given.benchmark} has no board of submissions; {FAMILY} has one.")
    entries, worst = [], 0
    for path in dict.fromkeys(given.files):
        try:
            entries.append((str(path), read_entry(path)))
        except UsageError as error:
            say(str(error))
            worst = 2
    if not entries:
        raise UsageError("none of the files is a submission: nothing can be ranked.")
    board = rank(entries)
    print(f"benchmark {board.triple[0]}, taxonomy {board.triple[1]}, data {board.triple[2]}")
    print(render(*rows(board), given.format))
    _say_apart(board.apart)
    return worst


def _say_apart(apart: dict[str, str]) -> None:
    from benchkit.errors import printable

    for name, why in apart.items():
        print(f"not ranked: {printable(name, 200)}: {why}")
