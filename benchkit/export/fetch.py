"""What confs need from the network, brought here while there is one: weights, tokenizers, code of a hub."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchkit.conf.build import build
from benchkit.conf.find import conf_names, find_conf
from benchkit.errors import BenchkitError, UsageError
from benchkit.store.usage import size_text

ANY_BENCHMARK = "retrieval"  # a conf is read for one; the model is the same


def fetch(conf: str | Path) -> list[Path]:
    """Files and folders that the conf's model needs, downloaded where they are not here yet; to be copied whole.

    A backbone's module says what it needs with `fetch(settings)`; one that does not is built, which downloads the same.

    Args:
        conf: a stem from configs/, or a path.

    Raises:
        UsageError: the conf is wrong, or something cannot be had.
    """
    backbone = build(conf, ANY_BENCHMARK).backbone
    own: Callable[..., list[Path]] | None = getattr(backbone.component.module, "fetch", None)
    if own is not None:
        return own(backbone.settings)
    backbone.component.build(backbone.settings)
    return []


def fetch_all(confs: Sequence[str | Path], say: Callable[[str], None] = print) -> dict[str, str]:
    """Fetch for every conf, going on over those that cannot be had.

    Args:
        confs: stems or paths.
        say: gets a few lines per conf: each file with its size.

    Returns:
        why not, by conf, for those that could not be had.
    """
    problems = {}
    for conf in confs:
        try:
            files = fetch(conf)
            say("\n".join([f"{conf}: {'ready' if files else 'ready, nothing to list'}", *map(_described, files)]))
        except BenchkitError as error:
            problems[str(conf)] = str(error)
            say(f"{conf}: could not be had")
    return problems


def _described(path: Path) -> str:
    inside = path.rglob("*")  # the hub's cache names one file twice: a link is not counted
    files = [path] if path.is_file() else [each for each in inside if each.is_file() and not each.is_symlink()]
    return f"  {size_text(sum(each.stat().st_size for each in files)):>8}  {path}"


def main(argv: Sequence[str] | None = None) -> int:
    """The script scripts/fetch_models; returns the exit status: 1 where something could not be had."""
    made = argparse.ArgumentParser("fetch_models", description=__doc__)
    made.add_argument("confs", nargs="*", metavar="CONF", help="stems from configs/, or paths (default: all shipped)")
    confs = made.parse_args(argv).confs or conf_names()
    try:
        for conf in confs:
            find_conf(conf)
    except UsageError as error:
        print(error, file=sys.stderr)
        return error.status
    problems = fetch_all(confs)
    if problems:
        print(f"\n{len(problems)} of {len(confs)} could not be had:", file=sys.stderr)
    for conf, problem in problems.items():
        print(f"\n{conf}: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
