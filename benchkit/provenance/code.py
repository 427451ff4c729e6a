"""Which code made a feature, for models that did not come from a pinned library.

Weights and settings do not say what a user's `forward` does: a changed line must not meet the old bank. Bytecode is
hashed, so another Python version forwards again, which is safe.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from types import CodeType
from typing import Any

LIBRARIES = ("torch", "torchvision", "timm", "open_clip", "transformers", "benchkit", "builtins")


def code_hash(module: Any, functions: Iterable[Callable[..., Any] | None] = ()) -> str:
    """sha256 over a module's structure, the methods of its own classes, and further functions.

    Args:
        module: a torch.nn.Module.
        functions: for example a feature_fn.
    """
    own = {type(m) for m in module.modules() if type(m).__module__.split(".")[0] not in LIBRARIES}
    given = [f for f in functions if f is not None]
    digest = hashlib.sha256(repr(module).encode())
    for cls in sorted(own, key=lambda c: c.__qualname__):
        for name, method in sorted(vars(cls).items()):
            if callable(method) and hasattr(method, "__code__"):
                digest.update(f"{cls.__qualname__}.{name}".encode())
                _add(digest, method)
    for function in given:
        _add(digest, function)
    return digest.hexdigest()


def _add(digest: Any, function: Any) -> None:
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    if code is None:  # a callable object: its class's __call__
        code = type(function).__call__.__code__
    _add_code(digest, code)
    defaults = getattr(function, "__defaults__", None) or ()
    for value in (*defaults, *(_cell(c) for c in getattr(function, "__closure__", None) or ())):
        if isinstance(value, str | int | float | bool | tuple):
            digest.update(repr(value).encode())


def _cell(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not yet filled
        return None


def _add_code(digest: Any, code: CodeType) -> None:
    digest.update(code.co_code)
    digest.update(repr(code.co_names).encode())
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _add_code(digest, constant)
        else:
            digest.update(repr(constant).encode())
