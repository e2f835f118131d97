# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""YAML read strictly: duplicate keys are errors, every value knows its line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from .errors import OverlayError

Where = tuple[str | int, ...]


@dataclass
class Document:
    """A YAML file as Python values, with the 1-based line of each of them."""

    name: str
    value: Any
    lines: dict[Where, int]

    def error(self, where: Where, reason: str) -> OverlayError:
        """An error at the line of the value at `where`."""
        while where and where not in self.lines:
            where = where[:-1]
        return OverlayError(f"{self.name}:{self.lines.get(where, 1)}: {reason}")

    def validate(self, schema: dict[str, Any], where: Where = ()) -> None:
        """Check the value at `where` against a JSON schema; raises OverlayError."""
        value = self.value
        for key in where:
            value = value[key]
        errors = list(jsonschema.Draft202012Validator(schema).iter_errors(value))
        for error in errors:
            if error.validator == "additionalProperties" and error.validator_value is False:
                key = next(key for key in error.instance if key not in error.schema["properties"])
                raise self.error((*where, *error.absolute_path, key), f"unknown key `{key}`")
        error = jsonschema.exceptions.best_match(errors)
        if error is not None:
            inside = tuple(error.absolute_path)
            name = f"`{'.'.join(map(str, inside))}`: " if inside else ""
            raise self.error((*where, *inside), name + error.message)


def load(path: Path, name: str) -> Document:
    """Read one YAML document; `name` is what errors call the file."""
    document = Document(name, None, {})
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
        if root is not None:
            document.value = _construct(document, root, (), yaml.SafeLoader(""))
    except (OSError, UnicodeDecodeError) as error:
        raise OverlayError(f"{name}: cannot be read: {error}") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise OverlayError(f"{name}:{line}: not YAML: {error.problem}") from error
    except RecursionError as error:
        raise OverlayError(f"{name}: nested too deeply") from error
    return document


def _construct(document: Document, node: yaml.Node, where: Where, loader: yaml.SafeLoader) -> Any:
    document.lines.setdefault(where, node.start_mark.line + 1)
    if isinstance(node, yaml.SequenceNode):
        return [
            _construct(document, child, (*where, i), loader) for i, child in enumerate(node.value)
        ]
    if isinstance(node, yaml.MappingNode):
        result: dict[Any, Any] = {}
        for key_node, child in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise document.error(where, "a key is not a plain word")
            key = loader.construct_object(key_node)
            document.lines[(*where, key)] = key_node.start_mark.line + 1
            if key in result:
                raise document.error((*where, key), f"duplicate key `{key}`")
            result[key] = _construct(document, child, (*where, key), loader)
        return result
    return loader.construct_object(node)
