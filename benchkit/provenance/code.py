"""Which code made a feature, for models that did not come from a pinned library.

Weights and settings do not say what a user's `forward` does: a changed line, constant or attribute must not meet the old
bank. Hashed are the module's structure, the public attributes and hooks of its parts, the methods of its own classes and
of their bases, and the functions of the same package that these call. Bytecode is hashed, so another Python version
forwards again, which is safe.
"""

from __future__ import annotations

import functools
import hashlib
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

LIBRARIES = ("torch", "torchvision", "timm", "open_clip", "transformers", "benchkit", "builtins")
_PLAIN = (str, int, float, complex, bool, bytes, type(None), type(...))
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")


def code_hash(module: Any, functions: Iterable[Callable[..., Any] | None] = ()) -> str:
    """sha256 over a module's structure, attributes and code, and further functions.

    Args:
        module: a torch.nn.Module.
        functions: for example a feature_fn.
    """
    walk = _Walk()
    walk.module(module)
    for function in functions:
        walk.value(function)
    return walk.digest.hexdigest()


class _Walk:
    """Feeds a digest with whatever can be reached, each function and class once."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self.seen: set[int] = set()
        self.kept: list[Any] = []  # ids stay unique while their objects live

    def add(self, text: str) -> None:
        self.digest.update(text.encode() + b"\0")

    def new(self, thing: Any) -> bool:
        """Whether `thing` was not met before; what was is named by its turn."""
        if id(thing) in self.seen:
            return False
        self.seen.add(id(thing))
        self.kept.append(thing)
        return True

    def module(self, module: Any) -> None:
        """An nn.Module: structure, TorchScript text, then every part's attributes and class."""
        self.add(repr(module))
        self.value(getattr(module, "code", None))
        for name, part in module.named_modules():
            if not self.new(part):
                continue
            self.add(name)
            for key, value in sorted(vars(part).items()):
                if key in _HOOKS:
                    self.values(key, list(value.values()))
                elif _package(type(part)) not in LIBRARIES and key != "training" and not key.startswith("_"):
                    self.add(key)  # weights have an identity of their own, and a library's parts print what they are
                    self.value(value)
            self.cls(type(part))

    def cls(self, cls: type) -> None:
        """A class of the user's and its bases."""
        for each in cls.__mro__:
            if _package(each) in LIBRARIES or not self.new(each):
                continue
            self.add(each.__qualname__)
            for name, member in sorted(vars(each).items()):
                if not (name.startswith("__") and isinstance(member, _PLAIN)):  # module, doc, line number
                    self.add(name)
                    self.value(member)

    def value(self, value: Any) -> None:
        """Anything a function or module holds."""
        if isinstance(value, _PLAIN):
            self.add(repr(value))
        elif isinstance(value, type):
            self.add(value.__qualname__)
            self.cls(value)
        elif isinstance(value, list | tuple):
            self.values("sequence", value)
        elif isinstance(value, set | frozenset):
            self.add(f"set {sorted(map(repr, value))}")  # their order changes from process to process
        elif isinstance(value, Mapping):
            self.values("mapping", [each for pair in value.items() for each in pair])
        elif hasattr(value, "named_modules"):
            self.module(value)
            self.values("state", value.state_dict())
        elif hasattr(value, "numpy") or hasattr(value, "tobytes"):
            self.array(value)
        else:
            self.callable(value)

    def values(self, kind: str, values: Any) -> None:
        """A container's values in their order."""
        self.add(f"{kind} {len(values)}")
        for each in values.items() if isinstance(values, Mapping) else values:
            self.value(each)

    def array(self, value: Any) -> None:
        """A tensor or array: dtype, shape, bytes."""
        plain = value.detach().cpu().float().numpy() if hasattr(value, "detach") else value
        self.add(f"{value.dtype} {tuple(value.shape)}")
        self.digest.update(plain.tobytes())

    def callable(self, value: Any) -> None:
        """A function, method, descriptor, partial or object with __call__; other objects count by their class."""
        inner = _inside(value)
        if inner:
            self.values(type(value).__name__, inner)
        elif isinstance(value, types.FunctionType):
            self.function(value)
        else:
            self.add(f"{type(value).__qualname__} {getattr(value, '__name__', '')}")
            if " at 0x" not in (text := repr(value)):  # else its place in memory, another one each time
                self.add(text)
            if _package(type(value)) not in LIBRARIES and self.new(value):
                self.cls(type(value))
                self.value(getattr(value, "__dict__", None))

    def function(self, function: types.FunctionType) -> None:
        """Code, defaults, closure, what it wraps, and the globals of its own package that it names."""
        self.add(function.__qualname__)
        if not self.new(function):
            return
        self.code(function.__code__)
        self.value(function.__defaults__)
        self.value(function.__kwdefaults__)
        for cell in function.__closure__ or ():
            self.value(_cell(cell))
        if _package(function) in LIBRARIES:
            return
        for name in _names(function.__code__):
            held = function.__globals__.get(name)
            if isinstance(held, _PLAIN) or (held is not None and _package(held) == _package(function)):
                self.add(name)
                self.value(held)

    def code(self, code: types.CodeType) -> None:
        """Instructions, names and constants."""
        self.digest.update(code.co_code)
        self.add(repr(code.co_names))
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self.code(constant)
            else:
                self.value(constant)


def _inside(value: Any) -> list[Any]:
    """What a wrapper of functions holds."""
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, property):
        return [value.fget]
    if isinstance(value, staticmethod | classmethod | types.MethodType):
        return [value.__func__]
    return []


def _names(code: types.CodeType) -> list[str]:
    """Global names in a function and in the functions within it."""
    inner = [name for each in code.co_consts if isinstance(each, types.CodeType) for name in _names(each)]
    return sorted({*code.co_names, *inner})


def _package(thing: Any) -> str:
    return str(getattr(thing, "__module__", "") or "").split(".")[0]


def _cell(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not yet filled
        return None
