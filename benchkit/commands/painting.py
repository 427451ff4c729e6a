"""Painting Vision: manifest and audit of a folder of frames, and the whole benchmark in one command.

examples:
  benchkit painting scenes walls                    (generated walls as files, to try everything out)
  benchkit painting audit data
  benchkit painting manifest data                   (writes data/data_manifest.json; where it is, compares)
  benchkit painting run --data data --conf efficientnet_lite0 --dataset-manifest data/data_manifest.json \\
      --emit-submission submission.json
  benchkit painting run --data data --conf my_model --checkpoint best.pt --baseline segformer-ade --split test \\
      --dataset-manifest data/data_manifest.json --emit-submission submission.json
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchkit.commands._shared import guarded, parse, parser, say

if TYPE_CHECKING:
    from benchkit.submissions.audit import Audit

REFUSED = 2
BENCHMARK = "painting_vision"


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns the exit status (2 where a folder is refused or differs from its manifest)."""
    made = parser("benchkit painting", __doc__)
    kinds = made.add_subparsers(dest="what", required=True, metavar="manifest|audit|run|scenes")
    work = {"manifest": _manifest, "audit": _audit, "run": _run, "scenes": _scenes}
    for name in ("manifest", "audit"):
        each = kinds.add_parser(
            name, help={"manifest": "write or compare", "audit": "look for what forbids a score"}[name]
        )
        each.add_argument("data", type=Path, help="folder of frames, masks and their table")
        each.add_argument("--table", help="the table in it (frames.csv, frames.json or data_manifest.json)")
        if name == "manifest":
            each.add_argument("--out", type=Path, metavar="FILE", help="default: data_manifest.json in the folder")
            each.add_argument("--overwrite", action="store_true", help="write it anew where it is")
    _run_flags(kinds.add_parser("run", help="audit, export, score and submit"))
    each = kinds.add_parser("scenes", help="write generated walls as a folder of frames")
    each.add_argument("out", type=Path, help="a new folder")
    for flag, count in (("--train", 60), ("--test", 30)):
        each.add_argument(flag, type=int, default=count, metavar="N", help=f"frames ({count})")
    argv = list(sys.argv[1:] if argv is None else argv)
    given = parse(made, argv)
    given.command = shlex.join(["benchkit", "painting", *argv])
    return guarded(lambda: work[given.what](given), given.traceback)


def _run_flags(each: argparse.ArgumentParser) -> None:
    each.add_argument("--data", required=True, metavar="DIR", help="folder of frames, masks and their table")
    each.add_argument("--conf", help="the model: a conf's name or file; a head is trained on its features unless it says "
                      "model.head.name=segmenter")  # fmt: skip
    each.add_argument("--checkpoint", metavar="FILE", help="its weights")
    each.add_argument(
        "--baseline", help="the conf of a model whose own labels are mapped by name, such as segformer-ade"
    )
    each.add_argument("--split", default="test", help="the split that is evaluated")
    each.add_argument("--dataset-manifest", type=Path, metavar="FILE", help="default: data_manifest.json in the folder")
    each.add_argument("--emit-submission", type=Path, metavar="FILE", help="where the submission is written")
    each.add_argument("--outputs", metavar="DIR", help="default: $BENCHKIT_OUTPUTS, else ./outputs")
    each.add_argument("--overwrite", action="store_true", help="make tags anew that were made with other settings")
    each.add_argument("settings", nargs="*", metavar="key=value", help="further settings of the export")


def _manifest(given: argparse.Namespace) -> int:
    from benchkit.store.files import write_json
    from benchkit.submissions.manifest import NAME, build_manifest, differences, read_manifest

    path = given.out or given.data / NAME
    if path.exists() and not given.overwrite:
        found = differences(given.data, read_manifest(path), given.table)
        for line in found:
            say(f"{line}.")
        if found:
            say(f"{given.data} is not what {path} says; --overwrite writes it anew, as another data set.")
            return REFUSED
        print(f"{given.data} is byte for byte what {path} says")
        return 0
    manifest = build_manifest(given.data, given.table)
    write_json(path, manifest)
    print(f"{path}: {len(manifest['frames'])} frames")
    for split, identity in manifest["dataset_ids"].items():
        print(f"  {split:8} {identity}")
    return 0


