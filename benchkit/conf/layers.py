"""A layer is a tree of raw values from one place, together with where each key was written."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from benchkit import trust
from benchkit.conf.values import Plain
from benchkit.errors import UsageError

COMMAND_LINE = "command line"
SECTIONS = ("data", "model", "eval")
MAX_BYTES, MAX_NODES, MAX_DEPTH = 1_000_000, 20_000, 50  # of a yaml, its aliases followed: a conf has some dozens
_RESOLVER = re.compile(r"\$\{[^{}]*:")
_SCALARS = {f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "timestamp")}
_TAGS = _SCALARS | {"tag:yaml.org,2002:seq", "tag:yaml.org,2002:map"}
_FOR_ONE = re.compile(rf"benchmarks\.(?P<name>.+?)\.(?P<rest>(?:{'|'.join(SECTIONS)})\..+)")


@dataclasses.dataclass
class Layer:
    """Raw values as nested dicts, and `file:line` (or another place) by dotted key."""

    values: dict[str, Any]
    sources: dict[str, str]
    label: str = ""

    def source(self, key: str) -> str:
        """Where `key` was written, else the nearest key above it, else the layer's label."""
        while key and key not in self.sources:
            key = key.rpartition(".")[0]
        return self.sources.get(key, self.label)

    def below(self, *prefix: str) -> Layer:
        """The part below the keys of `prefix`, keys counted from there; empty when there is none."""
        values: Any = self.values
        for key in prefix:
            values = values.get(key) if isinstance(values, Mapping) else None
        start = ".".join(prefix) + "."
        sources = {key.removeprefix(start): where for key, where in self.sources.items() if key.startswith(start)}
        return Layer(dict(values) if isinstance(values, Mapping) else {}, sources, self.label)

    def only(self, *keys: str) -> Layer:
        """The layer with no other top-level keys than `keys`."""
        return Layer({key: self.values[key] for key in keys if key in self.values}, self.sources, self.label)


def plain_layer(values: Mapping[str, Any], label: str) -> Layer:
    """A layer of Python values from code: every key has the same place."""
    return Layer({key: value for key, value in values.items()}, {}, label)


def read_arguments(arguments: Sequence[str]) -> Layer:
    """`key=value` arguments as a layer; values stay text until their target's type is known; the last of a key holds.

    Raises:
        UsageError: an argument without `=`, without a key, with a resolver, or below a key that has a value.
    """
    layer = Layer({}, {}, COMMAND_LINE)
    for argument in arguments:
        key, equals, text = argument.partition("=")
        parts = _parts(key)
        if not equals or not all(part.strip() == part and part for part in parts):
            raise UsageError(f"argument {argument!r}: settings are given as key=value, for example data.size=224.")
        _refuse_resolver(argument, f"argument {argument!r}")
        trust.typed_setting(key, text)
        _assign(layer, parts, Plain(text), argument)
    return layer


def _parts(key: str) -> list[str]:
    for_one = _FOR_ONE.fullmatch(key)  # the name of a benchmark from elsewhere is a dotted path
    return ["benchmarks", for_one["name"], *for_one["rest"].split(".")] if for_one else key.split(".")


def _assign(layer: Layer, parts: list[str], text: Plain, argument: str) -> None:
    values = layer.values
    for part in parts[:-1]:
        values = values.setdefault(part, {})
        if not isinstance(values, dict):
            raise UsageError(f"argument {argument!r}: another argument gives {part!r} a value, so it has no keys.")
    if isinstance(values.get(parts[-1]), dict):
        raise UsageError(f"argument {argument!r}: other arguments set keys below it, so it takes no value itself.")
    values[parts[-1]] = text
    layer.sources[".".join(parts)] = COMMAND_LINE


def read_yaml(path: str | Path) -> Layer:
    """The yaml at `path` as a layer: unquoted scalars are `Plain`, quoted ones `str`, `file:line` for every key.

    Raises:
        UsageError: not readable, not UTF-8, no YAML, not a mapping, a key twice, a tag or merge key, a resolver
            (`${name:...}`), or more than MAX_NODES values once its aliases are followed; a dotted path in a conf from
            elsewhere (`benchkit.trust`).
    """
    path = Path(path)
    return _layer(path, _composed(path), lambda key, text, where: trust.named_in_conf(path, key, text, where))


