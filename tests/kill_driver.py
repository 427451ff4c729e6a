"""Runs export and eval again and again, killed at every call that changes a file, and tells what a rerun makes of it.

LD_PRELOAD=killshim.so python kill_driver.py killshim.so WORK SCENARIO STEP [ERROR]   -> JSON on standard output

With ERROR, the number of a system's error, the call and all later ones fail with it instead: the disk is full, or broken.

One process imports everything once and forks a child for each crash point; it starts no thread itself. Scenarios:
    fresh      export and eval of two benchmarks into an empty folder
    copies     the same where the file system has no hard links
    overwrite  the same over finished and scored tags of another model, whose files have equal sizes
    reeval     eval over scores of other settings
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import io
import json
import os
import shutil
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import benchkit.export.finish
import benchkit.export.forward
from benchkit.commands.run import main as run
from benchkit.datasets.scenes import Scenes
from benchkit.errors import BenchkitError
from benchkit.eval import _evaluation, evaluate
from benchkit.export import export
from benchkit.export.job import Outcome
from benchkit.provenance.record import describe_file, read_record
from benchkit.store.table import Table
from benchkit.store.verify import folder_content, verify_tree

BENCHMARKS = ("classification", "retrieval")
TAG = "tiny"
SPACE = "wpstlm"  # kinds of calls that need space
WORKERS = 2
SETTINGS = [
    "data.side=32",
    "data.n_train=24",
    "data.n_test=24",
    "data.num_workers=1",
    "model.batch_size=4",
    "benchmarks.classification.model.head.strength=1",
]


def prepare() -> None:
    """Small parts, few resamples, images from memory, no waiting for the disk: what is tested is the order of calls."""
    torch.set_num_threads(1)
    benchkit.export.forward.PART_BYTES = 15_000
    benchkit.export.finish.FIT_THREADS = 1
    _evaluation.RESAMPLES = 10
    os.fsync = lambda handle: None
    rendered: dict[tuple, Any] = {}
    render = Scenes.image

    def image(self: Scenes, view: str) -> Any:
        key = (view, self.settings.side)
        if key not in rendered:
            rendered[key] = render(self, view)
        return rendered[key]

    Scenes.image = image  # type: ignore[method-assign]


def conf_of(outputs: Path, seed: int) -> Path:
    """A conf of the model of that seed."""
    conf = outputs.parent / f"tiny{seed}-{os.getpid()}.yaml"
    conf.write_text(
        "model: {backbone: {name: module, path: tiny_models.TinyNet, size: 32, mean: [0, 0, 0], std: [1, 1, 1], "
        f"kwargs: {{seed: {seed}}}}}}}\n"
    )
    return conf


def exported(outputs: Path, seed: int = 0, **options: Any) -> list[Outcome | BenchkitError]:
    """Export of both benchmarks by the model of that seed."""
    return export(
        conf_of(outputs, seed),
        BENCHMARKS,
        **{"arguments": SETTINGS, "tag": TAG, "outputs": outputs, "say": str, **options},
    )


def typed(conf: Path, outputs: Path) -> tuple[int, str]:
    """What a user types for the same; exit status and what was said on standard error."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        where = ["--conf", str(conf), "--tag", TAG, "--outputs", str(outputs)]
        status = run([*where, "--benchmark", *BENCHMARKS, *SETTINGS])
    return status, said.getvalue()


def make(outputs: Path, seed: int, overwrite: bool) -> None:
    """The command under test."""
    for end in exported(outputs, seed, overwrite=overwrite):
        if not isinstance(end, Outcome):
            raise end
        assert end.state != "waiting"
    for benchmark in BENCHMARKS:
        evaluate(benchmark, TAG, outputs=outputs)


def reeval(outputs: Path) -> None:
    """Eval with other settings than the scores were made with."""
    evaluate("classification", TAG, outputs=outputs, arguments=["eval.ece_bins=3"], overwrite_eval=True)


def no_links() -> None:
    """From here on, hard links fail as they do on FAT."""

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    os.link = refuse  # type: ignore[assignment]


