"""Components are found by name: the module of that name in its kind's package, else any dotted path.

A component module offers two names: `Settings`, a dataclass of what a conf may set, and `build`, the callable that
makes the component from them. The module's name is the component's name, so there is no list to keep. A dotted path
names such a module, or a class that carries its own `Settings`: a private package is a plug-in.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import importlib.util
import inspect
import pkgutil
from typing import Any

from benchkit import trust
from benchkit.errors import UsageError

KINDS = ("datasets", "backbones", "heads", "estimators", "eval")


@dataclasses.dataclass(frozen=True)
class Component:
    """A named part of an experiment: its settings class and how to build it."""

    kind: str
    name: str
    settings: type
    build: Any  # a callable; of a family, the class with its level, defaults and folder
    module: Any


def made(component: Component, settings: Any) -> Any:
    """The component, built from its settings alone.

    Raises:
        UsageError: its `build` does not take them.
    """
    try:
        inspect.signature(component.build).bind(settings)
    except TypeError as error:
        raise UsageError(
            f"{component.name}: it is called with one argument, its settings (an instance of its own dataclass `Settings`, where "
            f"it has one), and does not take that: {error}."
        ) from None
    except ValueError:  # a callable that tells nothing of its arguments
        pass
    return component.build(settings)


@dataclasses.dataclass
class NoSettings:
    """Settings of a component that has none."""


def names(kind: str) -> list[str]:
    """The components of `kind` that ship with benchkit, sorted; imports none of them."""
    package = importlib.import_module(f"benchkit.{kind}")
    found = pkgutil.iter_modules(package.__path__)
    return sorted(m.name for m in found if not m.ispkg and m.name != "base" and not m.name.startswith("_"))


def find(kind: str, name: str) -> Component:
    """The component called `name`.

    Raises:
        UsageError: no module of the kind and no dotted path is called so; the message names the nearest ones.
    """
    if name in names(kind):
        return _component(kind, name, importlib.import_module(f"benchkit.{kind}.{name}"))
    if "." in name:
        return _component(kind, name, import_dotted(name))
    near = difflib.get_close_matches(name, names(kind), n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise UsageError(
        f"no {kind.removesuffix('s')} is called {name!r}: {hint}there are {', '.join(names(kind))}, "
        "and any importable dotted path such as mypackage.module.Class works too."
    )


def _component(kind: str, name: str, thing: Any) -> Component:
    build = getattr(thing, "build", thing)
    settings = getattr(thing, "Settings", NoSettings)
    if kind == "backbones" and isinstance(thing, type) and not (hasattr(thing, "tokens") or hasattr(thing, "Settings")):
        raise UsageError(
            f"model.backbone.name: {name} is no benchkit Backbone (it has no `tokens`). A plain torch.nn.Module is used as "
            f"model.backbone: {{name: module, path: {name}, size: ..., mean: [...], std: [...]}}."
        )
    if not callable(build):
        raise UsageError(f"{name!r} cannot be used as one of the {kind}: it is a module without a `build` callable.")
    return Component(kind, name, settings, build, thing)


def import_dotted(path: str) -> Any:
    """Import `package.module`, or the attribute after the last importable module of `path`.

    Raises:
        UsageError: nothing can be imported from the path; says which part is missing. Or a file named it, and it may be a
            stranger's (`benchkit.trust`).
    """
    trust.refuse_foreign(path)
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        module_name = ".".join(parts[:cut])
        if not _importable(module_name):
            continue
        thing: Any = _imported(module_name)
        for attribute in parts[cut:]:
            if not hasattr(thing, attribute):
                raise UsageError(f"{path!r}: {module_name} has no attribute {attribute!r}.")
            thing = getattr(thing, attribute)
        return thing
    raise UsageError(
        f"{path!r} cannot be imported: there is no module {parts[0]!r} on the Python path. Where it "
        "lies in this folder, set PYTHONPATH=. before the command."
    )


def _imported(module_name: str) -> Any:
    try:
        return importlib.import_module(module_name)
    except Exception as error:  # a user's module can fail in any way
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise UsageError(f"{module_name} cannot be imported: {type(error).__name__}: {error}{line}.") from error


def _importable(module_name: str) -> bool:
    try:
        return importlib.util.find_spec(module_name) is not None
    except (ModuleNotFoundError, ValueError):
        return False
