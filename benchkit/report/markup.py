"""HTML that is put together from elements: text is escaped unless it was made here."""

from __future__ import annotations

import html


class Markup(str):
    """Text that is HTML already. Only `element`, and the files of the page itself, make it."""


def element(name: str, *children: str | None, **attributes: str | int | bool | None) -> Markup:
    """`<name attributes>children</name>`; children that are no Markup are escaped, None is left out.

    Args:
        attributes: `_` at the end of a name is dropped (class_), elsewhere it is a dash; True stands alone, None and False
            are left out.
    """
    said = "".join(
        _attribute(key, value) for key, value in attributes.items() if value is not None and value is not False
    )
    return Markup(f"<{name}{said}>{joined(*children)}</{name}>")


def joined(*children: str | None) -> Markup:
    """Children one after the other; those that are no Markup are escaped."""
    return Markup("".join(c if isinstance(c, Markup) else html.escape(c) for c in children if c is not None))


def picture(source: str, told: str, **attributes: str | int | bool | None) -> Markup:
    """An <img>; `told` is what it shows, for those who cannot see it."""
    said = {"src": source, "alt": told, "decoding": "async", **attributes}
    return Markup(f"<img{''.join(_attribute(key, value) for key, value in said.items() if value is not None)}>")


def _attribute(key: str, value: str | int | bool | None) -> str:
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{html.escape(str(value))}"'
