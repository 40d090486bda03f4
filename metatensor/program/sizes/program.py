"""`SizedProgram`: a program in which sizes have names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import metatensor as mt
from metatensor._core.tensor import Tensor
from metatensor.program.argument_names import by_position
from metatensor.program.program import Program
from metatensor.program.running import matched
from metatensor.program.sizes.dims import pairs, range_text, solved
from metatensor.program.sizes.expressions import MATH, Expression, ExpressionError, Real, RealSize, Size, linear, names_in
from metatensor.program.sizes.expressions import name as named
from metatensor.program.sizes.finding import Finder
from metatensor.program.sizes.guards import Guard
from metatensor.program.sizes.numbers import filled
from metatensor.program.sizes.pieces import Piece, Refused, SizesError, sizes_text

__all__ = ["Size", "SizedProgram", "found"]

_TRIED = 4096
"""Sizes of a name that are tried; more if that of the sample is greater."""
_KEPT = 8
"""Maximum number of cached programs with fixed sizes."""


def _shown(value: Any, expression: Any) -> Any:
    if isinstance(expression, Expression):
        return Size(value, expression)
    if isinstance(expression, Real):
        return RealSize(value, expression)
    return value


class SizedProgram(Program):
    """A program that runs at any sizes within ranges. Created by `trace` with `sizes`.

    Its attributes describe the program at the sizes of the sample, but its numbers are `Size` objects, printed as
    expressions. `at` returns the program at other sizes. Passes take programs with fixed sizes; `map` applies a pass at all sizes.

    Attributes
    ----------
    sizes : dict of range
        The sizes that each name may have.
    guards : list of Guard
        The conditions under which the listed calls apply.
    pieces : list of Piece
        The programs for different sizes, each with its conditions. The first is the listed one.
    refused : list of Refused
        Conditions under which the callable raised, and its errors.
    places : dict
        The file and line of the comparison behind a condition, if known.
    confirmed : int
        The number of sizes, not used to find the expressions, at which the program was compared with a trace.
    """

    def __init__(
        self, sizes: Mapping[str, range], pieces: list[Piece], refused: list[Refused], places: Mapping[Guard, str | None], confirmed: int,
        tensors: Mapping[str, Tensor] | None = None,
    ) -> None:  # fmt: skip
        self.sizes, self.pieces, self.refused, self.places, self.confirmed = dict(sizes), pieces, refused, dict(places), confirmed
        first = pieces[0]
        numbers = list(first.taken.numbers)
        shown = filled(first.taken.program, numbers)
        offsets = _offsets(shown)
        for at, expression in first.expressions.items():
            if at not in offsets:
                numbers[at] = _shown(numbers[at], expression)
        shown = filled(first.taken.program, numbers)
        super().__init__(
            shown.name, arguments=shown.arguments, output=shown.output, calls=shown.calls, held=shown.held, kinds=shown.kinds,
            tied=shown.tied, tensors=_tensors(pieces) if tensors is None else tensors, effects=shown.effects, releases=shown.releases,
            modules=shown.modules, reads=shown.reads, default_dtype=shown.default_dtype, names=shown.names,
        )  # fmt: skip
        self._at: dict[tuple[int, ...], Program] = {}
        self._given: list[Any] | None = None

    @property
    def guards(self) -> list[Guard]:
        """The conditions under which the listed calls apply."""
        first = self.pieces[0]
        return [*first.bounds, *(first.paths[0] if len(first.paths) == 1 else ())]

    @property
    def parts(self) -> list[Program]:
        """The programs for different sizes, each at the sizes of one capture."""
        return [piece.taken.program for piece in self.pieces]

    def conditions(self) -> list[str]:
        """Return a line of text for the conditions of each piece, and of each error of the callable.

        There is none for the only piece of a program that makes the same calls at all sizes.
        """
        lines = []
        for i, piece in enumerate(self.pieces):
            texts = [" and ".join(map(str, path)) for path in piece.paths]
            either = [] if not texts or "" in texts else texts if len(texts) == 1 else [f"({' or '.join(f'({t})' for t in texts)})"]
            count = len(piece.taken.program.calls)
            condition = " and ".join([*map(str, piece.bounds), *either])
            if condition or len(self.pieces) > 1:
                what = f"{'other' if i else 'listed'} call{'s' if count != 1 else ''}"
                lines.append(f"{condition or 'all sizes'}: {count if i else f'the {count}'} {what}")
        lines += [f"{' and '.join(map(str, one.guards)) or 'some sizes'}: {one.error}" for one in self.refused]
        return list(dict.fromkeys(lines))

    def sizes_of(self, *args: Any, **kwargs: Any) -> dict[str, int]:
        """Return the named sizes of arguments.

        Raises
        ------
        ValueError
            If the arguments do not determine the sizes, or a size is not in its range.
        """
        args, kwargs = by_position(self, args, kwargs)
        possible: list[dict[str, int]] = []
        failed: ValueError | None = None
        for piece, arguments in zip(self.pieces, self._arguments):
            given = [pair for wanted, got in zip(arguments, (args, kwargs), strict=True)
                     for pair in pairs(wanted, got, names=self.names if wanted is arguments[0] else ())]
            if any(not isinstance(n, Size) and n != m for n, m, _ in given):
                continue
            equations = [(n.expression, m, where) for n, m, where in given if isinstance(n, Size)]
            equations += [(guard.left, guard.right, str(guard)) for guard in piece.bounds
                          if guard.relation == "==" and isinstance(guard.left, Expression) and isinstance(guard.right, int)]  # fmt: skip
            equations += [(named(one), r[0], f"the only size {one}") for one, r in self.sizes.items() if len(r) == 1]
            try:
                found = solved(equations, self.sizes)
            except ValueError as error:
                if {one for expression, _, _ in equations for one in names_in(expression)}.issuperset(self.sizes):
                    failed = failed or error
                continue
            if piece.holds(found):
                return self._checked(found)
            possible.append(found)
        if possible:
            return self._checked(possible[0])
        if failed is None:
            matched(self, args, kwargs)  # raises if there are other arguments, or tensors of another rank
        raise failed or ValueError(f"{self.name}: there is no program for arguments of these sizes")

    @property
    def _arguments(self) -> list[Any]:
        """The arguments of each piece. Their sizes are `Size` objects where they are expressions."""
        if self._given is None:
            self._given = [self.arguments]
            for piece in self.pieces[1:]:
                numbers = [_shown(n, piece.expressions.get(at)) for at, n in enumerate(piece.taken.numbers)]
                for at in _offsets(piece.taken.program):
                    numbers[at] = piece.taken.numbers[at]
                self._given.append(filled(piece.taken.program, numbers).arguments)
        return self._given

    def _checked(self, sizes: Mapping[str, Any]) -> dict[str, int]:
        for name, given in sizes.items():
            if name not in self.sizes:
                raise ValueError(f"{self.name}: there is no size {name!r}; there are {', '.join(self.sizes)}")
            if not isinstance(given, int) or given not in self.sizes[name]:
                raise ValueError(f"{self.name}: the size {name}={given!r} is not in {range_text(self.sizes[name])}")
        for name in self.sizes:
            if name not in sizes:
                raise ValueError(f"{self.name}: the size {name!r} is missing")
        return {name: int(sizes[name]) for name in self.sizes}

    def at(self, **sizes: int) -> Program:
        """Return the program with fixed sizes. It equals what `trace` returns for arguments of these sizes.

        Parameters
        ----------
        **sizes : int
            The size of each name.

        Raises
        ------
        ValueError
            If a size is missing or not in its range, or no guards hold. The message names the guard that does not.
        """
        checked = self._checked(sizes)
        key = tuple(checked.values())
        made = self._at.get(key)
        if made is None:
            piece = next((piece for piece in self.pieces if piece.holds(checked)), None)
            if piece is None:
                raise ValueError(self._refusal(checked))
            try:
                made = filled(piece.taken.program, piece.numbers(checked))
            except (ExpressionError, OverflowError) as error:
                raise ValueError(f"{self.name}: {error}, at {sizes_text(checked)}") from None
            while len(self._at) >= _KEPT:
                self._at.pop(next(iter(self._at)))
            self._at[key] = made
        made = made.replace(tensors={name: self.tensors[name] for name in made.held if name in self.tensors})
        return made

    def _refusal(self, sizes: Mapping[str, int]) -> str:
        """Return why there is no program at the given sizes."""
        failed: list[str] = []
        for piece in self.pieces:
            for path in piece.paths or [()]:
                guard = next((guard for guard in [*piece.bounds, *path] if not guard(sizes)), None)
                if guard is not None:
                    place = self.places.get(guard)
                    failed.append(f"{guard}{'' if place is None else f' ({place})'}")
        raised = next((one.error for one in self.refused if one.guards and all(guard(sizes) for guard in one.guards)), None)
        why = f"; the callable raises {raised}" if raised else "; trace again for such sizes"
        return f"{self.name}: there is no program for {sizes_text(sizes)}: it needs {' or '.join(dict.fromkeys(failed[:4]))}{why}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program on arguments of any sizes within the ranges, and return what the callable would return.

        Raises
        ------
        TypeError, RuntimeError
            As a program with fixed sizes does.
        ValueError
            If the sizes are not in their ranges or do not meet the guards. The message names the guard.
        """
        program = self.at(**self.sizes_of(*args, **kwargs))
        made = program(*args, **kwargs)
        self.tensors.update(program.tensors)
        return made

    def replace(self, **changes: Any) -> Program:
        """Return a copy with other tensors. Other changes need fixed sizes.

        Raises
        ------
        TypeError
            If anything but `tensors` changes.
        """
        if set(changes) - {"tensors"}:
            raise TypeError(f"{self.name} has named sizes, and only its tensors can be replaced; change program.at({_example(self)}), "
                            "or use program.map() for a pass")  # fmt: skip
        return SizedProgram(self.sizes, self.pieces, self.refused, self.places, self.confirmed, changes.get("tensors", self.tensors))

    def map(self, function: Callable[[Program], Program]) -> SizedProgram:
        """Apply a pass at all sizes, and return the resulting program.

        Parameters
        ----------
        function : callable
            Takes and returns a program with fixed sizes, such as `mt.program.dead_code`.

        Raises
        ------
        RuntimeError
            If sizes in its results are not expressions of the names.
        """
        def make(sizes: dict[str, int], notes: Any = None, expressions: Any = None) -> Program:
            if notes is not None:  # the result has the same branches as this program
                piece = next((piece for piece in self.pieces if piece.holds(sizes)), self.pieces[0])
                path = next((path for path in piece.paths if all(guard(sizes) for guard in path)), ())
                notes.expressions.update(dict.fromkeys(piece.expressions.values()))
                notes.guards.update({guard: self.places.get(guard) for guard in (*piece.bounds, *path)})
            return function(self.at(**sizes))

        return found(make, self.sizes, self.sample(), self.tried())

    def shown_at(self, **sizes: int) -> Program:
        """Return the first piece at sizes, with numbers that are `Size` and `RealSize` objects where they are expressions."""
        first = self.pieces[0]
        numbers = first.numbers(self._checked(sizes))
        offsets = _offsets(first.taken.program)
        made = [n if at in offsets else _shown(n, first.expressions.get(at)) for at, n in enumerate(numbers)]
        return filled(first.taken.program, made).replace(tensors=self.tensors)

    def tried(self) -> dict[str, range]:
        """Return the sizes, without very large ones, at which it is enough to try something."""
        sample = self.sample()
        return {name: r[: max(_TRIED, 2 * (r.index(sample[name]) + 1))] for name, r in self.sizes.items()}

    def sample(self) -> dict[str, int]:
        """Return the sizes of the names at which the program is listed."""
        args, kwargs = _samples(self.pieces[0].taken.program.arguments)
        return self.sizes_of(*args, **kwargs)

    def save(self, f: Any, *, parameters: bool = True) -> None:
        """Save the program, with its expressions and guards. See `Program.save`."""
        from metatensor.program.sizes.saving import save

        save(self, f, parameters=parameters)

    @property
    def code(self) -> str:
        """Python source of a function ``forward(tensors, ...)`` that runs the listed calls. ``exec`` defines it.

        See `Program.code`. The function takes tensors of any sizes that meet `guards`, and raises ValueError for others. Sizes
        that no tensor has are keyword arguments.
        """
        from metatensor.program.printing import code, names_of

        names = names_of(self)
        known: dict[str, str] = {}
        for value in self.inputs:
            for dim, n in enumerate(value.shape):
                if isinstance(n, Size):
                    line = _inverse(n.expression, f"{names[value.number]}.shape[{dim}]")
                    if line is not None:
                        known.setdefault(*line)
        head, start, body = code(self).partition("def forward(")
        parameters, _, body = body.partition("):\n")
        missing = [name for name in self.sizes if name not in known]
        lines = [f"    {name} = {text}" for name, text in known.items()]
        first = self.pieces[0]
        texts = [" and ".join(guard.python() for guard in path) for path in first.paths]
        conditions = [*(guard.python() for guard in first.bounds), *([] if "" in texts else [" or ".join(f"({t})" for t in texts)])]
        conditions = [text for text in conditions if text]
        if conditions:
            lines += [f"    if not ({' and '.join(conditions)}):",
                      f"        raise ValueError({f'{self.name}: these calls need ' + ' and '.join(conditions)!r})"]  # fmt: skip
        used = sorted(one for one in MATH if re.search(rf"(?<![.\w]){one}\(", "\n".join([*lines, body])))
        if used:
            head = f"from math import {', '.join(used)}\n\n{head}"
        keywords = f", *, {', '.join(missing)}" if missing else ""
        return f"{head}{start}{parameters}{keywords}):\n" + "\n".join([*lines, body])

    def __str__(self) -> str:
        ranges = ", ".join(f"{name} in {range_text(sizes)}" for name, sizes in self.sizes.items())
        lines = [f"sizes: {ranges}", *(f"  {line}" for line in self.conditions())] if self.sizes else []
        return "\n".join([*lines, super().__str__()])

    def __repr__(self) -> str:
        return f"Sized{super().__repr__()[:-1]}, sizes={list(self.sizes)})"


