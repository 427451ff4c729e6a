"""Layers become one tree, lowest first: family, benchmark's yaml, conf, conf for this benchmark, command line.

Two rules beyond "the higher layer wins": a layer that names another component drops what lower layers set for the old
one, and a data root without a name selects the family's folder dataset.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from benchkit import registry
from benchkit.conf.find import BenchmarkConf
from benchkit.conf.layers import SECTIONS, Layer, plain_layer
from benchkit.errors import UsageError

COMPONENTS = {"data": "datasets", "model.backbone": "backbones", "model.head": "heads"}  # section -> registry kind
FAMILY = "the family's defaults"


@dataclasses.dataclass
class Merged:
    """The merged tree, the place of each key in it, and what a user should be told about the merge."""

    values: dict[str, Any] = dataclasses.field(default_factory=dict)
    sources: dict[str, str] = dataclasses.field(default_factory=dict)
    notes: list[str] = dataclasses.field(default_factory=list)

    def source(self, key: str) -> str:
        """Where `key` was written, or the nearest key above it."""
        return Layer(self.values, self.sources).source(key)

    def at(self, section: str) -> dict[str, Any]:
        """The keys below a dotted section; empty when nobody set any."""
        return Layer(self.values, {}).below(*section.split(".")).values

    def leaf_sources(self) -> dict[str, str]:
        """The place of every value, sections left out."""
        return {
            key: each for key, each in self.sources.items() if not any(k.startswith(key + ".") for k in self.sources)
        }

    def name(self, section: str) -> str | None:
        """The component that a section names."""
        name = self.at(section).get("name")
        return None if name is None else str(name)


def default_layers(benchmark: BenchmarkConf, family: registry.Component) -> list[Layer]:
    """What holds before any user says something: the family's defaults, then the benchmark's yaml."""
    return [plain_layer(getattr(family.build, "defaults", {}), FAMILY), benchmark.layer.only(*SECTIONS)]


def folder_layer(layers: Sequence[Layer], folder: str) -> Layer:
    """The layer that selects `folder` when one of `layers` sets data.root and none data.name; else an empty one."""
    data = [layer.below("data").values for layer in layers]
    rooted = any(each.get("root") is not None for each in data)
    named = any("name" in each for each in data)
    return plain_layer({"data": {"name": folder}} if rooted and not named else {}, "data.root")


def merge(defaults: Sequence[Layer], users: Sequence[Layer] = ()) -> Merged:
    """All layers in one, lowest first; only what users' layers drop is noted."""
    merged = Merged()
    for layer in (*defaults, *users):
        for section in COMPONENTS:
            _drop_other_component(merged, layer, section, noted=any(layer is each for each in users))
        _lay(merged, merged.values, layer, layer.values, "")
    return merged


def _drop_other_component(merged: Merged, layer: Layer, section: str, *, noted: bool) -> None:
    new, old = layer.below(*section.split(".")).values.get("name"), merged.name(section)
    if new is None or old is None or str(new) == old:
        return
    below = merged.at(section)
    dropped = sorted(key for key in below if key != "name")
    if noted and dropped:
        where = ", ".join(sorted({merged.source(f"{section}.{key}") for key in dropped}))
        merged.notes.append(
            f"{section}.name={new} ({layer.source(f'{section}.name')}) replaces {old}, so what was set for {old} no "
            f"longer holds: {', '.join(dropped)} ({where})."
        )
    *above, last = section.split(".")
    parent = merged.at(".".join(above)) if above else merged.values
    parent[last] = {}
    if above:
        merged.values[above[0]] = parent
    merged.sources = {key: each for key, each in merged.sources.items() if not key.startswith(section + ".")}


def _lay(merged: Merged, target: dict[str, Any], layer: Layer, values: Mapping[str, Any], prefix: str) -> None:
    for key, value in values.items():
        dotted = prefix + key
        if isinstance(value, Mapping):
            below = target.get(key)
            target[key] = dict(below) if isinstance(below, Mapping) else {}
            _lay(merged, target[key], layer, value, dotted + ".")
        elif value is None and (dotted in SECTIONS or dotted in COMPONENTS or isinstance(target.get(key), Mapping)):
            continue  # `model:` with nothing below it
        elif dotted in SECTIONS or dotted in COMPONENTS:
            example = f"{dotted}.name={value}" if dotted in COMPONENTS else f"{dotted}.key={value}"
            raise UsageError(f"{dotted} ({layer.source(dotted)}): this is a section with keys; write {example}.")
        else:
            target[key] = value
        merged.sources[dotted] = layer.source(dotted)
