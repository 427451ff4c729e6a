"""Make a submission of a scored tag, or recompute what can be of one and say what disagrees.

examples:
  benchkit submit painting_vision my_model@data --dataset-manifest data/data_manifest.json --emit-submission submission.json
  benchkit submit --verify submission.json --dataset-manifest data/data_manifest.json --data data --checkpoint best.pt
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchkit.commands._shared import guarded, parse, parser, say

DISAGREES = 2


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns the exit status (2 where a submission disagrees with what is recomputed)."""
    made = parser("benchkit submit", __doc__)
    made.add_argument("benchmark", nargs="?", help="a benchmark with a board, such as painting_vision")
    made.add_argument("tag", nargs="?", help="a scored experiment")
    made.add_argument("--dataset-manifest", type=Path, metavar="FILE", help="of `benchkit painting manifest`")
    made.add_argument("--emit-submission", type=Path, metavar="FILE", help="where the submission is written")
    made.add_argument("--verify", type=Path, metavar="FILE", help="a submission to recompute")
    made.add_argument("--data", type=Path, metavar="DIR", help="with --verify: the frames, compared with the manifest")
    made.add_argument("--checkpoint", type=Path, metavar="FILE", help="with --verify: the file that it cites")
    made.add_argument("--outputs", metavar="DIR", help="default: $BENCHKIT_OUTPUTS, else ./outputs")
    given = parse(made, sys.argv[1:] if argv is None else argv)
    return guarded(lambda: _work(given), given.traceback)


def _work(given: argparse.Namespace) -> int:
    from benchkit.errors import UsageError
    from benchkit.submissions.entry import make_entry
    from benchkit.submissions.manifest import read_manifest

    if given.verify:
        if given.benchmark or given.emit_submission:
            raise UsageError("--verify takes a submission and neither a benchmark nor --emit-submission.")
        return _verify(given)
    lacking = [
        text
        for text, value in {
            "a benchmark and a tag": given.benchmark and given.tag,
            "--dataset-manifest FILE": given.dataset_manifest,
            "--emit-submission FILE": given.emit_submission,
        }.items()
        if not value
    ]
    if lacking:
        raise UsageError(f"a submission needs {' and '.join(lacking)}; or give --verify FILE to check one.")
    manifest = read_manifest(given.dataset_manifest)
    emit(given.emit_submission, make_entry(given.benchmark, given.tag, manifest, given.outputs))
    return 0


def emit(path: Path, entry: Mapping[str, Any]) -> None:
    """Write a submission and say what it holds."""
    from benchkit.submissions.entry import beats_floor, write_entry

    write_entry(path, entry)
    score, floor = entry["shared_metrics"]["mIoU"], entry["extra"]["floor"]["mIoU"]
    shown = "null" if score is None else f"{score:.4f}"
    print(f"{path}: mIoU {shown}, floor {floor:.4f}" if floor is not None else f"{path}: mIoU {shown}")
    if not beats_floor(entry):
        print("this model does not beat the floor (`other` everywhere): it has learned nothing")


def _verify(given: argparse.Namespace) -> int:
    from benchkit.errors import printable
    from benchkit.submissions.entry import read_entry
    from benchkit.submissions.manifest import read_manifest
    from benchkit.submissions.verify import verify

    entry = read_entry(given.verify)
    manifest = read_manifest(given.dataset_manifest) if given.dataset_manifest else None
    wrong, left = verify(entry, manifest, given.data, given.checkpoint, given.outputs)
    for line in left:
        print(f"not checked: {line}")
    if wrong:
        for line in wrong:
            say(f"{given.verify}: {printable(line, 600)}.")
        return DISAGREES
    print(f"{given.verify}: all that could be recomputed agrees")
    return 0
