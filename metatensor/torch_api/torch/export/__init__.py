"""Export of modules as graphs of operators. Sizes are fixed, except those that `dynamic_shapes` names."""

from __future__ import annotations

from typing import Any, ClassVar

from metatensor._core.absent import functions, kinds
from metatensor._core.lazy import attributes

__all__ = ["AdditionalInputs", "CustomDecompTable", "Dim", "ExportGraphSignature", "ExportedProgram", "ModuleCallEntry",
           "ModuleCallSignature", "ShapesCollection", "UnflattenedModule", "default_decompositions", "dims", "draft_export",
           "export", "load", "register_dataclass", "save", "unflatten"]  # fmt: skip

# Loaded on first access: most importers need the names only.
__getattr__, __dir__ = attributes(
    __name__, ("_saving", "_trace", "decomp_utils", "dynamic_shapes", "exported_program", "graph_signature"),
    {"ExportGraphSignature": f"{__name__}.graph_signature:ExportGraphSignature", "export": f"{__name__}._trace:export",
     "load": f"{__name__}._saving:load", "save": f"{__name__}._saving:save"}
    | {name: f"{__name__}.exported_program:{name}" for name in (
        "ExportedProgram", "ModuleCallEntry", "ModuleCallSignature", "default_decompositions")},
)  # fmt: skip

_WHY = "exported programs of metatensor are not nested"


class _DimHint:
    """A hint for how export should treat a dimension."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"DimHint({self.name})"


class Dim:
    """A named dimension of a dynamic shape, with bounds. Expressions such as ``2 * dim + 1`` are derived dimensions.

    Parameters
    ----------
    name : str
        An identifier.
    min, max : int, optional
        Bounds. Default: 0 and no upper bound.

    Raises
    ------
    AssertionError
        If `max` is not larger than `min`, or `name` is not an identifier.

    Examples
    --------
    >>> from metatensor.torch_api.torch.export import Dim
    >>> 2 * Dim("n", min=1, max=8)
    Dim('2*n', min=2, max=16)
    """

    AUTO: ClassVar[_DimHint] = _DimHint("AUTO")
    DYNAMIC: ClassVar[_DimHint] = _DimHint("DYNAMIC")
    STATIC: ClassVar[_DimHint] = _DimHint("STATIC")

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        low = 0 if min is None else min
        if max is not None and max <= low:
            raise AssertionError(f"Dim: max must be larger than min, got min={low} and max={max}")
        if not name.isidentifier():
            raise AssertionError(f"Dim: the name must be an identifier, got {name!r}")
        self.__name__, self.min, self.max = name, low, max
        self._root = self

    def _derived(self, name: str, min: int, max: int | None) -> Dim:
        made = object.__new__(Dim)
        made.__name__, made.min, made.max, made._root = name, min, max, self._root
        return made

    def __add__(self, other: int) -> Dim:
        return self._derived(f"{self.__name__} + {_int(other)}", self.min + other, None if self.max is None else self.max + other)

    def __sub__(self, other: int) -> Dim:
        return self._derived(f"{self.__name__} - {_int(other)}", self.min - other, None if self.max is None else self.max - other)

    def __mul__(self, other: int) -> Dim:
        if _int(other) <= 0:
            raise NotImplementedError(f"Dim: the factor must be positive, got {other}")
        inner = self.__name__ if self is self._root else f"({self.__name__})"
        return self._derived(f"{other}*{inner}", self.min * other, None if self.max is None else self.max * other)

    __radd__, __rmul__ = __add__, __mul__

    def __repr__(self) -> str:
        bounds = [f"min={self.min}"] if self.min else []
        bounds += [] if self.max is None else [f"max={self.max}"]
        return f"Dim({', '.join([repr(self.__name__), *bounds])})"


def _int(value: Any) -> int:
    if not isinstance(value, int):
        raise NotImplementedError(f"Dim: only ints can be added or multiplied, got {type(value).__name__}")
    return value


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Return a `Dim` for each name."""
    return tuple(Dim(name, min=min, max=max) for name in names)


_functions = functions("export", "draft_export register_dataclass unflatten", _WHY)
draft_export, register_dataclass, unflatten = _functions["draft_export"], _functions["register_dataclass"], _functions["unflatten"]

_classes = kinds("export", "AdditionalInputs CustomDecompTable ShapesCollection UnflattenedModule", _WHY)
AdditionalInputs, CustomDecompTable = _classes["AdditionalInputs"], _classes["CustomDecompTable"]
ShapesCollection, UnflattenedModule = _classes["ShapesCollection"], _classes["UnflattenedModule"]