Named = Callable[[str, str, str], None]  # told of every key, its text and its place


def _composed(path: Path) -> yaml.Node | None:
    text = _text(path)
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UsageError(
            f"{path}:{line}: this is not valid YAML: {error.problem or error.context}. "
            "Write `key: value`, and indent with spaces, the keys of one level alike."
        ) from None
    except (yaml.YAMLError, RecursionError) as error:
        raise UsageError(f"{path}: this is not valid YAML: {str(error) or 'nested too deeply'}.") from None


def _layer(path: Path, node: yaml.Node | None, named: Named) -> Layer:
    reader = _Reader(path, named)
    if node is None or node.tag.endswith(":null"):
        return Layer({}, {}, str(path))
    if not isinstance(node, yaml.MappingNode):
        raise UsageError(f"{path}:{node.start_mark.line + 1}: a conf is keys with values, not a list or a value.")
    return Layer(reader.mapping(node, "", 0), reader.sources, str(path))


def read_native(path: Path) -> Any:
    """The yaml at `path` as Python values; bounded as `read_yaml`, before anything is built of it. It names nothing to import.

    Raises:
        UsageError: as `read_yaml`.
    """
    node = _composed(path)
    _layer(path, node, lambda key, text, where: None)
    try:
        return (
            None if node is None else yaml.SafeLoader("").construct_document(node)
        )  # as safe_load, which would compose it again
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageError(f"{path}: this is not valid YAML: {str(error) or 'nested too deeply'}.") from None


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None
    if len(data) > MAX_BYTES:
        raise UsageError(f"{path} is larger than {MAX_BYTES} bytes: it is no conf.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}:{line}: byte {error.start} is not UTF-8; save the file as UTF-8.") from None


def _refuse_resolver(text: str, where: str) -> None:
    if _RESOLVER.search(text):
        raise UsageError(f"{where}: ${{...:...}} is not resolved in a conf; write the value itself.")


class _Reader:
    """YAML nodes to values; constructs no object, and counts nodes so that aliases cannot multiply without bound."""

    def __init__(self, path: Path, named: Named) -> None:
        self.path, self.named = path, named
        self.sources: dict[str, str] = {}
        self.nodes = 0

    def where(self, node: yaml.Node) -> str:
        return f"{self.path}:{node.start_mark.line + 1}"

    def value(self, node: yaml.Node, key: str, depth: int) -> Any:
        self.nodes += 1
        if self.nodes > MAX_NODES or depth > MAX_DEPTH:
            raise UsageError(f"{self.where(node)}: too many or too deeply nested values: this is no conf.")
        if node.tag not in _TAGS:
            raise UsageError(f"{self.where(node)}: the tag {node.tag} is not supported in a conf.")
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, key + ".", depth)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(each, key, depth + 1) for each in node.value]
        assert isinstance(node, yaml.ScalarNode)
        self.named(key, node.value, self.where(node))
        return self.scalar(node)

    def mapping(self, node: yaml.MappingNode, prefix: str, depth: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self.key(key_node)
            if key in values:
                first = self.sources[prefix + key]
                raise UsageError(f"{prefix}{key} ({self.where(key_node)}): this key is given twice, first at {first}.")
            self.sources[prefix + key] = self.where(key_node)
            if prefix == "benchmarks.":
                self.named(prefix + key, key, self.where(key_node))
            values[key] = self.value(value_node, prefix + key, depth + 1)
        return values

    def key(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode) or node.tag not in _SCALARS:
            raise UsageError(f"{self.where(node)}: a key must be a plain word; merge keys (<<) are not supported.")
        _refuse_resolver(node.value, self.where(node))
        return str(node.value)

    def scalar(self, node: yaml.ScalarNode) -> Any:
        _refuse_resolver(node.value, self.where(node))
        if node.style is not None:
            return str(node.value)
        return None if node.tag.endswith(":null") else Plain(node.value)