SCENARIOS: dict[str, tuple[Callable[[Path], None] | None, Callable[[Path], None]]] = {
    "fresh": (None, lambda outputs: make(outputs, 0, False)),
    "copies": (None, lambda outputs: (no_links(), make(outputs, 0, False))),  # type: ignore[dict-item,func-returns-value]
    "overwrite": (lambda outputs: make(outputs, 1, False), lambda outputs: make(outputs, 0, True)),
    "reeval": (lambda outputs: make(outputs, 0, False), reeval),
}


def fork(work: Callable[[], None]) -> int:
    """Run in a child; its process number."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return child


def ended(child: int) -> int:
    """Status of a child when it has ended: 0, 1 after an exception, -9 when killed."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def forked(work: Callable[[], None]) -> int:
    """Run in a child and wait for it; its status."""
    return ended(fork(work))


def contents(outputs: Path, tag: str = TAG) -> dict[str, str]:
    """Content hash of each benchmark's folder of a tag, where there is one."""
    folders = {b: outputs / "results" / b / tag for b in BENCHMARKS}
    return {b: folder_content(f) for b, f in folders.items() if f.is_dir()}


def examine(outputs: Path, command: Callable[[Path], None], states: dict[str, dict[str, str]]) -> list[str]:
    """What is wrong after a kill, and after the same command again."""
    problems = {name: facts["problem"] for name, facts in verify_tree(outputs)["files"].items() if facts["problem"]}
    unscored = "is not what record.json says"  # whole, but newer than the record: an eval did not finish
    wrong = [f"damaged: {name}: {why}" for name, why in problems.items() if unscored not in why]
    wrong += mixtures(outputs, states)
    before = parts(outputs)
    command(outputs)
    if contents(outputs) != states["new"]:
        wrong.append("the rerun gives other content")
    after = parts(outputs)
    if not before.items() <= after.items() or twice(outputs):
        wrong.append("the rerun made again what was banked")
    return wrong + left_behind(outputs)


