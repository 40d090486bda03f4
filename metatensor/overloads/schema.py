"""Signatures of operator overloads. They have the attributes of ``func._schema`` in PyTorch."""

from __future__ import annotations

import ast
import re
from functools import cached_property
from typing import Any

__all__ = ["AliasInfo", "Argument", "FunctionSchema"]

_HEAD = re.compile(r"([\w:]+)(?:\.(\w+))?\((.*)\) -> (.+)", re.S)
_TYPE = re.compile(r"(?P<base>\w+)(?:\((?P<alias>[^)]*)\))?(?P<rest>.*)")
_CONSTANTS = {"None": None, "True": True, "False": False, "Mean": 1, "contiguous_format": None, "strided": None, "long": None}


class AliasInfo:
    """The alias annotation of an argument or result.

    Parameters
    ----------
    text : str
        The annotation without parentheses, such as ``"a!"`` or ``"a -> *"``.
    """

    def __init__(self, text: str) -> None:
        before, _, after = text.partition("->")
        self.is_write = "!" in text
        self.before_set = {part.strip(" !") for part in before.split("|")}
        self.after_set = {part.strip(" !") for part in after.split("|")} if after else set(self.before_set)

    def __repr__(self) -> str:
        return f"AliasInfo(before_set={self.before_set}, is_write={self.is_write})"


class Argument:
    """One argument or result of a signature.

    Parameters
    ----------
    text : str
        The declaration, such as ``"int dim=0"``.
    kwarg_only : bool
        Whether the argument is keyword-only. Default: False.
    """

    def __init__(self, text: str, kwarg_only: bool = False) -> None:
        declared, equals, default = text.partition("=")
        words = declared.rsplit(" ", 1) if " " in declared and not declared.endswith(")") else [declared]
        match = _TYPE.fullmatch(words[0].strip())
        if match is None:
            raise ValueError(f"cannot read the argument {text!r}")
        self.alias_info = None if match["alias"] is None else AliasInfo(match["alias"])
        self.type = match["base"] + match["rest"]
        self.real_type = self.type
        self.name = words[1] if len(words) > 1 else ""
        self.kwarg_only = kwarg_only
        self.is_out = kwarg_only and self.is_write
        self._text, self._default = text, (default if equals else None)

    @property
    def is_write(self) -> bool:
        """Whether the operator writes to the argument."""
        return self.alias_info is not None and self.alias_info.is_write

    @cached_property
    def N(self) -> int | None:
        """The length of a list of fixed length such as ``int[2]``, or None for other types.

        A single number may be passed for such a list, and is then repeated.
        """
        found = re.search(r"\[(\d+)\]", self.type)
        return int(found[1]) if found else None

    def has_default_value(self) -> bool:
        """Return True if the argument has a default."""
        return self._default is not None

    @cached_property
    def default_value(self) -> Any:
        """The default value, or None if there is none."""
        text = self._default
        if text is None or text in _CONSTANTS:
            return _CONSTANTS.get(text or "None")
        value = ast.literal_eval(text)
        return [value] * self.N if self.N and not isinstance(value, list) else value

    def __repr__(self) -> str:
        return f"Argument({self._text!r})"


class FunctionSchema:
    """The signature of one overload.

    Parameters
    ----------
    text : str
        The signature, such as ``"add.Tensor(Tensor self, Tensor other) -> Tensor"``.
    namespace : str
        The namespace of the operator if `text` does not contain one. Default: "aten".

    Raises
    ------
    ValueError
        If `text` cannot be parsed.
    """

    def __init__(self, text: str, namespace: str = "aten") -> None:
        match = _HEAD.fullmatch(text)
        if match is None:
            raise ValueError(f"cannot read the signature {text!r}")
        self.name = match[1] if "::" in match[1] else f"{namespace}::{match[1]}"
        self.overload_name = match[2] or ""
        self._text = text
        self.arguments = []
        kwarg_only = False
        for part in _split(match[3]):
            if part == "*":
                kwarg_only = True
            else:
                self.arguments.append(Argument(part, kwarg_only))
        returns = match[4].strip()
        inner = _split(returns[1:-1]) if returns.startswith("(") else [returns]
        self.returns = [Argument(part) for part in inner]

    @cached_property
    def is_mutable(self) -> bool:
        """Whether the operator writes to one of its arguments."""
        return any(argument.is_write for argument in self.arguments)

    def __str__(self) -> str:
        return f"{self.name.partition('::')[0]}::{self._text.partition('::')[2] or self._text}"

    __repr__ = __str__


def _split(text: str) -> list[str]:
    """Split `text` at the commas that are outside parentheses and square brackets."""
    parts, depth, start = [], 0, 0
    for i, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return [part for part in (*parts, text[start:].strip()) if part]