def _audit(given: argparse.Namespace) -> int:
    from benchkit.submissions.audit import audit

    return _report(given.data, audit(given.data, given.table))


def _report(data: Any, found: Audit) -> int:
    from benchkit.commands._tables import render

    rows = []
    for split, (frames, walls) in found.counts.items():
        shares = [f"{share:.1%}" for share in found.shares[split]]
        rows.append([split, str(frames), str(walls), *shares])
    print(render(["split", "frames", "walls", *found.classes], rows, "table"))
    for line in found.problems:
        say(f"{line}.")
    if found.problems:
        say(f"{data} is refused: {len(found.problems)} {'problem' if len(found.problems) == 1 else 'problems'}.")
        return REFUSED
    print(f"{data}: no wall in two splits, no photo found twice, no unknown label, every mask of its image's size")
    return 0


def _run(given: argparse.Namespace) -> int:
    from benchkit.commands.eval import show
    from benchkit.commands.submit import emit
    from benchkit.errors import UsageError
    from benchkit.eval import evaluate
    from benchkit.submissions.audit import audit
    from benchkit.submissions.entry import make_entry, with_baseline
    from benchkit.submissions.manifest import NAME, differences, read_manifest

    if not given.conf and not given.baseline:
        raise UsageError("say which model is scored: --conf NAME, or --baseline NAME for one with labels of its own.")
    if given.checkpoint and not given.conf:
        raise UsageError("--checkpoint is of --conf, which is not given: a baseline has weights of its own.")
    clash = [each for each in given.settings if each.startswith(("data.root=", "data.split=", "data.table="))]
    if clash:
        raise UsageError(f"{clash[0]}: say --data and --split, so that what is audited is what is scored.")
    data = Path(given.data)
    path = given.dataset_manifest or data / NAME
    if not path.exists():
        raise UsageError(f"{path} is not there: make it with benchkit painting manifest {given.data}.")
    manifest = read_manifest(path)
    changed = differences(data, manifest)
    if changed:
        more = f" (and {len(changed) - 1} more)" if len(changed) > 1 else ""
        raise UsageError(f"{given.data} is not what {path} says: {changed[0]}{more}.")
    if _report(given.data, audit(data)):
        return REFUSED
    tags = [
        _exported(given, conf, baseline) for conf, baseline in ((given.conf, False), (given.baseline, True)) if conf
    ]
    show([evaluate(BENCHMARK, tag, outputs=given.outputs).record for tag in tags], "table")
    if given.emit_submission:
        entry, *others = (make_entry(BENCHMARK, tag, manifest, given.outputs) for tag in tags)
        for other in others:
            entry = with_baseline(entry, other)
        emit(given.emit_submission, entry)
    return 0


def _exported(given: argparse.Namespace, conf: str, baseline: bool) -> str:
    """The tag of one model, exported."""
    from benchkit.export import export
    from benchkit.export.job import Outcome

    arguments = [f"data.root={given.data}", f"data.split={given.split}", *given.settings]
    if baseline:
        conf = conf.replace("-", "_") if not Path(conf).suffix else conf
        own = tuple(
            f"{where}model.{part}." for where in ("", f"benchmarks.{BENCHMARK}.") for part in ("head", "features")
        )
        arguments = [each for each in arguments if not each.startswith(own)]
        arguments.append("model.head.name=segmenter")
    (end,) = export(
        conf,
        BENCHMARK,
        arguments=arguments,
        checkpoint=None if baseline else given.checkpoint,
        outputs=given.outputs,
        overwrite=given.overwrite,
        command=given.command,
    )
    if not isinstance(end, Outcome):
        raise end
    return end.tag


def _scenes(given: argparse.Namespace) -> int:
    from benchkit.datasets.scene_walls import write_folder

    write_folder(given.out, given.train, given.test)
    print(f"{given.out}: {given.train} + {given.test} frames, their masks and frames.csv")
    print(f"next: benchkit painting audit {given.out}; benchkit painting manifest {given.out}")
    return 0
