"""Processes that tests start."""

from __future__ import annotations

import signal


def heeding_ctrl_c() -> None:
    """To be run in the child: Ctrl-C is heeded also where the tests run in the background, where shells have it ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
