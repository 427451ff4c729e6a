"""Exports in several processes, one after the other and at once, and what came of them.

python shard_driver.py WORK SCENARIO TRIALS   -> JSON list of what was wrong, on standard output
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kill_driver as driver
import numpy as np
from kill_driver import BENCHMARKS, TAG, contents, exported, left_behind
from tiny_inspector import Hand

import benchkit.export.run
from benchkit.errors import BenchkitError
from benchkit.eval import evaluate
from benchkit.experiments.experiment import Experiment
from benchkit.experiments.joined import Joined
from benchkit.export.job import Outcome

FORK = multiprocessing.get_context("fork")


def told(ends: list[Outcome | BenchkitError]) -> list[str]:
    """State and forwards, or status and message, of each benchmark."""
    return [f"{end.state} {end.forwards}" if isinstance(end, Outcome) else f"error {end.status}: {end}" for end in ends]


def together(work: Path, *tasks: Callable[[], Any]) -> list[Any]:
    """Run each task in a process of its own, at once; their JSON-serialisable results."""
    children = [
        driver.fork(lambda n=n, task=task: write(work / f"end{n}.json", task()))  # type: ignore[misc]
        for n, task in enumerate(tasks)
    ]
    codes = [driver.ended(child) for child in children]
    return [
        json.loads((work / f"end{n}.json").read_text()) if not code else f"died: {code}" for n, code in enumerate(codes)
    ]


def write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value))


def scored(outputs: Path, tag: str = TAG) -> dict[str, str]:
    """Evaluate, then content hashes."""
    for benchmark in BENCHMARKS:
        evaluate(benchmark, tag, outputs=outputs)
    return contents(outputs, tag)


def wait_before_finishing(parties: int) -> None:
    """Hold every process that has filled its share until all of them have."""
    barrier, settle = FORK.Barrier(parties), benchkit.export.run._settle

    def held(*given: Any) -> Any:
        barrier.wait(60)
        return settle(*given)

    benchkit.export.run._settle = held


def orders(work: Path, good: dict[str, str], trial: int) -> list[str]:
    """1, 2, 3 and 7 shards, one after the other in any order; a shard again forwards nothing."""
    wrong = []
    for count in (1, 2, 3, 7):
        outputs = work / f"shards{count}"
        order = np.random.default_rng([trial, count]).permutation(count)
        for turn, index in enumerate(order):
            shard = f"{index}/{count}"
            if turn == count - 1 and count > 1:
                missing = together(work, lambda: told(exported(outputs, finish=True)))[0]  # noqa: B023
                if not all(m.startswith("error 2") and "not in the bank" in m for m in missing):
                    wrong.append(f"--finish too early: {missing}")
            ends = together(work, lambda: told(exported(outputs, shard=shard)))[0]  # noqa: B023
            state = "finished" if turn == count - 1 else "waiting"
            if not all(end.startswith(state) for end in ends):
                wrong.append(f"shard {shard} as number {turn}: {ends}")
            again = together(work, lambda: told(exported(outputs, shard=shard)))[0]  # noqa: B023
            expected = "unchanged 0" if state == "finished" else "waiting 0"
            if again != [expected, expected]:
                wrong.append(f"shard {shard} again: {again}")
        wrong += after(work, outputs, good, f"{count} shards in order {order}")
    return wrong


def after(work: Path, outputs: Path, good: dict[str, str], what: str, tag: str = TAG) -> list[str]:
    found = together(work, lambda: scored(outputs, tag))[0]
    return ([] if found == good else [f"{what}: other content"]) + left_behind(outputs)


def at_once(work: Path, good: dict[str, str], trial: int) -> list[str]:
    """Two shards that end together."""
    outputs = work / "at_once"

    def one(shard: str) -> list[str]:
        return told(exported(outputs, shard=shard))

    ends = together(work, lambda: one("0/2"), lambda: one("1/2"))
    odd = [end for each in ends for end in each if not end.startswith("finished")]
    return [f"ended as {ends}"] * bool(odd) + after(work, outputs, good, "two shards ending together")


def same_tag(work: Path, good: dict[str, str], trial: int) -> list[str]:
    """The same export twice at once."""
    outputs = work / "same"
    ends = together(work, *[lambda: told(exported(outputs))] * 2)
    odd = [end for each in ends for end in each if not end.startswith(("finished", "unchanged"))]
    return [f"ended as {ends}"] * bool(odd) + after(work, outputs, good, "one export twice at once")


def other_conf(work: Path, good: dict[str, str], trial: int) -> list[str]:
    """Two confs, one tag, at once: for each benchmark exactly one is refused, and told why."""
    outputs = work / "confs"
    ends = together(work, lambda: told(exported(outputs, 0)), lambda: told(exported(outputs, 1)))
    wrong = []
    for pair in zip(*ends, strict=True):
        refused = [end for end in pair if end.startswith("error 2") and "kwargs.seed was" in end]
        if len(refused) != 1 or not any(end.startswith("finished") for end in pair):
            wrong.append(f"ended as {pair}")
    return wrong + left_behind(outputs)


def overwriting(work: Path, good: dict[str, str], trial: int) -> list[str]:
    """Two confs overwrite one tag at once: one wins whole, the other wins too, or is refused."""
    outputs = work / "overwriting"
    together(work, lambda: told(exported(outputs, 2)))
    ends = together(work, *[lambda s=s: told(exported(outputs, s, overwrite=True)) for s in (0, 1)])
    odd = [e for each in ends for e in each if not e.startswith("finished") and "made from another conf" not in e]
    found = together(work, lambda: scored(outputs))[0]
    other = together(work, lambda: (told(exported(work / "other", 1)), scored(work / "other"))[1])[0]
    mixed = [b for b in BENCHMARKS if found[b] not in (good[b], other[b])]
    return [f"ended as {ends}"] * bool(odd) + [f"mixed: {mixed}"] * bool(mixed) + left_behind(outputs)


def two_tags(work: Path, good: dict[str, str], trial: int) -> list[str]:
    """Two tags share a bank at once."""
    outputs = work / "tags"
    ends = together(work, lambda: told(exported(outputs)), lambda: told(exported(outputs, tag="second")))
    odd = [end for each in ends for end in each if not end.startswith("finished")]
    wrong = after(work, outputs, good, "first tag") + after(work, outputs, good, "second tag", "second")
    return [f"ended as {ends}"] * bool(odd) + wrong


def while_read(work: Path, good: dict[str, str], trial: int) -> list[str]:
    """Eval again and again while the tag is replaced: the old scores or the new ones."""
    outputs = work / "read"
    old = together(work, lambda: (told(exported(outputs, 1)), scored(outputs))[1])[0]

    def read() -> list[str]:
        seen = []
        for _ in range(25):
            evaluate("classification", TAG, outputs=outputs)
            evaluate("retrieval", TAG, outputs=outputs)
        seen.append("read")
        return seen

    ends = together(work, lambda: told(exported(outputs, 0, overwrite=True)), read)
    odd = ends[1] != ["read"] or not all(end.startswith("finished") for end in ends[0]) or old == good
    return [f"ended as {ends}"] * bool(odd) + after(work, outputs, good, "replaced while read")


def while_inspected(work: Path, good: dict[str, str], trial: int) -> list[str]:
    """An inspector is open, and others are opened, while the tag is replaced and scored again: old numbers or new ones."""
    outputs = work / "inspected"
    folder = outputs / "results" / BENCHMARKS[0] / TAG
    old = together(work, lambda: (told(exported(outputs, 1)), scored(outputs), losses(folder))[2])[0]

    def inspect() -> dict[str, Any]:
        hand, seen = Hand([Experiment(folder)]), [losses(folder)]
        for _ in range(40):
            hand.key("right")
            hand.draw()
            with contextlib.suppress(BenchkitError):  # between the two it is not scored
                seen.append(losses(folder))
        return {"held": hand.viewer.joined.scores("nll")[0].tolist(), "seen": seen, "errors": hand.screen.errors}

    ends = together(work, lambda: (told(exported(outputs, 0, overwrite=True)), scored(outputs))[0], inspect)
    new = together(work, lambda: losses(folder))[0]
    if not all(end.startswith("finished") for end in ends[0]) or not isinstance(ends[1], dict) or old == new:
        return [f"ended as {ends}"]
    odd = [each for each in ends[1]["seen"] if each not in (old, new)]
    wrong = ["an inspector shows what never was"] * bool(odd or ends[1]["held"] not in (old, new))
    return wrong + after(work, outputs, good, "replaced while inspected")


def losses(folder: Path) -> list[float]:
    """A score of every item, as an inspector that is opened now shows them."""
    return Joined([Experiment(folder)]).scores("nll")[0].tolist()


SCENARIOS = {
    f.__name__: f for f in (orders, at_once, same_tag, other_conf, overwriting, two_tags, while_read, while_inspected)
}


def main(work: Path, scenario: str, trials: int) -> list[str]:
    """Everything that was wrong in all trials."""
    driver.prepare()
    driver.make(work / "good", 0, False)
    good = contents(work / "good")
    wrong = []
    for trial in range(trials):
        folder = work / str(trial)
        folder.mkdir()
        if scenario == "at_once":
            settle = benchkit.export.run._settle
            wait_before_finishing(2)
        wrong += [f"trial {trial}: {each}" for each in SCENARIOS[scenario](folder, good, trial)]
        if scenario == "at_once":
            benchkit.export.run._settle = settle
        shutil.rmtree(folder)
    return wrong


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))))
