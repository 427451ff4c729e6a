"""Score matches that somebody else's run found: predictions.h5 as Glue Factory writes it becomes a tag like any other.

The data set is needed, for the truth and for thumbnails; no model runs. Every pair of the benchmark must be in the file.

examples:
  benchkit import hpatches runs/sp+lg/predictions.h5 --tag sp+lg data.root=hpatches-sequences-release
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchkit.commands._shared import guarded, parse, parser, say


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    made = parser("benchkit import", __doc__)
    made.add_argument("benchmark", help="instance or family of two views, such as hpatches or megadepth1500")
    made.add_argument("file", help="predictions.h5: a group per pair with keypoints0, keypoints1, matches0")
    made.add_argument("--tag", help="name of the experiment (default: the folder that the file lies in)")
    made.add_argument("--made-by", default="", metavar="TEXT", help="what made the predictions: kept in the record")
    made.add_argument(
        "--pixels",
        choices=("corner", "centre"),
        default="corner",
        help="where (0, 0) is: the top-left pixel's corner (Glue Factory, COLMAP) or its centre (OpenCV)",
    )
    made.add_argument("--limit", type=int, metavar="N", help="at most N items")
    made.add_argument("--overwrite", action="store_true", help="replace the tag")
    made.add_argument("--outputs", metavar="DIR", help="default: $BENCHKIT_OUTPUTS, else ./outputs")
    made.add_argument("settings", nargs="*", metavar="key=value", help="data. or eval. settings")
    argv = sys.argv[1:] if argv is None else argv
    given = parse(made, argv)
    return guarded(lambda: _run(given, argv), given.traceback)


def _run(given: argparse.Namespace, argv: Sequence[str]) -> int:
    import shlex

    from benchkit.commands.eval import show
    from benchkit.eval import eval_arguments, evaluate
    from benchkit.export import export
    from benchkit.export.job import Outcome
    from benchkit.registry import find

    file = Path(given.file).expanduser()
    settings = [
        *given.settings,
        f"model.backbone.checkpoint={file}",
        f"model.backbone.made_by={given.made_by}",
        f"model.head.file={file}",
        f"model.head.pixels={given.pixels}",
    ]
    (end,) = export(
        None,
        given.benchmark,
        arguments=settings,
        components={"model.backbone": find("backbones", "imported"), "model.head": find("heads", "imported")},
        tag=given.tag or file.resolve().parent.name,
        limit=given.limit,
        overwrite=given.overwrite,
        outputs=given.outputs,
        say=say,
        command=shlex.join(["benchkit", "import", *argv]),
    )
    if not isinstance(end, Outcome):
        raise end
    scored = evaluate(
        given.benchmark, end.tag, outputs=given.outputs, arguments=eval_arguments(settings, given.benchmark)
    )
    show([scored.record], "table")
    return 0
