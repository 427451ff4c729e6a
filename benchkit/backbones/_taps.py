"""What named parts of a net give, taken during the net's own forward."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn


class _Enough(Exception):
    """All that was wanted is there."""


class Taps:
    """Hooks on parts of a net. They keep what a part gives only while a call of `run` asks for it.

    Args:
        net: its forward is never rewritten, so what is kept is what the net itself computes.
        outputs: dotted names of parts whose output may be asked for.
        inputs: dotted names of parts whose first input may be asked for, as "name:in".
    """

    def __init__(self, net: nn.Module, outputs: Iterable[str], inputs: Iterable[str] = ()) -> None:
        self._wanted: set[str] = set()
        self._seen: dict[str, Any] = {}
        self._stop = False
        for name in outputs:
            net.get_submodule(name).register_forward_hook(self._after(name))
        for name in inputs:
            net.get_submodule(name).register_forward_pre_hook(self._before(f"{name}:in"))

    def run(
        self, forward: Callable[[], Any], wanted: Iterable[str], *, whole: bool = False
    ) -> tuple[Any, dict[str, Any]]:
        """What `forward` returns (None when it was stopped early), and the wanted outputs and inputs by name.

        Args:
            forward: calls the net.
            wanted: names given to the constructor.
            whole: run to the end, though all that is wanted may be there before.
        """
        self._wanted, self._seen = set(wanted), {}
        # A compiled graph cannot be left in the middle.
        self._stop = not whole and not torch.compiler.is_compiling()
        result = None
        try:
            result = forward()
        except _Enough:
            pass
        finally:
            seen, self._seen, self._wanted = self._seen, {}, set()
        return result, seen

    def _after(self, name: str) -> Callable[..., None]:
        def keep(module: nn.Module, args: Any, output: Any) -> None:
            self._keep(name, output)

        return keep

    def _before(self, name: str) -> Callable[..., None]:
        def keep(module: nn.Module, args: Any) -> None:
            self._keep(name, args[0])

        return keep

    def _keep(self, name: str, value: Any) -> None:
        if name not in self._wanted or name in self._seen:
            return
        self._seen[name] = value
        if self._stop and len(self._seen) == len(self._wanted):
            raise _Enough
