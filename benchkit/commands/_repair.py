"""`benchkit doctor PATH --repair`: mend what can be without losing a number, and say of the rest what makes it again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchkit.commands._shared import say
from benchkit.conf.build import evaluate_settings
from benchkit.errors import BenchkitError, UsageError
from benchkit.eval._evaluation import SCORES, compute, evaluate_folder
from benchkit.provenance.identity import canonical
from benchkit.provenance.record import NAME as RECORD
from benchkit.registry import find
from benchkit.store.checking import folder_hash
from benchkit.store.leftovers import clear
from benchkit.store.outputs import Outputs
from benchkit.store.repair import Mended, Step, export_command, mend_tag
from benchkit.store.shared import mender
from benchkit.store.twins import damage, is_plain


def repair(root: Path, damaged: Mapping[Path, str]) -> list[Step]:
    """Mend what is damaged below a folder.

    Args:
        root: nothing outside is written but locks, and no link is followed.
        damaged: files, and what is wrong with them.
    """
    steps = clear(root, _waiting)
    tags: dict[Path, list[str]] = defaultdict(list)
    for file, problem in damaged.items():
        folder = _tag_of(file)
        if not is_plain(file, root):
            steps.append(Step(file, False, "it is a link, or lies behind one: mend what it points to."))
        elif folder is not None:
            tags[folder].append(file.relative_to(folder).as_posix())
        else:
            steps += _shared(file, problem)
    for folder, names in tags.items():  # last: what banks hold is whole by now
        try:
            mended = mend_tag(folder, names, _waiting)
            steps += [*mended.steps, *_made_again(folder, mended)]
        except BenchkitError as error:
            steps.append(Step(folder, False, str(error)))
    return steps


def _waiting() -> None:
    say("waiting for another process that is finishing or scoring this experiment ...")


def _tag_of(file: Path) -> Path | None:
    """The folder of the experiment that a file belongs to."""
    folder = file.parent
    if folder.name == "features" and file.name.startswith("part-"):
        return folder.parent
    within = len(folder.parents) > 1 and folder.parents[1].name == "results"
    return folder if (folder / RECORD).exists() or (within and not folder_hash(folder)) else None


def _shared(file: Path, problem: str) -> list[Step]:
    mend = mender(file)
    if mend is None:
        return [Step(file, False, f"{problem} Nothing beside it tells how to make it again.")]
    try:
        return [Step(file, True, mend(file))] if damage(file) else []
    except BenchkitError as error:
        return [Step(file, False, str(error))]


def _made_again(folder: Path, mended: Mended) -> list[Step]:
    """What only eval or an export makes: eval is run where it gives the very scores of the record."""
    record, left = mended.record, mended.left
    if record is None or not left:
        return []
    if not set(left) <= set(SCORES):
        command = export_command(record)
        return [
            Step(folder / name, False, f"{problem} Only an export makes it: {command}")
            for name, problem in left.items()
        ]
    names = " and ".join(sorted(left))
    try:
        _score(folder, record)
        return [
            Step(folder / name, True, "made again of predictions.h5 and targets.h5: the same scores") for name in left
        ]
    except BenchkitError as error:
        return [Step(folder / names, False, str(error))]


def _score(folder: Path, record: Mapping[str, Any]) -> None:
    """Score an experiment again.

    Raises:
        BenchkitError: the scores would not be those of the record, or cannot be computed.
    """
    benchmark, tag = folder.parent.name, folder.name
    command = f"python -m benchkit.eval {benchmark} --tag {tag} --overwrite_eval"
    outputs = Outputs(folder.parents[min(2, len(folder.parents) - 1)])
    if outputs.tag(benchmark, tag) != folder:
        raise UsageError(
            f"it lies in no outputs folder: move it to results/<benchmark>/<tag> and score it again: {command}"
        )
    component = find("eval", record["family"])
    settings = evaluate_settings(component, record["conf"]["eval"], None, benchmark, [])
    same = component.build.version == record["protocol"].get("version")
    if record["scores"] is not None:
        found = compute(folder, record, component.build(settings)).scores if same else None
        if canonical(found) != canonical(record["scores"]):
            raise UsageError(
                "this version of benchkit, or of a library, gives other scores than record.json holds, so nothing was changed. "
                f"To score it anew: {command}"
            )
    evaluate_folder(outputs, benchmark, tag, None, [], False, None)


def plain(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """The steps for --json."""
    return [{"file": str(step.file), "done": step.done, "text": step.text} for step in steps]
