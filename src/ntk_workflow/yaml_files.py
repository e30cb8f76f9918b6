"""YAML files as people mean them, with every mistake as one line."""

import re
from pathlib import Path
from typing import Any

import yaml

from ntk_conditioning.errors import UserError, one_line

# libyaml's, where PyYAML was built with it: papers' claims are thousands of lines.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NUMBERS = {
    "int": r"[-+]?(0|[1-9]\d*)",
    "float": r"[-+]?(\d+\.\d*|\.\d+)([eE][-+]?\d+)?|[-+]?\d+[eE][-+]?\d+|[-+]?\.inf|\.nan",
}


class LOADER(_Loader):  # type: ignore[misc]
    """Reads 1e-3 as a number; 010, 1:30 and 2001-01-02, other numbers to YAML 1.1, are texts."""


LOADER.yaml_implicit_resolvers = {
    first: [pair for pair in pairs if pair[0].split(":")[-1] in ("bool", "null", "merge")]
    for first, pairs in _Loader.yaml_implicit_resolvers.items()
}
for _tag, _pattern in _NUMBERS.items():
    LOADER.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(f"({_pattern})$"), list("-+.0123456789")
    )


def read_yaml(path: str | Path) -> Any:
    """Return the content of a YAML file; `UserError`, with file and line, if it is none."""
    try:
        return parse_yaml(Path(path).read_bytes().decode("utf-8"), str(path))
    except FileNotFoundError as error:
        raise UserError(f"{path}: no such file") from error
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}: line {line} is not UTF-8; is it a text file?") from error


def parse_yaml(text: str, name: str) -> Any:
    """Return the content of YAML that a file called ``name`` has; errors as `read_yaml`."""
    try:
        loader = LOADER(text)
        root = loader.get_single_node()
        _require_keys(root)
        return None if root is None else loader.construct_document(root)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or one_line(error)
        raise UserError(f"{name}:{where} not valid YAML: {problem}") from error


def _require_keys(node: yaml.Node | None) -> None:
    """Refuse keys that are repeated, of which YAML would take the last, or no texts."""
    values = node.value if isinstance(node, yaml.CollectionNode) else []
    lines: dict[str, int] = {}
    for key, value in values if isinstance(node, yaml.MappingNode) else ():
        problem = ""
        if key.tag.split(":")[-1] not in ("str", "merge"):
            problem = "this key is no text; put it in quotes"
        elif key.value in lines:
            problem = f"the key {key.value!r} is in line {lines[key.value]} already"
        if problem:
            raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
        lines[key.value] = key.start_mark.line + 1
        _require_keys(value)
    for item in values if isinstance(node, yaml.SequenceNode) else ():
        _require_keys(item)
