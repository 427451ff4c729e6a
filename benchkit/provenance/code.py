"""Which code made a feature, for models that did not come from a pinned library.

Hashed are the structure of the module, the methods of its own classes and their bases, and functions given with it. What
such code reads from elsewhere (attributes, globals, files) shows in what the model answers: benchkit.export.probe looks at
that. Bytecode is hashed, so another Python version forwards again, which is safe.
"""

from __future__ import annotations

import functools
import hashlib
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

LIBRARIES = ("torch", "torchvision", "timm", "open_clip", "transformers", "benchkit", "builtins")


def code_hash(module: Any, functions: Iterable[Callable[..., Any] | None] = ()) -> str:
    """sha256 over a module's structure and code, and further functions.

    Args:
        module: a torch.nn.Module.
        functions: for example a feature_fn.
    """
    digest = hashlib.sha256(repr(module).encode())
    digest.update(str(getattr(module, "code", "")).encode())  # of TorchScript
    classes = {base for part in module.modules() for base in type(part).__mro__ if _package(base) not in LIBRARIES}
    for cls in sorted(classes, key=lambda each: (each.__module__, each.__qualname__)):
        for name, member in sorted(vars(cls).items()):
            for code in _codes(member):
                digest.update(f"{cls.__qualname__}.{name}\0".encode())
                _add(digest, code)
    for function in functions:
        for code in _codes(function):
            _add(digest, code)
    return digest.hexdigest()


def _codes(value: Any) -> Iterator[types.CodeType]:
    """The code of a function, and of what a wrapper or decorator holds."""
    if isinstance(value, functools.partial):
        yield from _codes(value.func)
    elif isinstance(value, property):
        yield from _codes(value.fget)
    elif isinstance(value, staticmethod | classmethod | types.MethodType):
        yield from _codes(value.__func__)
    elif isinstance(value, types.FunctionType):
        yield value.__code__
        for cell in value.__closure__ or ():
            yield from _codes(_held(cell))


def _held(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not yet filled
        return None


def _add(digest: Any, code: types.CodeType) -> None:
    """Instructions, names and constants."""
    digest.update(code.co_code)
    digest.update(repr(code.co_names).encode())
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _add(digest, constant)
        else:  # a set's order changes from process to process
            shown = sorted(map(repr, constant)) if isinstance(constant, frozenset) else repr(constant)
            digest.update(f"{shown}\0".encode())


def _package(thing: Any) -> str:
    return str(getattr(thing, "__module__", "") or "").split(".")[0]
