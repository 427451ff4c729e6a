"""Looks for the data of benchmarks below $BENCHKIT_DATA (default ./data): one line each, found, wrong or absent.

examples:
  bash scripts/fetch_data
  bash scripts/fetch_data cifar10 dtd --download
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Sequence

from benchkit.conf.build import build
from benchkit.conf.find import BenchmarkConf, benchmark_names, data_folder, data_home, find_benchmark
from benchkit.conf.values import read_any
from benchkit.datasets.base import Dataset
from benchkit.errors import UsageError

FOUND, WRONG, ABSENT = "found", "not as it should be", "absent"


def main(argv: Sequence[str] | None = None) -> int:
    """The command; the exit status is 0 when everything asked for was found."""
    instances = [name for name in benchmark_names() if "obtain" in find_benchmark(name).layer.values]
    how = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="scripts/fetch_data", description=__doc__, formatter_class=how)
    parser.add_argument("instances", nargs="*", metavar="INSTANCE", help=f"of {', '.join(instances)}; default: all")
    parser.add_argument("--download", action="store_true", help="download what its licence gives to everybody")
    given = parser.parse_args(argv)
    unknown = [name for name in given.instances if name not in instances]
    if unknown:
        parser.error(f"no instance is called {unknown[0]!r}; there are {', '.join(instances)}")
    states = [report(find_benchmark(name), given.download) for name in given.instances or instances]
    print(f"{states.count(FOUND)} of {len(states)} found below {data_home()}")
    return 0 if states.count(FOUND) == len(states) else 1


def report(benchmark: BenchmarkConf, download: bool) -> str:
    """Print an instance's line, after downloading it where that is asked for, allowed and needed; returns its state."""
    state, what = look(benchmark)
    if state != FOUND and download:
        problem = fetch(benchmark)
        if problem:
            what = f"{problem}. {what}"
        else:
            state, what = look(benchmark)
    print(f"{benchmark.name}: {state}; {what}", flush=True)
    return state


def look(benchmark: BenchmarkConf) -> tuple[str, str]:
    """The state of an instance's data, and how many there are, what is wrong with them, or how to get them."""
    said, root = benchmark.layer.values, data_folder(benchmark)
    if not (root / str(said.get("holds", "."))).is_dir():
        shortcut = f"bash scripts/fetch_data {benchmark.name} --download, or: " if "download" in said else ""
        return ABSENT, f"to obtain: {shortcut}{said['obtain']} (licence: {said.get('licence', 'see there')})"
    try:
        return FOUND, f"{root}: {_counts(benchmark)}"
    except UsageError as error:
        return WRONG, f"{error} Its layout: {said['layout']}"


def _counts(benchmark: BenchmarkConf) -> str:
    """Items per split, and classes, of the data where they are looked for.

    Raises:
        UsageError: they are not whole.
    """
    conf = build("color_histogram", benchmark.name)  # any model: only the data section is used
    settings, head = conf.data.settings, conf.head.component.build(conf.head.settings)
    learns = head.trains or head.votes
    if settings.train_split == "auto":
        settings.train_split = "train" if learns else "none"
    wanted = [settings.split, *([settings.train_split] if learns else [])]
    dataset: Dataset = conf.data.component.build(settings)
    items = {split: dataset.items(split) for split in dict.fromkeys(wanted)}
    _check_files(dataset, [name for names in items.values() for name in names])
    classes = len(dataset.meta().get("classes", ()))
    counts = ", ".join(f"{split} {len(names):,}" for split, names in items.items())
    return f"{counts} items" + (f", {classes} classes" if classes else "")


def _check_files(dataset: Dataset, items: Sequence[str]) -> None:
    views = [view for item in items for view in dataset.views(item)]
    missing = [path for path in map(dataset.path, views) if path is not None and not path.is_file()]
    if missing:
        raise UsageError(f"{len(missing):,} of {len(views):,} image files are missing, the first is {missing[0]}.")


def fetch(benchmark: BenchmarkConf) -> str:
    """Download an instance by torchvision, which checks what it gets; returns why that failed, or ''."""
    said = {key: read_any(value) for key, value in benchmark.layer.values.get("download", {}).items()}
    if not said:
        return "it is to be got by hand"
    from benchkit.datasets._torchvision_kinds import kind

    reader = kind(said.pop("dataset"))
    settings = build("color_histogram", benchmark.name).data.settings
    train = "train" if settings.train_split == "auto" else settings.train_split
    splits = [part for split in (settings.split, train) for part in split.split("+")]
    print(f"{benchmark.name}: downloading; licence: {benchmark.layer.values['licence']}", flush=True)
    try:
        data_home().mkdir(parents=True, exist_ok=True)
        for split in splits if reader.split_argument else splits[:1]:
            reader.build(data_home(), **reader.arguments(split), **said, download=True)  # type: ignore[call-arg]
    except Exception as error:  # no network, no room, another checksum, a server that is gone
        why = textwrap.shorten(str(error), 240) or "no reason is given"
        return f"the download failed ({type(error).__name__}: {why})"
    return ""


if __name__ == "__main__":
    sys.exit(main())
