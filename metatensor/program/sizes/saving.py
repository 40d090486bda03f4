"""Files of programs with named sizes: program files with expressions and conditions. See docs/sizes.md."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from metatensor.program import saving
from metatensor.program.encoding import Malformed
from metatensor.program.program import Program
from metatensor.program.sizes.dims import ranges_of
from metatensor.program.sizes.expressions import Expression, ExpressionError, Real, names_in, parse
from metatensor.program.sizes.guards import Guard, parse_guard
from metatensor.program.sizes.numbers import taken
from metatensor.program.sizes.pieces import Piece, Refused
from metatensor.program.sizes.program import SizedProgram

__all__ = ["rebuilt", "save"]

_PIECES, _EXPRESSIONS, _GUARDS, _CHARACTERS = 64, 100_000, 10_000, 10_000_000
"""Maximum pieces, expressions, conditions of a piece, and characters of all expressions in a file."""

Reading = Callable[[str], Program]


def save(
    program: SizedProgram, f: Any, *, parameters: bool = True, extra: Mapping[str, bytes | str] | None = None
) -> None:
    """Save a program with named sizes. See `Program.save`; `extra` has further members of the file."""
    texts: dict[Any, int] = {}
    members: dict[str, bytes] = {}
    pieces = []
    for i, piece in enumerate(program.pieces):
        prefix = f"piece{i}/" if i else ""
        numbers = [[at, texts.setdefault(e, len(texts))] for at, e in sorted(piece.expressions.items())]
        paths = [[str(guard) for guard in path] for path in piece.paths]
        pieces.append({"member": prefix, "bounds": [str(guard) for guard in piece.bounds], "paths": paths, "numbers": numbers})
        if i:
            head, lines = saving.described(piece.taken.program)
            members[prefix + saving.HEAD] = json.dumps(head).encode()
            members[prefix + saving.CALLS] = "\n".join(lines).encode()
    sizes = {
        "sizes": {name: [r.start, r.stop, r.step] for name, r in program.sizes.items()}, "expressions": [str(e) for e in texts],
        "pieces": pieces, "refused": [[[str(g) for g in one.guards], one.error] for one in program.refused], "confirmed": program.confirmed,
    }  # fmt: skip
    members[saving.SIZES] = json.dumps(sizes).encode()
    base = program.pieces[0].taken.program.replace(tensors=program.tensors)
    saving.save(base, f, parameters=parameters, extra=extra, members=members)


# Reading ---------------------------------------------------------------------------------------------------


def rebuilt(content: Any, first: Program, other: Reading) -> SizedProgram:
    """Rebuild a program with named sizes from JSON. ``other(prefix)`` reads a further program. Its tensors are missing."""
    if not isinstance(content, dict):
        raise Malformed(f"{saving.SIZES} must be an object")
    ranges = _ranges(content.get("sizes"))
    expressions = _expressions(content.get("expressions"), ranges)
    rows = content.get("pieces")
    if not isinstance(rows, list) or not 0 < len(rows) <= _PIECES:
        raise Malformed(f"'pieces' of {saving.SIZES} must be a list of at most {_PIECES}")
    pieces = []
    for i, row in enumerate(rows):
        if not isinstance(row, dict) or row.get("member") != (f"piece{i}/" if i else ""):
            raise Malformed(f"piece {i} of {saving.SIZES} is malformed")
        pieces.append(_piece(row, first if not i else other(row["member"]), expressions, ranges))
    refused = content.get("refused")
    if not isinstance(refused, list) or not all(isinstance(r, list) and len(r) == 2 and isinstance(r[1], str) for r in refused):
        raise Malformed(f"'refused' of {saving.SIZES} is malformed")
    confirmed = content.get("confirmed")
    if type(confirmed) is not int:
        raise Malformed(f"'confirmed' of {saving.SIZES} must be a number")
    return SizedProgram(ranges, pieces, [Refused(tuple(_guards(r[0], ranges)), r[1]) for r in refused], {}, confirmed, {})


def _ranges(given: Any) -> dict[str, range]:
    if not isinstance(given, dict):
        raise Malformed(f"'sizes' of {saving.SIZES} must be an object")
    made = {}
    for name, row in given.items():
        if not isinstance(row, list) or len(row) != 3 or not all(type(n) is int and 0 <= n < 1 << 62 for n in row) or not row[2]:
            raise Malformed(f"the range of the size {name!r:.60} is malformed")
        made[name] = range(*row)
    try:
        return ranges_of(made)
    except (TypeError, ValueError) as error:
        raise Malformed(str(error)) from None


def _known(value: Any, ranges: Mapping[str, range]) -> Any:
    for name in names_in(value):
        if name not in ranges:
            raise Malformed(f"an expression has the name {name!r:.60}, which is not a size")
    return value


def _expressions(given: Any, ranges: Mapping[str, range]) -> list[Any]:
    if not isinstance(given, list) or len(given) > _EXPRESSIONS or not all(isinstance(text, str) for text in given):
        raise Malformed(f"'expressions' of {saving.SIZES} must be at most {_EXPRESSIONS:,} texts")
    if sum(map(len, given)) > _CHARACTERS:
        raise Malformed(f"'expressions' of {saving.SIZES} has more than {_CHARACTERS:,} characters")
    try:
        return [_known(parse(text), ranges) for text in given]
    except ExpressionError as error:
        raise Malformed(str(error)) from None


def _guards(given: Any, ranges: Mapping[str, range]) -> list[Guard]:
    if not isinstance(given, list) or len(given) > _GUARDS or not all(isinstance(text, str) for text in given):
        raise Malformed(f"conditions in {saving.SIZES} must be at most {_GUARDS:,} texts")
    try:
        found = [parse_guard(text) for text in given]
    except ExpressionError as error:
        raise Malformed(str(error)) from None
    for guard in found:
        _known(guard.left, ranges)
        _known(guard.right, ranges)
    return found


def _piece(row: dict[str, Any], program: Program, expressions: list[Any], ranges: Mapping[str, range]) -> Piece:
    made = Piece(taken(program), [])
    made.bounds = _guards(row.get("bounds"), ranges)
    paths, numbers = row.get("paths"), row.get("numbers")
    if not isinstance(paths, list) or not isinstance(numbers, list) or len(paths) > _GUARDS:
        raise Malformed(f"a piece of {saving.SIZES} is malformed")
    made.paths = [tuple(_guards(path, ranges)) for path in paths]
    for pair in numbers:
        if not isinstance(pair, list) or len(pair) != 2 or not all(type(n) is int for n in pair):
            raise Malformed(f"a number of {saving.SIZES} is malformed: {str(pair)[:40]}")
        at, index = pair
        if not 0 <= at < len(made.taken.numbers) or not 0 <= index < len(expressions):
            raise Malformed(f"there is no number {at}, or no expression {index}")
        kind = {int: Expression, float: Real}.get(type(made.taken.numbers[at]))
        if kind is None or type(expressions[index]) is not kind:
            raise Malformed(f"number {at} cannot be {str(expressions[index])[:60]!r}")
        made.expressions[at] = expressions[index]
    return made

