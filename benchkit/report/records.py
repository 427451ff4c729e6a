"""Records and confs in a page, and paths of a machine cut to their last parts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from benchkit.report.markup import Markup, element

_WHOLE = re.compile(r"(~|/|\.\.?[/\\]|[A-Za-z]:[\\/]|\\\\)")
_MORE = re.compile(r" [-~/]|: ")  # a text that begins with a path and goes on
_WITHIN = re.compile(r"(?<![\w/:.~\\-])(?:~?/|\.\.?/|[A-Za-z]:\\)[^\s'\"=,;:]+")


def record_details(tag: str, record: Mapping[str, Any]) -> Markup:
    """Conf and record of a tag, folded."""
    import yaml

    conf = yaml.safe_dump(record["conf"], sort_keys=False, allow_unicode=True)
    rest = json.dumps({key: value for key, value in record.items() if key != "conf"}, indent=1, ensure_ascii=False)
    parts = [element("h4", "conf"), element("pre", conf), element("h4", "record"), element("pre", rest)]
    return element("details", element("summary", tag), *parts, class_="record")


def without_paths(value: Any) -> Any:
    """The same plain data with every path of a machine cut to its last part, alone or within a text."""
    if isinstance(value, Mapping):
        return {key: without_paths(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [without_paths(each) for each in value]
    return path_cut(value) if isinstance(value, str) else value


def path_cut(text: str) -> str:
    """A text in which paths that begin at a root, at home or at a folder above are their last parts."""
    if _WHOLE.match(text) and not _MORE.search(text):
        return _last(text)
    return _WITHIN.sub(lambda found: _last(found[0]), text)


def _last(path: str) -> str:
    kind = PureWindowsPath if "\\" in path else PurePosixPath
    return kind(path).name or path
