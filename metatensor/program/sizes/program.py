"""`SizedProgram`: a program in which sizes have names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import metatensor as mt
from metatensor._core.tensor import Tensor
from metatensor.program.program import Program
from metatensor.program.running import matched
from metatensor.program.sizes.dims import pairs, range_text, solved
from metatensor.program.sizes.expressions import Expression, ExpressionError, Real, RealSize, Size, linear, names_in
from metatensor.program.sizes.finding import Finder
from metatensor.program.sizes.guards import Guard
from metatensor.program.sizes.numbers import filled
from metatensor.program.sizes.pieces import Piece, Refused, sizes_text

__all__ = ["Size", "SizedProgram", "found"]

_KEPT = 8
"""Programs with fixed sizes that are kept for further runs."""


def _shown(value: Any, expression: Any) -> Any:
    if isinstance(expression, Expression):
        return Size(value, expression)
    if isinstance(expression, Real):
        return RealSize(value, expression)
    return value


class SizedProgram(Program):
    """A program that runs at any sizes within ranges. `trace` with `sizes` makes one.

    Its attributes are those of the program at the sizes of the sample, but its numbers are `Size` objects, which print as
    expressions. `at` returns the program at other sizes. Passes take programs with fixed sizes; `map` applies one at all sizes.

    Attributes
    ----------
    sizes : dict of range
        The sizes that each name may have.
    guards : list of Guard
        The conditions under which the calls are those that are listed.
    pieces : list of Piece
        Programs with other calls, for other sizes, each with its conditions. The first is the one that is listed.
    refused : list of Refused
        Conditions under which the callable raised, and its errors.
    places : dict
        The file and the line at which the code compares, for conditions where that is known.
    confirmed : int
        At how many sizes, which were not used to find the expressions, the program was compared with a trace.
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
            modules=shown.modules, reads=shown.reads, default_dtype=shown.default_dtype,
        )  # fmt: skip
        self._at: dict[tuple[int, ...], Program] = {}

    @property
    def guards(self) -> list[Guard]:
        """The conditions under which the calls are those that are listed."""
        first = self.pieces[0]
        return [*first.bounds, *(first.paths[0] if len(first.paths) == 1 else ())]

    @property
    def parts(self) -> list[Program]:
        """The programs for different sizes, each at the sizes of one capture."""
        return [piece.taken.program for piece in self.pieces]

    def conditions(self) -> list[str]:
        """Return a line of text for the conditions of each piece, and of each error of the callable."""
        lines = []
        for i, piece in enumerate(self.pieces):
            texts = [" and ".join(map(str, path)) for path in piece.paths]
            either = [] if not texts or "" in texts else texts if len(texts) == 1 else [f"({' or '.join(f'({t})' for t in texts)})"]
            what = "these calls" if not i else f"another program of {len(piece.taken.program.calls)} calls"
            lines.append(f"{' and '.join([*map(str, piece.bounds), *either]) or 'all sizes'}: {what}")
        lines += [f"{' and '.join(map(str, one.guards)) or 'some sizes'}: {one.error}" for one in self.refused]
        return list(dict.fromkeys(lines))

    def sizes_of(self, *args: Any, **kwargs: Any) -> dict[str, int]:
        """Return the size of each name in arguments.

        Raises
        ------
        ValueError
            If the arguments do not have such sizes, or one is not in its range.
        """
        given = [pair for wanted, got in zip(self.arguments, (args, kwargs), strict=True) for pair in pairs(wanted, got)]
        equations = [(n.expression, m, where) for n, m, where in given if isinstance(n, Size)]
        if not {name for expression, _, _ in equations for name in names_in(expression)}.issuperset(self.sizes):
            matched(self, args, kwargs)  # raises if there are other arguments, or tensors of another rank
        return self._checked(solved(equations, self.sizes))

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
        """Return why there is no program at sizes."""
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
        """Return the program that a pass makes of this one at all sizes.

        Parameters
        ----------
        function : callable
            Takes and returns a program with fixed sizes, such as `mt.program.dead_code`.

        Raises
        ------
        RuntimeError
            If what it returns does not have sizes that are expressions of the names.
        """
        def make(sizes: dict[str, int], notes: Any = None, expressions: Any = None) -> Program:
            if notes is not None:  # the result differs where this program does
                piece = next((piece for piece in self.pieces if piece.holds(sizes)), self.pieces[0])
                path = next((path for path in piece.paths if all(guard(sizes) for guard in path)), ())
                notes.guards.update({guard: self.places.get(guard) for guard in (*piece.bounds, *path)})
            return function(self.at(**sizes))

        return found(make, self.sizes, self._sample())

    def _sample(self) -> dict[str, int]:
        numbers = [(n.expression, int(n), where) for n, _, where in pairs(self.arguments, _samples(self.arguments)) if isinstance(n, Size)]
        return solved(numbers, self.sizes)

    def save(self, f: Any, *, parameters: bool = True) -> None:
        """Save the program, with its expressions and guards. See `Program.save`."""
        from metatensor.program.sizes.saving import save

        save(self, f, parameters=parameters)

    @property
    def code(self) -> str:
        """Python source of a function ``forward(tensors, ...)`` that does what is listed. ``exec`` runs it.

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
        if "sqrt(" in body or "log(" in body:
            head = "from math import log, sqrt\n\n" + head
        keywords = f", *, {', '.join(missing)}" if missing else ""
        return f"{head}{start}{parameters}{keywords}):\n" + "\n".join([*lines, body])

    def __str__(self) -> str:
        ranges = ", ".join(f"{name} in {range_text(sizes)}" for name, sizes in self.sizes.items())
        lines = [f"sizes: {ranges}", *(f"  {line}" for line in self.conditions())] if self.sizes else []
        return "\n".join([*lines, super().__str__()])

    def __repr__(self) -> str:
        return f"Sized{super().__repr__()[:-1]}, sizes={list(self.sizes)})"


def _inverse(expression: Expression, text: str) -> tuple[str, str] | None:
    """Return a name, and source for its size where an expression of it alone has the value of `text`. None if it is not linear."""
    found = linear(expression)
    if found is None:
        return None
    one, factor, rest = found
    text = text if not rest else f"({text} - {rest})" if rest > 0 else f"({text} + {-rest})"
    return one, text if factor == 1 else f"{text}//{factor}"


def _example(program: SizedProgram) -> str:
    return ", ".join(f"{name}=..." for name in program.sizes)


def _samples(arguments: Any) -> Any:
    """Return arguments of the shapes that the sample had."""
    from metatensor._core.capture import Value
    from metatensor.program.structure import mapped

    return mapped(lambda v: mt.empty([int(n) for n in v.shape], dtype=v.dtype, device="meta"), Value, arguments)


def _offsets(program: Program) -> set[int]:
    """Return the positions of offsets among the numbers of a program. A value keeps them as C ints."""
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
    """Return the program with named sizes that `make` gives at sizes. See `Finder`."""
    finder = Finder(make, tried or ranges, base, ranges)
    finder.run()
    pieces = sorted(finder.pieces, key=lambda piece: not piece.holds(base))
    for piece in pieces:
        piece.notes = {}
    return SizedProgram(ranges, pieces, finder.refused, finder.places, finder.confirmed)


def expressions(program: SizedProgram) -> Iterator[Any]:
    """Yield the expressions of all pieces, each once."""
    yield from dict.fromkeys(e for piece in program.pieces for e in piece.expressions.values() if list(names_in(e)))
