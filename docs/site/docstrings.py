"""An extension of griffe: docstrings as they are written here become Markdown.

Doctests become code and the names of other objects links; elsewhere brackets, stars and `<` stand
for themselves.
"""

import re
from contextlib import suppress
from functools import partial

from griffe import AliasResolutionError, Extension, Module, NameResolutionError, Object

INLINE = re.compile(r"(`+)(.+?)\1|[<*\[]", re.DOTALL)


class Docstrings(Extension):
    """Rewrites all docstrings of a package once it is loaded, when names can be resolved."""

    def on_package(self, *, pkg: Module, **_: object) -> None:
        """Rewrite the docstrings of a package."""
        _rewrite(pkg)


def _rewrite(obj: Object) -> None:
    if obj.docstring:
        blocks = obj.docstring.value.split("\n\n")
        obj.docstring.value = "\n\n".join(_block(obj, block) for block in blocks)
    for member in obj.members.values():
        if not member.is_alias:
            _rewrite(member)


def _block(obj: Object, block: str) -> str:
    if block.startswith(">>>"):
        return f"```pycon\n{block}\n```"
    if block.startswith("    "):  # a formula or code
        return block
    return INLINE.sub(partial(_inline, obj), block)


def _inline(obj: Object, match: re.Match[str]) -> str:
    ticks, name = match[1], match[2]
    if not ticks:
        return "&lt;" if match[0] == "<" else f"\\{match[0]}"
    if ticks == "`" and (path := _path(obj, name)):
        return f"[`{name}`][{path}]"
    return match[0]


def _path(obj: Object, name: str) -> str | None:
    """Return the full name of a documented object, by the name that a docstring has for it.

    A name with dots begins at the package, or at one of those that the module is in.
    """
    homes = obj.module.path.split(".")
    paths = [".".join([*homes[:count], name]) for count in range(1, len(homes))]
    if "." not in name:
        with suppress(NameResolutionError):
            paths.append(obj.resolve(name))
    for path in paths:
        with suppress(KeyError, AliasResolutionError):
            found = obj.package[path.removeprefix(f"{obj.package.path}.")]
            if found.has_docstring and not any(part.startswith("_") for part in path.split(".")):
                return found.canonical_path
    return None
