"""The one way from names and layers to typed settings: `build` for export, `evaluate_settings` for eval."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchkit import registry, trust
from benchkit.conf.find import BenchmarkConf, benchmark_names, data_folder, find_benchmark, find_conf
from benchkit.conf.layers import Layer, plain_layer, read_arguments, read_yaml
from benchkit.conf.merge import COMPONENTS, Merged, default_layers, folder_layer, merge
from benchkit.conf.model import ModelSettings
from benchkit.conf.schema import Section, fill
from benchkit.conf.users import user_layers
from benchkit.conf.values import read_as
from benchkit.errors import UsageError
from benchkit.registry import Component

ABOUT = {"title": str, "pretrained_on": list[str], "source": str, "licence": str, "parameters": float}


@dataclasses.dataclass
class Chosen:
    """A component by name and the settings it is built from."""

    name: str
    settings: Any
    component: Component

    def plain(self) -> dict[str, Any]:
        """`name` and the settings as values that YAML knows."""
        return {"name": self.name, **plain(self.settings)}


@dataclasses.dataclass
class Conf:
    """Everything an experiment is made from, after every default.

    Attributes:
        stem: what the tag is called by default, before head, twin and folder are added.
        about: title, source, licence, parameters (millions) and pretrained_on of the model, as far as the conf gives them.
        default_head: the head that the benchmark uses when no user names one.
        user_root: whether a user's layer gives data.root.
        user_train_split: whether a user's layer gives data.train_split.
        notes: sentences for the user about what was dropped.
        sources: where each value was written, by dotted key; keys left at their default are not in it.
    """

    benchmark: str
    family: str
    stem: str
    data: Chosen
    backbone: Chosen
    head: Chosen
    model: ModelSettings
    eval: Any
    family_component: Component
    about: dict[str, Any]
    title: str
    overlaps: list[str]
    obtain: str
    layout: str
    default_head: str | None
    user_root: bool
    user_train_split: bool
    notes: list[str]
    sources: dict[str, str]

    def plain(self) -> dict[str, Any]:
        """Sections data, model and eval as values that YAML knows, in the order of the dataclasses."""
        model = {"backbone": self.backbone.plain(), **plain(self.model), "head": self.head.plain()}
        return {"data": self.data.plain(), "model": model, "eval": plain(self.eval)}


def plain(settings: Any) -> Any:
    """A dataclass or value as dicts, lists and scalars."""
    if dataclasses.is_dataclass(settings) and not isinstance(settings, type):
        return {field.name: plain(getattr(settings, field.name)) for field in dataclasses.fields(settings)}
    if isinstance(settings, Mapping):
        return {str(key): plain(value) for key, value in settings.items()}
    if isinstance(settings, list | tuple):
        return [plain(value) for value in settings]
    if isinstance(settings, enum.Enum):
        return settings.name
    return str(settings) if isinstance(settings, Path) else settings


def build(
    conf: str | Path | None,
    benchmark: str,
    arguments: Sequence[str] = (),
    components: Mapping[str, Component] | None = None,
) -> Conf:
    """The typed conf of one model on one benchmark.

    Args:
        conf: a stem from `configs/`, a path, or None when arguments or components say all.
        benchmark: an instance or a family.
        arguments: `key=value` or `benchmarks.<name>.key=value`.
        components: components at hand by section (data, model.backbone, model.head, eval), in place of names.

    Raises:
        UsageError: anything that is wrong with one of them; names the file and line or the command line.
    """
    components = components or {}
    trust.typed(benchmark)
    given = read_arguments(arguments)
    found, family = _family(benchmark, components)
    path = None if conf is None else find_conf(conf)
    layer = Layer({}, {}) if path is None else read_yaml(path)
    users = user_layers(layer, given, found.name)
    defaults = default_layers(found, family)
    folder = folder_layer((defaults[1], *users), getattr(family.build, "folder", "image_folder"))
    named = plain_layer(_named(components), "the given component")
    merged = merge([defaults[0], folder, defaults[1], _default_root(found), named], users)
    chosen = {place: _component(place, merged, components) for place in COMPONENTS}
    schema = _schema(chosen, family)
    filled = {section.place: fill(section, merged, schema) for section in schema}
    parts = {place: Chosen(each.name, filled[place], each) for place, each in chosen.items()}
    return Conf(
        benchmark=found.name,
        family=found.family,
        stem=path.stem if path else parts["model.backbone"].name,
        data=parts["data"],
        backbone=parts["model.backbone"],
        head=parts["model.head"],
        model=filled["model"],
        eval=filled["eval"],
        family_component=family,
        about=_texts(layer, ABOUT),
        **_description(found),
        default_head=merge(defaults).name("model.head"),
        user_root=any(each.below("data").values.get("root") is not None for each in users),
        user_train_split=any("train_split" in each.below("data").values for each in users),
        notes=merged.notes,
        sources=merged.leaf_sources(),
    )


def evaluate_settings(
    family: str | Component,
    base: Mapping[str, Any],
    conf: str | Path | None,
    benchmark: str,
    arguments: Sequence[str] = (),
) -> Any:
    """The family's settings for eval: its defaults, the benchmark's, then `base` (the eval section of a finished
    tag's conf.yaml), the conf's benchmarks.<name>.eval, and arguments.

    Raises:
        UsageError: an argument about data or model, or an eval setting that is wrong.
    """
    component = registry.find("eval", family) if isinstance(family, str) else family
    given = read_arguments(arguments)
    layer = Layer({}, {}) if conf is None else read_yaml(find_conf(conf))
    users = [each.only("eval") for each in _eval_layers(layer, given, benchmark)]
    unknown = BenchmarkConf(benchmark, component.name, Layer({}, {}))  # its files are evaluated by what they say
    found = find_benchmark(benchmark) if benchmark in benchmark_names() else unknown
    defaults = default_layers(found, component)
    stored = plain_layer({"eval": dict(base)}, "conf.yaml")
    merged = merge([*(each.only("eval") for each in defaults), stored], users)
    section = Section("eval", component.settings, "eval", component.name)
    return fill(section, merged, [section])


def recorded_settings(component: Component, record: Mapping[str, Any]) -> Any:
    """The family's settings as a record has them; values are read by their type, as those of a conf are.

    Raises:
        UsageError: the family has no such setting, or the value is none for it.
    """
    merged = merge([plain_layer({"eval": dict(record["conf"]["eval"])}, "record.json")])
    section = Section("eval", component.settings, "eval", component.name)
    return fill(section, merged, [section])


def _eval_layers(conf: Layer, arguments: Layer, benchmark: str) -> list[Layer]:
    layers = user_layers(conf, arguments, benchmark)
    for each in layers[2:]:
        for section in ("data", "model"):
            if section in each.values:
                raise UsageError(
                    f"{section} ({each.source(section)}): eval reads files and takes eval. settings only; change "
                    f"{section} by exporting again."
                )
    return layers


def _family(benchmark: str, components: Mapping[str, Component]) -> tuple[BenchmarkConf, Component]:
    if "eval" in components:
        return BenchmarkConf(benchmark, components["eval"].name, Layer({}, {})), components["eval"]
    found = find_benchmark(benchmark)
    return found, _find("eval", found.family, f"family ({found.layer.source('family')})")


def _named(components: Mapping[str, Component]) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for place, component in components.items():
        if place not in (*COMPONENTS, "eval"):
            raise UsageError(f"components has {place!r}; its keys are {', '.join(COMPONENTS)} and eval.")
        section, _, below = place.partition(".")
        if below:
            named.setdefault(section, {})[below] = {"name": component.name}
        elif place in COMPONENTS:
            named[section] = {"name": component.name}
    return named


def _default_root(found: BenchmarkConf) -> Layer:
    """Where an instance's data are, if they are where they are looked for; an empty layer otherwise."""
    folder = data_folder(found)
    there = "obtain" in found.layer.values and folder.is_dir()
    return plain_layer({"data": {"root": str(folder)}} if there else {}, f"found at {folder}")


def _component(place: str, merged: Merged, components: Mapping[str, Component]) -> Component:
    name = merged.name(place)
    where = f"{place}.name ({merged.source(f'{place}.name')})"
    if place in components:
        if name != components[place].name:
            raise UsageError(f"{where}: it says {name!r}, but {components[place].name!r} was given as an object.")
        return components[place]
    if name is None:
        there = ", ".join(registry.names(COMPONENTS[place]))
        raise UsageError(f"{place}.name is not set: name one of {there}, or a dotted path, in the conf or as argument.")
    return _find(COMPONENTS[place], name, where)


def _find(kind: str, name: str, where: str) -> Component:
    try:
        return registry.find(kind, name)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None


def _schema(chosen: Mapping[str, Component], family: Component) -> list[Section]:
    sections = [Section(place, each.settings, COMPONENTS[place], each.name) for place, each in chosen.items()]
    return [*sections, Section("model", ModelSettings), Section("eval", family.settings, "eval", family.name)]


def _description(found: BenchmarkConf) -> dict[str, Any]:
    texts = _texts(found.layer, {"title": str, "obtain": str, "layout": str, "overlaps": list[str]})
    return {"title": "", "obtain": "", "layout": "", "overlaps": [], **texts}


def _texts(layer: Layer, hints: Mapping[str, Any]) -> dict[str, Any]:
    texts = {}
    for key, hint in hints.items():
        if layer.values.get(key) is None:
            continue
        try:
            texts[key] = read_as(hint, layer.values[key])
        except ValueError as error:
            raise UsageError(f"{key} ({layer.source(key)}): {error}.") from None
    return texts