def _inverse(expression: Expression, text: str) -> tuple[str, str] | None:
    """Return a name, and source code that computes its size from the value `text` of an expression in it. None if this is not linear."""
    found = linear(expression)
    if found is None:
        return None
    one, factor, rest = found
    text = text if not rest else f"({text} - {rest})" if rest > 0 else f"({text} + {-rest})"
    return one, text if factor == 1 else f"{text}//{factor}"


def _example(program: SizedProgram) -> str:
    return ", ".join(f"{name}=..." for name in program.sizes)


def _samples(arguments: Any) -> Any:
    """Return arguments with the shapes of the sample."""
    from metatensor._core.capture import Value
    from metatensor.program.structure import mapped

    return mapped(lambda v: mt.empty([int(n) for n in v.shape], dtype=v.dtype, device="meta"), Value, arguments)


def _offsets(program: Program) -> set[int]:
    """Return the positions of offsets among the numbers of a program. Values store them as C ints."""
    found, at = set(), 0
    for _, value in sorted(program.values.items()):
        found.add(at)
        at += 1 + 2 * len(value.shape)
    return found


def _tensors(pieces: list[Piece]) -> dict[str, Tensor]:
    """Return the tensors of all pieces. Constants of different pieces with the same name get different ones."""
    made: dict[str, Tensor] = {}
    for i, piece in enumerate(pieces):
        program = piece.taken.program
        renamed = {}
        for name, tensor in program.tensors.items():
            own = name
            if program.kinds[name] == "constant":
                own = next((n for n, t in made.items() if t is tensor), name if name not in made else f"{name}_{i}")
            renamed[name] = own
            made.setdefault(own, tensor)
        if any(name != own for name, own in renamed.items()):
            program = program.replace(
                held={renamed[name]: v for name, v in program.held.items()}, kinds={renamed[name]: k for name, k in program.kinds.items()},
                tensors={renamed[name]: t for name, t in program.tensors.items()},
            )  # fmt: skip
            piece.taken = piece.taken._replace(program=program)
    return made


def found(
    make: Callable[..., Program], ranges: Mapping[str, range], base: dict[str, int], tried: Mapping[str, range] | None = None
) -> SizedProgram:
    """Find the program with named sizes for a function `make` that returns the program at given sizes. See `Finder`."""
    finder = Finder(make, tried or ranges, base, ranges)
    try:
        finder.run()
    except ExpressionError as error:  # of an expression that the code computed at some sizes only
        raise SizesError(f"trace: {error}") from None
    pieces = sorted(finder.pieces, key=lambda piece: not piece.holds(base))
    for piece in pieces:
        piece.notes = {}
    return SizedProgram(ranges, pieces, finder.refused, finder.places, finder.confirmed)


def expressions(program: SizedProgram) -> Iterator[Any]:
    """Yield the expressions of all pieces, each once."""
    yield from dict.fromkeys(e for piece in program.pieces for e in piece.expressions.values() if list(names_in(e)))
