"""The table of sharding rules: its entries, its text form, and the rules that statements beside operators add."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Cut", "Pass", "Rules", "parse_rules", "format_rules", "all_rules", "rule_lines", "rules", "rules_of"]

HEADER = """\
# Sharding rules of operators, found by trying. The package metatensor.distributed.tensor.sharding explains their form.
# Made by: python -m distributed.oracle_rules --make, in tests.
"""
FILE = Path(__file__).with_name("rules.txt")


class Cut(NamedTuple):
    """One kind of axis along which an operator may be cut.

    Parameters
    ----------
    members : tuple of str
        The places of the axis, as `features.members` names them.
    joins : tuple of str
        How the parts of each result are joined: ``cat``, ``same``, ``sum``, ``mean``, ``max``, ``min``, ``product``.
    where : tuple of (str, value)
        Properties that the axis and the arguments have.
    partial : tuple of str
        Arguments that are not cut and of which the parts must be partial sums.
    whole_parts : bool
        Whether no part may be empty.
    """

    members: tuple[str, ...]
    joins: tuple[str, ...]
    where: tuple[tuple[str, Any], ...] = ()
    partial: tuple[str, ...] = ()
    whole_parts: bool = False

    def holds(self, properties: Mapping[str, Any]) -> bool:
        """Return True if the rule applies to an axis and a call with these properties."""
        return _agrees(self.where, properties)

    def __str__(self) -> str:
        text = f"cut {', '.join(self.members)} -> {', '.join(self.joins)}"
        text += f" with {', '.join(self.partial)} partial" * bool(self.partial)
        return text + " no empty parts" * self.whole_parts + _where(self.where)


class Pass(NamedTuple):
    """A reduction of arguments that becomes a reduction of the results."""

    members: tuple[str, ...]
    reduction: str
    results: tuple[str, ...]
    where: tuple[tuple[str, Any], ...] = ()

    def holds(self, properties: Mapping[str, Any]) -> bool:
        """Return True if the rule applies to a call with these properties."""
        return _agrees(self.where, properties)


class Keep(NamedTuple):
    """Arguments whose elements do not matter: they are not redistributed, and do not limit the placements of the others."""

    members: tuple[str, ...]


class Rules(NamedTuple):
    """The rules of one overload. ``kept`` has the names of the arguments that are not redistributed."""

    cuts: tuple[Cut, ...] = ()
    passes: tuple[Pass, ...] = ()
    kept: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.cuts or self.passes)


def _agrees(where: Iterable[tuple[str, Any]], properties: Mapping[str, Any]) -> bool:
    return all(name in properties and properties[name] == value and type(properties[name]) is type(value) for name, value in where)


def _where(where: Iterable[tuple[str, Any]]) -> str:
    text = ", ".join(f"{name}={value!r}" for name, value in where)
    return f" where {text}" if text else ""


def format_rules(table: Mapping[str, Rules]) -> str:
    """Return the table as text: the name of each overload, followed by one indented line for each rule.

    Rules that differ only in the reduction share a line.
    """
    lines = []
    for name in sorted(table):
        lines += [name, *(f"    {line}" for line in rule_lines(table[name]))]
    return "\n".join(lines) + "\n"


def rule_lines(found: Rules) -> Iterator[str]:
    """Yield the rules of one overload as text."""
    yield from map(str, found.cuts)
    yield from _pass_lines(found.passes)
    if found.kept:
        yield f"keep {', '.join(found.kept)}"


def _pass_lines(passes: Iterable[Pass]) -> Iterator[str]:
    groups: dict[Any, list[Pass]] = {}
    for rule in passes:
        results = tuple("alike" if one == rule.reduction else one for one in rule.results)
        groups.setdefault((rule.members, results, rule.where), []).append(rule)
    for (names, results, where), group in groups.items():
        reductions = ", ".join(rule.reduction for rule in group)
        arrow = "" if set(results) == {"alike"} and len(results) == 1 else f" -> {', '.join(results)}"
        yield f"pass {reductions} of {', '.join(names)}{arrow}{_where(where)}"


def parse_rules(text: str) -> dict[str, Rules]:
    """Return the table that `format_rules` wrote. Lines that begin with # are comments."""
    table: dict[str, Rules] = {}
    name = ""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if not line.startswith(" "):
            name = line.strip()
            table[name] = Rules()
            continue
        try:
            table[name] = _with(table[name], parse_line(line.strip()))
        except (ValueError, SyntaxError) as error:
            raise ValueError(f"line {number} is not a sharding rule: {line.strip()!r}") from error
    return table


def _with(found: Rules, more: Iterable[Cut | Pass | Keep]) -> Rules:
    more = tuple(more)
    return Rules((*found.cuts, *(one for one in more if isinstance(one, Cut))),
                 (*found.passes, *(one for one in more if isinstance(one, Pass))),
                 (*found.kept, *(name for one in more if isinstance(one, Keep) for name in one.members)))  # fmt: skip


def parse_line(text: str) -> list[Cut | Pass | Keep]:
    """Return the rules that a line of the table states. Raise ValueError if it states none."""
    body, _, where = text.partition(" where ")
    conditions = _conditions(where)
    left, arrow, right = body.partition(" -> ")
    kind, _, rest = left.partition(" ")
    if kind == "pass":
        reductions, _, names = rest.partition(" of ")
        results = _names(right) or ("alike",)
        if not reductions or not names:
            raise ValueError(f"not a sharding rule: {text!r}")
        return [Pass(_names(names), one, tuple(one if result == "alike" else result for result in results), conditions)
                for one in _names(reductions)]  # fmt: skip
    if kind == "keep" and rest and body == text and not arrow:
        return [Keep(_names(rest))]
    if not arrow or kind != "cut":
        raise ValueError(f"not a sharding rule: {text!r}")
    whole_parts = right.endswith(" no empty parts")
    right, _, partial = right.removesuffix(" no empty parts").partition(" with ")
    return [Cut(_names(rest), _names(right), conditions, _names(partial.removesuffix(" partial")), whole_parts)]


def _names(text: str) -> tuple[str, ...]:
    return tuple(one.strip() for one in text.split(",") if one.strip())


def _conditions(text: str) -> tuple[tuple[str, Any], ...]:
    if not text:
        return ()
    call = ast.parse(f"f({text})", mode="eval").body
    if not isinstance(call, ast.Call) or call.args:
        raise ValueError(f"not a list of properties: {text!r}")
    return tuple((str(one.arg), ast.literal_eval(one.value)) for one in call.keywords)


@lru_cache(maxsize=1)
def rules() -> dict[str, Rules]:
    """Return the table of the package by qualified name of the overload."""
    return parse_rules(FILE.read_text(encoding="utf-8"))


def rules_of(name: str) -> Rules:
    """Return the rules of an overload: those that are stated beside the operator, then those found by trying.

    The lines "no cuts" and "no passes" state that those found by trying do not hold, "gather" states both.
    """
    from metatensor._core.sharding import stated_rules

    stated, found = Rules(), rules().get(name, Rules())
    for text in stated_rules(name):
        if text in ("no cuts", "gather"):
            found = found._replace(cuts=())
        if text in ("no passes", "gather"):
            found = found._replace(passes=())
        if text not in ("no cuts", "no passes", "gather"):
            stated = _with(stated, parse_line(text))
    return _with(stated, (*found.cuts, *found.passes))


def all_rules() -> Iterator[tuple[str, Rules]]:
    """Yield the name and the rules of each overload that has any."""
    from metatensor._core.sharding import stated_names

    for name in sorted({*rules(), *stated_names()}):
        yield name, rules_of(name)
