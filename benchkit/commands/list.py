"""What there is: benchmarks, confs, data sets, backbones, heads; `benchkit list NAME` describes a benchmark.

examples:
  benchkit list
  benchkit list classification
  benchkit list --tags
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchkit.commands._shared import guarded, parse, parser

if TYPE_CHECKING:
    from benchkit.conf.merge import Merged
    from benchkit.registry import Component


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    made = parser("benchkit list", __doc__)
    made.add_argument("names", nargs="*", metavar="NAME", help="benchmarks to describe")
    made.add_argument("--tags", action="store_true", help="what was exported and scored")
    made.add_argument("--outputs", metavar="DIR", help="default: $BENCHKIT_OUTPUTS, else ./outputs")
    given = parse(made, sys.argv[1:] if argv is None else argv)
    return guarded(lambda: _run(given), given.traceback)


def _run(given: argparse.Namespace) -> int:
    if given.tags:
        print(_tags(given.outputs))
    elif given.names:
        print("\n\n".join(describe(name) for name in given.names))
    else:
        print(_everything())
    return 0


def _everything() -> str:
    from benchkit import registry
    from benchkit.conf.find import benchmark_names, conf_names, find_benchmark

    lines = ["benchmarks (family; level; headline metric)"]
    for name in benchmark_names():
        found = find_benchmark(name)
        family = registry.find("eval", found.family)
        build = family.build
        headline = build(family.settings()).metrics()[0].name
        data = (
            "generated scenes unless data.root is given"
            if name == found.family
            else str(found.layer.values.get("title", ""))
        )
        lines.append(f"  {name:16} {found.family}; {build.level}; {headline}; {data}")
    lines += ["", "confs", *(f"  {name}" for name in conf_names())]
    for kind in ("datasets", "backbones", "heads"):
        lines += ["", kind, *(f"  {name}" for name in registry.names(kind))]
    return "\n".join(lines)


def describe(name: str) -> str:
    """Layout, keys with defaults, metrics with directions and source of one benchmark."""
    from benchkit import registry
    from benchkit.conf.find import find_benchmark
    from benchkit.conf.merge import default_layers, merge

    found = find_benchmark(name)
    family = registry.find("eval", found.family)
    merged = merge(default_layers(found, family))
    folder = registry.find("datasets", family.build.folder)
    lines = [f"{name}: {(family.module.__doc__ or '').strip()}", "", f"source: {family.build.source}"]
    lines += ["", f"your own data: data.root=DIR, laid out as {getattr(folder.module, 'LAYOUT', folder.name)}"]
    for key in ("obtain", "layout"):
        if found.layer.values.get(key):
            lines.append(f"{key}: {found.layer.values[key]}")
    lines += ["", "metrics"]
    for metric in family.build(family.settings()).metrics():
        unit = f", {metric.unit}" if metric.unit else ""
        way = "for information" if metric.better == "neither" else f"{metric.better} is better"
        lines.append(f"  {metric.name:16} {way}{unit}: {metric.help}")
    return "\n".join([*lines, *_settings(merged, family, folder)])


def _settings(merged: Merged, family: Component, folder: Component) -> list[str]:
    """Keys of every section with the benchmark's defaults and help; `null` where nothing is set."""
    from benchkit import registry
    from benchkit.conf.help import describe_settings
    from benchkit.conf.model import ModelSettings

    data = registry.find("datasets", merged.name("data") or family.build.folder)
    head = registry.find("heads", merged.name("model.head") or "embed")
    sections = [("data", data.name, data.settings), ("model", "the forward", ModelSettings)]
    sections += [("model.head", head.name, head.settings), ("eval", family.name, family.settings)]
    if folder.name != data.name:
        sections.insert(1, ("data", folder.name, folder.settings))
    lines = []
    for place, name, settings in sections:
        lines += ["", f"{place}.* of {name}"]
        for key, default, help_ in describe_settings(settings, place):
            section, _, last = key.rpartition(".")
            value = merged.at(section).get(last, default) if name != folder.name or name == data.name else default
            lines.append(f"  {key:30} {'null' if value is None else str(value):10} {help_}")
    return lines


def _state(folder: Path) -> tuple[str, dict[str, Any]]:
    """How far a tag is, and its scores by metric."""
    from benchkit.errors import BenchkitError
    from benchkit.provenance.record import read_record

    try:
        record = read_record(folder)
    except BenchkitError:
        return "damaged", {}
    if record is None:
        return "not finished", {}
    return ("scored", record["scores"]) if record.get("scores") else ("exported", {})


def _tags(outputs: str | None) -> str:
    from benchkit.commands._tables import number, render
    from benchkit.store.outputs import Outputs

    where, rows = Outputs(outputs), []
    for benchmark in where.benchmarks():
        for tag in where.tags(benchmark):
            state, scores = _state(where.tag(benchmark, tag))
            metric = next(iter(scores), "")
            rows.append([benchmark, tag, state, metric, number(scores[metric]["value"]) if metric else ""])
    return (
        render(["benchmark", "tag", "state", "metric", "value"], rows, "table") if rows else f"no tags in {where.root}"
    )
