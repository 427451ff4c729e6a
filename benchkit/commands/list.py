"""What there is: benchmarks by level, confs with licence and size, data sets, backbones, heads; NAME describes one.

examples:
  benchkit list
  benchkit list classification
  benchkit list dpt                    (a head, backbone or data set: its settings)
  benchkit list confs                  (or benchmarks, datasets, backbones, heads)
  benchkit list --tags
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchkit.commands._shared import guarded, parse, parser

if TYPE_CHECKING:
    from benchkit.conf.merge import Merged
    from benchkit.registry import Component

PLACES = {  # of a component's name, and of its keys
    "datasets": ("data.name", "data"),
    "backbones": ("model.backbone.name", "model.backbone"),
    "heads": ("model.head.name", "model.head"),
    "estimators": ("eval.estimator", "eval.options"),
}
KINDS = tuple(PLACES)


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    made = parser("benchkit list", __doc__)
    made.add_argument("names", nargs="*", metavar="NAME", help="benchmarks to describe, or one of the lists above")
    made.add_argument("--tags", action="store_true", help="what was exported and scored")
    made.add_argument("--outputs", metavar="DIR", help="default: $BENCHKIT_OUTPUTS, else ./outputs")
    given = parse(made, sys.argv[1:] if argv is None else argv)
    return guarded(lambda: _run(given), given.traceback, goes_on=False)


def _run(given: argparse.Namespace) -> int:
    if given.tags:
        print(_tags(given.outputs))
    elif given.names:
        lists: dict[str, Callable[[], str]] = {
            "benchmarks": _benchmarks,
            "confs": _confs,
            **{kind: partial(_components, kind) for kind in KINDS},
        }
        print("\n\n".join(lists[name]() if name in lists else _described(name) for name in given.names))
    else:
        print("\n\n".join([_benchmarks(), _confs(), *map(_components, KINDS)]))
    return 0


def _described(name: str) -> str:
    """A benchmark; else the data set, backbone, head or estimator of that name."""
    from benchkit import registry
    from benchkit.conf.find import benchmark_names

    kinds = [kind for kind in KINDS if name in registry.names(kind)]
    if name in benchmark_names() or not kinds:
        return describe(name)
    return "\n\n".join(_settings_of(kind, name) for kind in kinds)


def _settings_of(kind: str, name: str) -> str:
    """What a data set, backbone, head or estimator is, and its keys with defaults."""
    from benchkit import registry
    from benchkit.conf.help import describe_settings

    component, (key_of_name, place) = registry.find(kind, name), PLACES[kind]
    lines = [f"{name} ({key_of_name}={name}){_extra(component)}: {(component.module.__doc__ or '').strip()}", ""]
    if hasattr(component.module, "LAYOUT"):
        lines += [f"laid out as {component.module.LAYOUT}", ""]
    for key, default, help_ in describe_settings(component.settings, place):
        lines.append(f"  {key:30} {'null' if default is None else str(default):10} {help_}")
    return "\n".join(lines)


def _benchmarks() -> str:
    """Families by level, each with its instances below it."""
    from benchkit import registry
    from benchkit.conf.find import benchmark_names, find_benchmark
    from benchkit.eval.base import LEVELS

    families: dict[str, list[str]] = {name: [] for name in registry.names("eval")}
    for name in benchmark_names():
        if name not in families:
            found = find_benchmark(name)
            families[found.family].append(f"    {name:24} {found.layer.values.get('title', '')}")
    lines = ["benchmarks (headline metric; data of a family: generated scenes unless data.root is given)"]
    for level in LEVELS:
        here = [name for name in families if registry.find("eval", name).build.level == level]
        lines += [f"{level} level"] if here else []
        for name in here:
            family = registry.find("eval", name)
            headline = family.build(family.settings()).metrics()[0].name
            lines += [f"  {name:26} {headline}; {_first_line(family)}", *families[name]]
    return "\n".join(lines)


def _confs() -> str:
    """Every conf: backbone, millions of parameters, licence, what it was trained on."""
    from benchkit.commands._tables import render
    from benchkit.conf.find import conf_names, find_conf
    from benchkit.conf.layers import read_yaml

    rows = []
    for name in conf_names():
        values = read_yaml(find_conf(name)).values
        backbone = values["model"]["backbone"]["name"]
        trained = ", ".join(values.get("pretrained_on") or []) or "nothing"
        size = str(values.get("parameters", ""))
        rows.append([name, str(values.get("title", "")), str(backbone), size, str(values.get("licence", "")), trained])
    return "confs (parameters in millions)\n" + render(
        ["conf", "model", "backbone", "parameters", "licence", "trained on"], rows, "table"
    )


def _components(kind: str) -> str:
    """Every module of a kind: what it is, and the extra it needs."""
    from benchkit import registry

    lines = [kind]
    for name in registry.names(kind):
        component = registry.find(kind, name)
        lines.append(f"  {name:20} {_first_line(component)}{_extra(component)}")
    return "\n".join(lines)


def _first_line(component: Component) -> str:
    return (component.module.__doc__ or "").strip().split("\n")[0]


def _extra(component: Component) -> str:
    """What has to be installed beside benchkit, and whether it is."""
    extra = getattr(component.module, "EXTRA", "")
    if not extra:
        return ""
    there = all(importlib.util.find_spec(name) for name in component.module.NEEDS)
    return f" [needs pip install 'benchkit[{extra}]'{', which is there' if there else ''}]"


def describe(name: str) -> str:
    """Layout, keys with defaults, metrics with directions and source of one benchmark."""
    from benchkit import registry, trust
    from benchkit.conf.find import find_benchmark
    from benchkit.conf.merge import default_layers, merge
    from benchkit.errors import UsageError

    trust.typed(name)
    found = find_benchmark(name)
    family = registry.find("eval", found.family)
    if not hasattr(family.build, "folder"):
        raise UsageError(
            f"{name} is no family of benchmarks: `benchkit list` describes those, and components by their names."
        )
    merged = merge(default_layers(found, family))
    own = found.layer.below("data").values.get("name")  # an instance's data stay its own kind under data.root
    folder = registry.find("datasets", str(own or family.build.folder))
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
