"""What an experiment is called when nobody names it."""

from __future__ import annotations

from pathlib import Path

from benchkit.conf.build import Conf


def default_tag(conf: Conf) -> str:
    """The conf's stem, then what makes it differ from the benchmark's default: head, random weights, folder."""
    tag = conf.stem.rsplit(".", 1)[-1]
    if conf.head.name != conf.default_head and conf.head.name not in conf.stem.split("_"):
        tag += f"+{conf.head.name.rsplit('.', 1)[-1]}"
    if conf.model.random:
        tag += "+random"
    if conf.user_root:
        tag += f"@{Path(conf.data.settings.root).expanduser().resolve().name}"
    return tag
