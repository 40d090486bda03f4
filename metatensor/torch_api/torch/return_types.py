"""The named tuples that operators return. Each is found by calling its operator on the meta device."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import metatensor as mt

_ALONG = ("cummax", "cummin", "max", "median", "min", "mode", "nanmedian")
_OF_ONE = ("aminmax", "frexp", "geqrf", "histogram", "qr", "slogdet", "sort", "svd")
_LINALG = ("cholesky_ex", "eig", "eigh", "inv_ex", "ldl_factor", "ldl_factor_ex", "lu", "lu_factor", "lu_factor_ex", "qr", "slogdet", "svd")
_OF_TWO = ("lstsq", "solve_ex")


def _cases() -> dict[str, Callable[[Any], Any]]:
    """Return, by name, functions that call an operator with a square matrix."""

    def calls(functions: dict[str, Any], *more: Any) -> dict[str, Callable[[Any], Any]]:
        return {name: partial(_with, call, more) for name, call in functions.items() if call is not None}

    linalg: dict[str, Any] = {name: getattr(mt.linalg, name, None) for name in (*_LINALG, *_OF_TWO)}
    return (
        calls({name: getattr(mt, name, None) for name in _OF_ONE})
        | calls({name: getattr(mt, name, None) for name in _ALONG}, 0)
        | calls({name: getattr(mt, name, None) for name in ("kthvalue", "topk")}, 1)
        | calls({f"linalg_{name}": linalg[name] for name in _LINALG})
        | {f"linalg_{name}": partial(_with_itself, linalg[name]) for name in _OF_TWO if linalg[name] is not None}
        | {
            "lu_unpack": lambda a: mt.lu_unpack(a, mt.empty(2, dtype=mt.int32, device="meta")),
            "triangular_solve": lambda a: mt.triangular_solve(a, a),
        }
    )


def _with(call: Callable[..., Any], more: tuple[Any, ...], a: Any) -> Any:
    return call(a, *more)


def _with_itself(call: Callable[..., Any], a: Any) -> Any:
    return call(a, a)


def __getattr__(name: str) -> type:
    call = _cases().get(name)
    if call is None:
        raise AttributeError(f"module 'torch.return_types' has no attribute {name!r}")
    found = type(call(mt.empty(2, 2, device="meta")))
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(_cases())