def parts(outputs: Path) -> dict[str, str]:
    """Parts of the bank by their hash: what is finished."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in outputs.glob("features/*/part-*.h5")}


def twice(outputs: Path) -> bool:
    """Whether a bank has rows of one image in two parts."""
    for bank in outputs.glob("features/*"):
        names: list[str] = []
        for path in bank.glob("part-*.h5"):
            with Table(path, "bank") as table:
                names += table.names
        if len(set(names)) < len(names):
            return True
    return False


def left_behind(outputs: Path) -> list[str]:
    """Unfinished work that lies around."""
    return [f"left behind: {p}" for p in outputs.rglob("*") if ".tmp-" in p.name or p.name == ".parts"]


def mixtures(outputs: Path, states: dict[str, dict[str, str]]) -> list[str]:
    """Tags that eval takes for finished though they are neither what was nor what shall be."""
    if not outputs.exists():
        return []
    copy = outputs.with_name(outputs.name + "-scored")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(outputs, copy)
    wrong = []
    for benchmark in BENCHMARKS:
        folder = copy / "results" / benchmark / TAG
        try:
            found = evaluate(benchmark, TAG, outputs=copy)
        except BenchkitError:
            continue
        if folder_content(folder) not in {state.get(benchmark) for state in states.values()}:
            wrong.append(f"{benchmark} evaluates to a mixture")
        record = read_record(folder) or {}
        odd = [n for n, f in record["files"].items() if describe_file(folder / n)["sha256"] != f["sha256"]]
        shown = {name: score["value"] for name, score in found.record["scores"].items()}
        if odd or any(found.summaries[name] != value for name, value in shown.items()):
            wrong.append(f"{benchmark}: the record does not speak of {odd or 'the summaries'}")
    shutil.rmtree(copy)
    return wrong


def main(library: str, work: Path, scenario: str, step: int, number: int = 0) -> dict[str, Any]:
    """Every `step`-th crash point of a scenario, whole and (where bytes are written) torn; with an error's number, every
    `step`-th call that such an error can come from."""
    shim = ctypes.CDLL(library)
    shim.kinds.restype = ctypes.c_char_p
    prepare()
    before, command = SCENARIOS[scenario]
    start, started = work / "start", time.monotonic()
    start.mkdir(parents=True)
    make(work / "warm", 0, False)  # whatever is imported or set up on first use: its threads have ended when it returns
    if before:
        assert forked(lambda: before(start)) == 0, "the state before cannot be made"

    def undisturbed() -> None:
        shutil.copytree(start, work / "good")
        old = contents(start)
        shim.arm(-1, 0, 0)
        command(work / "good")
        kinds = shim.kinds().decode()
        shim.arm(-1, 0, 0)
        (work / "states.json").write_text(json.dumps({"kinds": kinds, "old": old, "new": contents(work / "good")}))

    assert forked(undisturbed) == 0, "the undisturbed run failed"
    states = json.loads((work / "states.json").read_text())
    kinds = states.pop("kinds")
    places = [call for call, kind in enumerate(kinds) if number != errno.ENOSPC or kind in SPACE][::step]
    points = [(call, torn) for call in places for torn in (0, 1) if not torn or kinds[call] in "wps"]

    def part(worker: int) -> None:
        found = {}
        for call, torn in points[worker::WORKERS]:
            place, arm = work / f"worker{worker}", lambda: shim.arm(call, torn, number)  # noqa: B023
            if number:
                wrong = fail(place, arm, lambda: shim.arm(-1, 0, 0), number, command, states)
            else:
                wrong = crash(place, start, arm, command, states)
            if wrong:
                found[f"{call} {kinds[call]}{' torn' if torn else ''}"] = wrong
        (work / f"found{worker}.json").write_text(json.dumps(found))

    wrong = {}
    for child in [fork(lambda: part(worker)) for worker in range(WORKERS)]:  # noqa: B023
        assert ended(child) == 0, "a worker failed"
    for file in work.glob("found?.json"):
        wrong.update(json.loads(file.read_text()))
    shutil.rmtree(work)
    seconds = time.monotonic() - started
    torn = sum(torn for _, torn in points)
    counted = {"calls": len(kinds), "kinds": kinds, "points": len(points), "torn": torn}
    return {**counted, "wrong": wrong, "seconds": seconds}


def crash(
    work: Path,
    start: Path,
    arm: Callable[[], None],
    command: Callable[[Path], None],
    states: dict[str, dict[str, str]],
) -> list[str]:
    """Kill the command once in a copy of `start`, then examine; returns what is wrong."""
    shutil.rmtree(work, ignore_errors=True)
    outputs, result = work / "outputs", work / "found.json"
    shutil.copytree(start, outputs)

    def doomed() -> None:
        arm()
        command(outputs)

    def survivor() -> None:
        result.write_text(json.dumps(examine(outputs, command, states)))

    status = forked(doomed)
    if status != -9:
        return [f"not killed but ended with {status}"]
    return json.loads(result.read_text()) if forked(survivor) == 0 else ["the rerun failed"]


def fail(
    work: Path,
    arm: Callable[[], None],
    disarm: Callable[[], None],
    number: int,
    command: Callable[[Path], None],
    states: dict[str, dict[str, str]],
) -> list[str]:
    """Let the disk fail once under the typed command, then examine; returns what is wrong."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    outputs, result, conf = work / "outputs", work / "found.json", conf_of(work / "outputs", 0)

    def doomed() -> None:
        arm()
        status, said = typed(conf, outputs)
        disarm()
        result.write_text(json.dumps(told(status, said, number)))

    if forked(doomed) != 0:
        return ["died"]
    wrong = json.loads(result.read_text())

    def survivor() -> None:
        result.write_text(json.dumps(wrong + examine(outputs, command, states)))

    return json.loads(result.read_text()) if forked(survivor) == 0 else [*wrong, "the rerun failed"]


def told(status: int, said: str, number: int) -> list[str]:
    """What is wrong in how a command ended and what it said of a disk with an error of that number."""
    word = "no space is left" if number == errno.ENOSPC else os.strerror(number)
    odd = [line for line in said.splitlines() if "unexpected" in line or "Traceback" in line]
    wrong = [f"not said in a paragraph: {odd}"] if odd else []
    if status != 0 and (status != 3 or word not in said):  # 0: what failed was no more than tidying up
        wrong.append(f"ended with {status}: {said[-600:]}")
    return wrong


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], *map(int, sys.argv[4:]))))
