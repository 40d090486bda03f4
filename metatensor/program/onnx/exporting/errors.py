"""The error of an export."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ExportError", "Unsupported"]


_RANDOM = ("rand", "rand_like", "bernoulli", "bernoulli_", "native_dropout", "nn.functional.dropout", "dropout", "rrelu")
"""Random operators of training mode."""


class Unsupported(NamedTuple):
    """A call that cannot be exported."""

    operator: str
    """Name of the operator."""
    place: tuple[str, int] | None
    """The file and the line that made the call."""
    why: str
    """Why it cannot be exported, or "" if there is no conversion."""


class ExportError(ValueError):
    """Raised if a program has no ONNX model. The message lists every operator that prevents the export, with its source lines.

    Attributes
    ----------
    unsupported : list of Unsupported
        The calls that cannot be exported.
    """

    def __init__(self, message: str, unsupported: list[Unsupported] | None = None) -> None:
        super().__init__(message)
        self.unsupported = unsupported or []


def listed(name: str, found: list[Unsupported]) -> ExportError:
    """Return the error for calls that cannot be exported: a line for each operator and reason."""
    by_kind: dict[tuple[str, str], list[str]] = {}
    for one in found:
        places = by_kind.setdefault((one.operator, one.why), [])
        place = "an unknown place" if one.place is None else f"{one.place[0]}:{one.place[1]}"
        if place not in places:
            places.append(place)
    lines = []
    for (operator, why), places in by_kind.items():
        more = f" and {len(places) - 3} other places" if len(places) > 3 else ""
        lines.append(f"  {operator}{f' ({why})' if why else ''} at {', '.join(places[:3])}{more}")
    operators = ", ".join(sorted({one.operator for one in found}))
    advice = f"Replace them in the model, or pass to_onnx() conversions of {operators} (docs/onnx-export.md, What cannot be exported)."
    if any(one.operator in _RANDOM for one in found):
        advice += " Dropout and other random numbers of training are gone after model.eval()."
    return ExportError(f"{name}: these calls cannot be converted to ONNX:\n" + "\n".join([*lines, advice]), found)
