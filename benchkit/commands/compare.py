"""Compare scored tags item by item: which is better, by how much, and whether chance alone could say so.

Every difference is B - A: another tag's score minus that of the first one named, over the items that all have, joined by
name. Its 95 % interval and its p take the pairing into account; where items have groups (scenes), groups are drawn whole.
Scores of the whole set (mIoU, an area under a curve) are made again from resampled items; where resampling itself adds to a
score (a calibration error, ece) its interval lies to one side, which is said, and p is what counts. Tags that were scored under
different protocols are refused, and the field that differs is named; with --across that field is what is compared.

With more than two tags: a matrix of wins, and a ranking in which tags that are not told apart share a place.

gates:
  --fail-if "miou < -0.005 and significant" ends with 1 if B's miou is lower than A's by more than .005 and p < .05 after
  Holm's correction for all tests shown. The number is in the metric's own unit, and shares go from 0 to 1: half a
  percentage point is -0.005, or -0.5%. Metrics are named in any case; `and` binds closer than `or`; a gate whose
  difference is undefined fails.

examples:
  benchkit compare classification resnet50_a1 dinov2_vits14
  benchkit compare retrieval 'dinov2_*' --metric mAP --format latex
  benchkit compare retrieval resnet50_a1 resnet50_a1+layer3 --across layers
  benchkit compare classification main branch --fail-if "top1 < -1% and significant or nll > .1" --junit compare.xml
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchkit.commands._shared import guarded, parse, parser, say
from benchkit.commands._tables import FORMATS, remark, render

if TYPE_CHECKING:
    from benchkit.compare.comparison import Comparison


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns the exit status (1 where a gate failed)."""
    made = parser("benchkit compare", __doc__)
    made.add_argument("benchmark", help="instance or family, as it was exported")
    made.add_argument("tags", nargs="+", metavar="TAG", help="two or more, the first is A; * stands for anything")
    made.add_argument("--metric", nargs="+", action="extend", metavar="M", help="metrics compared (default: all)")
    made.add_argument(
        "--fail-if", action="append", default=[], metavar="GATE", help="see above; may be given repeatedly"
    )
    made.add_argument(
        "--allow-missing", action="store_true", help="compare the common items where the tags' items differ"
    )
    made.add_argument(
        "--across",
        nargs="+",
        default=[],
        metavar="FIELD",
        help="fields of the protocol that may differ: head, layers, seed ...",
    )
    made.add_argument("--items", type=int, default=5, metavar="N", help="items named where B gains and loses most (5)")
    made.add_argument("--format", choices=FORMATS, default="table", help="how the tables are printed")
    made.add_argument("--json", action="store_true", help="print everything as JSON instead")
    made.add_argument(
        "--junit", type=Path, metavar="FILE", help="write a test per gate and pair, or per metric, as XML"
    )
    made.add_argument("--outputs", metavar="DIR", help="default: $BENCHKIT_OUTPUTS, else ./outputs")
    given = parse(made, sys.argv[1:] if argv is None else argv)
    return guarded(lambda: _run(given), given.traceback, goes_on=False)


def _run(given: argparse.Namespace) -> int:
    from benchkit.compare import compare
    from benchkit.compare.tables import gate_lines
    from benchkit.errors import UsageError

    if given.items < 0:
        raise UsageError("--items is how many items are named: 0 or more.")
    if given.junit and given.junit.is_dir():
        raise UsageError(f"--junit {given.junit} is a folder: name the file that is to be written.")
    found = compare(
        given.benchmark,
        given.tags,
        metrics=given.metric,
        allow_missing=given.allow_missing,
        across=given.across,
        fail_if=given.fail_if,
        items=given.items,
        outputs=given.outputs,
    )
    print(_json(found) if given.json else _text(found, given.format))
    if given.json or given.format == "csv":  # standard output is for a program then
        for line in gate_lines(found):
            say(line)
    if given.junit:  # last: where it cannot be written the comparison is not lost
        _write_junit(found, given.junit)
    return 1 if found.failed else 0


def _write_junit(found: Comparison, path: Path) -> None:
    """The file is the user's own, who may change it; one behind a link is written where it lies."""
    from benchkit.compare.junit import junit
    from benchkit.store.files import replacing

    with replacing(path.resolve(), read_only=False) as unfinished:
        unfinished.write_text(junit(found), encoding="utf-8")


def _json(found: Comparison) -> str:
    import json

    from benchkit.compare.plain import plain

    return json.dumps(plain(found), indent=1, allow_nan=False)  # ASCII: the name of a folder may be no UTF-8


def _text(found: Comparison, style: str) -> str:
    """The tables; what else there is to say is left out of CSV, which programs read."""
    from benchkit.compare.tables import NUMERIC, differences_rows, differences_table, head, lines, wins_table

    if style == "csv":
        return render(*differences_rows(found), style)
    after = "\n" if style == "markdown" else ""  # a table ends with an empty line
    parts = [remark(head(found), style), render(*differences_table(found), style, NUMERIC, rules=True) + after]
    wins = wins_table(found)
    if wins is not None and found.wins is not None:
        numeric = () if style == "table" else wins[0][1:]  # columns in a terminal may be many
        parts += [remark(f"wins by {found.wins.column}:", style), render(*wins, style, numeric, rules=True) + after]
    return "\n".join([*parts, *(remark(line, style) for line in lines(found))])
