"""Write one HTML file that shows boards, plots, flips and pictures: it opens from disk, without a network.

It holds the scores of every item, their thumbnails, and pictures of at most 100 items of each benchmark: do not hand it to
those who may not see the images. Records and confs are in it as they are, with the paths of data and checkpoints that they
name; --no-paths cuts these to their last parts. Needs the extra `report` (Bokeh).

examples:
  benchkit report -o report.html
  benchkit report classification retrieval --tag 'efficientnet*' 'mobilenet*'
  benchkit report classification --flips efficientnet_lite0 mobilenetv2_100 --baseline efficientnet_lite0
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchkit.commands._shared import guarded, parse, parser, say


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns the exit status, that of a tag which cannot be read included."""
    made = parser("benchkit report", __doc__)
    made.add_argument(
        "benchmarks", nargs="*", metavar="benchmark", help="instances, families or levels; default: all there are"
    )
    made.add_argument("--tag", nargs="+", default=[], metavar="GLOB", help="only these tags; * stands for anything")
    made.add_argument("--flips", nargs=2, metavar=("A", "B"), help="the two tags whose flips are shown first")
    made.add_argument(
        "--baseline", metavar="TAG", help="what others are compared with (default: the best of each board)"
    )
    made.add_argument(
        "--pictures", type=int, metavar="N", help="items of a benchmark with pictures of all tags, at most (100)"
    )
    made.add_argument("--no-paths", action="store_true", help="paths in records and confs are cut to their last parts")
    made.add_argument("--outputs", metavar="DIR", help="default: $BENCHKIT_OUTPUTS, else ./outputs")
    made.add_argument("-o", "--out", default="report.html", metavar="FILE.html", help="default: report.html")
    given = parse(made, sys.argv[1:] if argv is None else argv)
    return guarded(lambda: _run(given), given.traceback, goes_on=False)


def _run(given: argparse.Namespace) -> int:
    from benchkit.errors import BenchkitError, UsageError
    from benchkit.report.chosen import MOST
    from benchkit.report.making import Wishes, write_report
    from benchkit.store.outputs import Outputs

    path = Path(given.out)
    if path.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"-o {given.out}: the report is a page, so its name ends with .html.")
    pictures = MOST if given.pictures is None else given.pictures
    if not 0 <= pictures <= MOST:
        raise UsageError(f"--pictures {pictures}: 0 to {MOST}.")
    flips = None if given.flips is None else (given.flips[0], given.flips[1])
    wishes = Wishes(flips, given.baseline, pictures, given.no_paths)
    statuses = [0]

    def failed(error: BenchkitError) -> None:
        say(str(error))
        statuses.append(error.status)

    size = write_report(path.resolve(), Outputs(given.outputs), given.benchmarks, given.tag, wishes, failed)
    print(f"report: {path} ({size / 1e6:.1f} MB)")
    return max(statuses)
