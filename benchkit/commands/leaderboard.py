"""Rank the scored tags of benchmarks, one board for each protocol that some of them share; or submissions.

Without a benchmark: all, by level, instances below their family. A benchmark may be an instance, a family or a level (high,
mid, low, geometry). Tags that no board holds are listed with the field of the protocol that keeps them apart.

Rows share a place (1-3) where none is significantly worse than the best of them: down the board each row is tested against the
best of the group above it by a paired test over items (groups where items have them), and p < .05, after Bonferroni's
correction for all pairs of the board, begins the next group. Scores of whole sets over 30 items or more are tested by the
paired bootstrap's standard error, means by permutation; `benchkit compare` tests two tags at length.

With --from, files of submissions are ranked by their benchmark's own board (painting_vision: mIoU within one benchmark
version, taxonomy and dataset_id) and the tags below the outputs folder have no part in it; without it, tags of
painting_vision are ranked as any others.

examples:
  benchkit leaderboard
  benchkit leaderboard retrieval
  benchkit leaderboard geometry --tag 'dino*' --format markdown
  benchkit leaderboard classification --baseline efficientnet_lite0 --metrics all
  benchkit leaderboard --wide --percent --format latex
  benchkit leaderboard painting_vision --from submissions/*.json
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchkit.commands._shared import Parser, guarded, parse, parser, say
from benchkit.commands._tables import FORMATS

if TYPE_CHECKING:
    from benchkit.boards import Board

JSON = "json"
OF_TAGS = {  # flags that submissions do not take
    "tags": "--tag",
    "baseline": "--baseline",
    "metrics": "--metrics",
    "wide": "--wide",
    "percent": "--percent",
    "plot": "--plot",
}


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns the exit status (2 where a file is no submission, a tag's own where it cannot be read)."""
    given = parse(_parser(), sys.argv[1:] if argv is None else argv)
    return guarded(lambda: _submissions(given) if given.files else _tags(given), given.traceback, goes_on=False)


def _parser() -> Parser:
    made = parser("benchkit leaderboard", __doc__)
    made.add_argument("benchmarks", nargs="*", metavar="benchmark", help="instances, families or levels (default: all)")
    made.add_argument(
        "--from", dest="files", nargs="+", type=Path, metavar="FILE", help="submissions, in place of tags"
    )
    made.add_argument("--tag", dest="tags", nargs="+", metavar="TAG", help="only these; * stands for anything")
    made.add_argument(
        "--baseline", metavar="TAG", help="differences to this tag in place of scores; p after Holm's correction"
    )
    made.add_argument(
        "--metrics", nargs="+", metavar="METRIC", help="further metrics (with --wide: the columns), or all"
    )
    made.add_argument(
        "--wide",
        action="store_true",
        help="one table: a row per tag, a column per benchmark; in bold what shares the first place",
    )
    made.add_argument("--percent", action="store_true", help="scores without a unit in per cent, with one decimal")
    made.add_argument(
        "--plot", action="store_true", help="leave leaderboard.png and .pdf (a heat map of all), and _costs"
    )
    made.add_argument("--outputs", metavar="DIR", help="default: $BENCHKIT_OUTPUTS, else ./outputs")
    made.add_argument(
        "--format", choices=(*FORMATS, JSON), default="table", help="how it is printed; csv and json: all digits"
    )
    return made


def _tags(given: argparse.Namespace) -> int:
    from benchkit.commands._boards import print_boards
    from benchkit.commands._wide import print_wide

    statuses = [0]
    boards = _boards(given, statuses)
    if given.format == JSON:
        _print_json(boards)
    elif given.wide:
        print_wide(boards, given.metrics or (), given.format, given.percent, given.baseline)
    else:
        print_boards(boards, given.metrics or (), given.format, given.percent, given.baseline)
    if given.plot:
        _plot(given, boards)
    return max(statuses)


def _boards(given: argparse.Namespace, statuses: list[int]) -> list[Board]:
    """Boards as asked for; the status of every tag that cannot be read is added to `statuses`."""
    from benchkit.boards import boards_of
    from benchkit.boards.baseline import with_differences
    from benchkit.boards.metrics import refuse_unknown_metrics
    from benchkit.errors import BenchkitError, RunError, UsageError
    from benchkit.store.outputs import Outputs

    def failed(error: BenchkitError) -> None:
        say(str(error))
        statuses.append(error.status)

    if given.percent and given.format in ("csv", JSON):
        raise UsageError(f"--percent rounds, and {given.format} holds all digits: leave one of them out.")
    if given.wide and given.format == JSON:
        raise UsageError("--wide is a table to read, and json holds every board as it is: leave one of them out.")
    outputs = Outputs(given.outputs)
    boards = boards_of(outputs, given.benchmarks, given.tags or (), on_error=failed)
    if not any(board.rows for board in boards):
        error = RunError if max(statuses) == RunError.status else UsageError
        raise error(_nothing(boards, given, str(outputs.root)))
    refuse_unknown_metrics(boards, given.metrics or ())
    return with_differences(boards, given.baseline, given.metrics or ()) if given.baseline else boards


def _nothing(boards: Sequence[Board], given: argparse.Namespace, root: str) -> str:
    from benchkit.errors import printable, some

    of = f" of {', '.join(given.benchmarks)}" if given.benchmarks else ""
    fits = f" that fits {' or '.join(map(printable, given.tags))}" if given.tags else ""
    why = [f"{printable(tag, 80)}: {reason}" for board in boards for tag, reason in board.apart.items()]
    return f"{root} has no scored tag{of}{fits}: benchkit run makes one. {some(why, between='; ')}".rstrip()


def _print_json(boards: Sequence[Board]) -> None:
    from benchkit.boards.plain import plain_board

    print(json.dumps({"boards": [plain_board(board) for board in boards]}, indent=1, allow_nan=False))


def _plot(given: argparse.Namespace, boards: Sequence[Board]) -> None:
    from benchkit.boards.pictures import draw_boards
    from benchkit.store.outputs import Outputs

    for path in draw_boards(boards, Outputs(given.outputs).root):
        print(f"picture: {path}", file=sys.stdout if given.format == "table" else sys.stderr)


def _submissions(given: argparse.Namespace) -> int:
    from benchkit.commands._boards import print_remarks
    from benchkit.commands._tables import render
    from benchkit.errors import UsageError, printable
    from benchkit.submissions.board import rank, rows
    from benchkit.submissions.entry import read_entry

    _refuse_of_tags(given)
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
    if given.format == JSON:
        ranked = [{"entry": name, **entry} for name, entry in board.ranked]
        print(json.dumps({"triple": board.triple, "rows": ranked, "apart": board.apart}, indent=1, allow_nan=False))
        return worst
    print_remarks([f"benchmark {board.triple[0]}, taxonomy {board.triple[1]}, data {board.triple[2]}"], given.format)
    print(render(*rows(board), given.format))
    print_remarks([f"not ranked: {printable(name, 200)}: {why}" for name, why in board.apart.items()], given.format)
    return worst


def _refuse_of_tags(given: argparse.Namespace) -> None:
    from benchkit.conf.find import find_benchmark
    from benchkit.errors import UsageError
    from benchkit.submissions.entry import FAMILY

    odd = [flag for name, flag in OF_TAGS.items() if getattr(given, name)]
    if odd:
        raise UsageError(f"{odd[0]} is for tags, and --from ranks files: leave one of them out.")
    for name in given.benchmarks:
        if find_benchmark(name).family != FAMILY:
            raise UsageError(f"{name} has no board of submissions; {FAMILY} has one.")
