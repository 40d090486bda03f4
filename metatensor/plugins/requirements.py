"""Check of the version of metatensor that an installed distribution requires."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["unmet"]

_NAME = re.compile(r"\s*(?P<name>[A-Za-z0-9][\w.-]*)\s*(?:\[[^]]*\])?\s*\(?(?P<clauses>[^;)]*)\)?\s*(?:;.*)?")
_CLAUSE = re.compile(r"\s*(?P<sign>~=|==|!=|<=|>=|<|>)\s*(?P<version>[\w.*+!-]+)\s*")


def unmet(distribution: Any, name: str, version: str) -> str:
    """Return the distribution's requirement on the package ``name``, or "" if it has none or ``version`` meets it.

    Only release numbers are compared. A requirement that cannot be parsed counts as met.
    """
    for text in getattr(distribution, "requires", None) or ():
        match = _NAME.fullmatch(text)
        if match is None or re.sub(r"[-_.]+", "-", match["name"]).lower() != name or "extra" in text.partition(";")[2]:
            continue
        for clause in filter(str.strip, match["clauses"].split(",")):
            parts = _CLAUSE.fullmatch(clause)
            if parts is not None and not _meets(_release(version), parts["sign"], parts["version"]):
                return f"{match['name']}{match['clauses'].strip()}"
    return ""


def _release(version: str) -> tuple[int, ...]:
    """Return the release numbers without trailing zeros: (1, 2) for 1.2.0rc1."""
    match = re.match(r"(?:\d+!)?(\d+(?:\.\d+)*)", version)
    numbers = [int(part) for part in match[1].split(".")] if match else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def _meets(have: tuple[int, ...], sign: str, wanted: str) -> bool:
    if wanted.endswith(".*"):
        prefix = tuple(int(part) for part in wanted[:-2].split(".") if part.isdigit())
        alike = (have + (0,) * len(prefix))[: len(prefix)] == prefix
        return alike if sign == "==" else not alike
    other = _release(wanted)
    if sign == "~=":
        kept = len(re.split(r"\.", wanted)) - 1
        return have >= other and (have + (0,) * kept)[:kept] == (other + (0,) * kept)[:kept]
    return {"==": have == other, "!=": have != other, "<=": have <= other, ">=": have >= other, "<": have < other, ">": have > other}[sign]
