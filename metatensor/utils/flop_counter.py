"""``torch.utils.flop_counter``: FLOP counts as on PyTorch's meta device.

PyTorch decomposes operators and counts what remains: matrix products, convolutions and attention. It does not count
in-place variants, or products of a vector with a matrix or a vector. metatensor computes some of these operators
(`linear`, `lstm`) as a whole, so they are counted as the products given by `metatensor.utils._products`.
`metatensor.rules.flops` has the formulas of metatensor's own counts.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cache, wraps
from math import prod
from typing import Any

import metatensor as mt
from metatensor._core.modes import DispatchMode
from metatensor._core.op import Op
from metatensor.overloads import OpOverloadPacket as Packet
from metatensor.overloads import packet
from metatensor.overloads.names import aten_names
from metatensor.rules.flops import FLOPS
from metatensor.utils._products import PRODUCTS
from metatensor.utils.module_tracker import ModuleTracker

__all__ = ["FlopCounterMode", "register_flop_formula"]


# Formulas, as functions of shapes --------------------------------------------------------------------------------------


def get_shape(i: Any) -> Any:
    """Return the shape of a tensor, and any other value as it is."""
    return i.shape if isinstance(i, mt.Tensor) else i


def _shapes(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shapes(part) for key, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_shapes(part) for part in value)
    return get_shape(value)


def shape_wrapper(f: Callable[..., int]) -> Callable[..., int]:
    """Convert a formula of shapes into one of tensors. The shape of the result is passed as `out_shape`."""

    @wraps(f)
    def of_tensors(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
        return f(*_shapes(args), out_shape=_shapes(out_val), **_shapes(kwargs))

    return of_tensors


def mm_flop(a_shape: Any, b_shape: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """Return the FLOPs of a matrix product, (m, k) x (k, n)."""
    (m, k), (k2, n) = a_shape, b_shape
    if k != k2:
        raise AssertionError(f"mm: the shapes {tuple(a_shape)} and {tuple(b_shape)} cannot be multiplied")
    return 2 * m * n * k


def addmm_flop(self_shape: Any, a_shape: Any, b_shape: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """Return the FLOPs of a matrix product. The addition is not counted."""
    return mm_flop(a_shape, b_shape)


def bmm_flop(a_shape: Any, b_shape: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """Return the FLOPs of a batched matrix product, (b, m, k) x (b, k, n)."""
    if a_shape[0] != b_shape[0]:
        raise AssertionError(f"bmm: the shapes {tuple(a_shape)} and {tuple(b_shape)} cannot be multiplied")
    return a_shape[0] * mm_flop(a_shape[1:], b_shape[1:])


def baddbmm_flop(self_shape: Any, a_shape: Any, b_shape: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """Return the FLOPs of a batched matrix product. The addition is not counted."""
    return bmm_flop(a_shape, b_shape)


def conv_flop_count(x_shape: Any, w_shape: Any, out_shape: Any, transposed: bool = False) -> int:
    """Return the FLOPs of a convolution with input (N, C, ...).

    Each element of the weight counts twice for every position of the result, or of the input if `transposed`.
    """
    places = (x_shape if transposed else out_shape)[2:]
    return 2 * x_shape[0] * prod(places) * prod(w_shape)


def conv_flop(
    x_shape: Any,
    w_shape: Any,
    _bias: Any,
    _stride: Any,
    _padding: Any,
    _dilation: Any,
    transposed: bool,
    *args: Any,
    out_shape: Any = None,
    **kwargs: Any,
) -> int:
    """Return the FLOPs of a convolution, without its bias."""
    return conv_flop_count(x_shape, w_shape, out_shape, transposed)


def conv_backward_flop(
    grad_out_shape: Any,
    x_shape: Any,
    w_shape: Any,
    _bias: Any,
    _stride: Any,
    _padding: Any,
    _dilation: Any,
    transposed: bool,
    _output_padding: Any,
    _groups: int,
    output_mask: Any,
    out_shape: Any = None,
) -> int:
    """Return the FLOPs of the gradients of a convolution. `output_mask` states which of input and weight get one.

    As in PyTorch, groups are ignored for the weight's gradient: all pairs of an input and an output channel are
    counted.
    """
    small = x_shape if transposed else grad_out_shape
    total = 0
    if output_mask[0]:
        total += conv_flop_count(grad_out_shape, w_shape, x_shape, not transposed)
    if output_mask[1]:
        total += 2 * x_shape[0] * prod(small[2:]) * x_shape[1] * grad_out_shape[1] * prod(w_shape[2:])
    return total


def sdpa_flop_count(query_shape: Any, key_shape: Any, value_shape: Any) -> int:
    """Return the FLOPs of attention with shapes (B, H, L, E), (B, H', S, E) and (B, H', S, V), where H' divides H.

    They are those of the two matrix products, 2 B H L S (E + V).
    """
    b, heads, length, width = query_shape
    b2, key_heads, source, width2 = key_shape
    b3, value_heads, source2, value_width = value_shape
    if not (b == b2 == b3 and key_heads == value_heads and width == width2 and source == source2):
        raise AssertionError(f"sdpa_flop_count: {query_shape}, {key_shape} and {value_shape} do not match")
    if heads < key_heads or heads % key_heads:
        raise AssertionError(f"sdpa_flop_count: {heads} query heads are not a multiple of {key_heads} key heads")
    return 2 * b * heads * length * source * (width + value_width)


def sdpa_flop(query_shape: Any, key_shape: Any, value_shape: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """Return the FLOPs of fused attention. A causal mask does not reduce them."""
    return sdpa_flop_count(query_shape, key_shape, value_shape)


def sdpa_backward_flop(
    grad_out_shape: Any, query_shape: Any, key_shape: Any, value_shape: Any, *args: Any, out_shape: Any = None, **kwargs: Any
) -> int:
    """Return the FLOPs of the gradients of fused attention: the scores again, and two products for the gradients of each product."""
    b, heads, length, width = query_shape
    once = 2 * b * heads * length * key_shape[2]
    return 2 * sdpa_flop_count(query_shape, key_shape, value_shape) + once * width


_FORMULAS: dict[str, Callable[..., int]] = {
    "mm": mm_flop,
    "addmm": addmm_flop,
    "bmm": bmm_flop,
    "baddbmm": baddbmm_flop,
    "_scaled_mm": mm_flop,
    "convolution": conv_flop,
    "convolution_backward": conv_backward_flop,
    "_scaled_dot_product_flash_attention": sdpa_flop,
    "_scaled_dot_product_flash_attention_backward": sdpa_backward_flop,
    "_scaled_dot_product_efficient_attention": sdpa_flop,
    "_scaled_dot_product_efficient_attention_backward": sdpa_backward_flop,
}

flop_registry: dict[Any, Callable[..., int]] = {packet("aten", name): shape_wrapper(f) for name, f in _FORMULAS.items()}
"""Formulas by operator, such as ``torch.ops.aten.mm``."""

_PARTS = {name: packet("aten", name) for name in _FORMULAS}


def _flat(targets: Any) -> Iterable[Any]:
    if isinstance(targets, (list, tuple, set)):
        for part in targets:
            yield from _flat(part)
    else:
        yield targets


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Return a decorator that registers a FLOP formula for one operator or several.

    Parameters
    ----------
    targets : operator, or nested lists of operators
        Operators such as ``torch.ops.mylib.foo``.
    get_raw : bool
        If False, the formula receives shapes instead of tensors, and the shape of the result as ``out_shape``. If True,
        it receives the tensors, and the result as ``out_val``. Default: False.

    Raises
    ------
    ValueError
        If a target is not an operator.
    RuntimeError
        If a target has a formula already.
    """

    def register(formula: Callable[..., int]) -> Callable[..., int]:
        function = formula if get_raw else shape_wrapper(formula)
        for target in _flat(targets):
            if not isinstance(target, (Op, Packet)):
                raise ValueError(f"register_flop_formula: expected operators such as torch.ops.mylib.foo, got {target!r}")
            if target in flop_registry:
                raise RuntimeError(f"register_flop_formula: {target} has a formula already")
            flop_registry[target] = function
        return function

    return register


# The table -------------------------------------------------------------------------------------------------------------

suffixes = ["", "K", "M", "B", "T"]


def get_suffix_str(number: int) -> str:
    """Return the suffix with which `number` is displayed, so that the decimal point follows two to four digits."""
    return suffixes[max(0, min(len(suffixes) - 1, (len(str(number)) - 2) // 3))]


def convert_num_with_suffix(number: int, suffix: str) -> str:
    """Return `number` in the given unit with three decimals, such as ``"1.500K"``."""
    return f"{number / 1000 ** suffixes.index(suffix):.3f}{suffix}"


def convert_to_percent_str(num: int, denom: int) -> str:
    """Return `num` as a percentage of `denom`, such as ``"12.50%"``, or ``"0%"`` if `denom` is 0."""
    return f"{num / denom:.2%}" if denom else "0%"


def _drawn(header: tuple[str, ...], rows: list[list[str]]) -> str:
    """Return a table with a header. The first column is aligned left, the others right."""
    widths = [max(len(title) + 2, *(len(row[at]) for row in rows)) for at, title in enumerate(header)]

    def line(cells: Iterable[str]) -> str:
        padded = [cell.rjust(width) if at else cell.ljust(width) for at, (cell, width) in enumerate(zip(cells, widths, strict=True))]
        return "  ".join(padded).rstrip()

    return "\n".join([line(header), "  ".join("-" * width for width in widths), *map(line, rows)])


# Counting --------------------------------------------------------------------------------------------------------------


@cache
def _packet(op: Any) -> Any:
    """Return the overload packet that PyTorch's dispatcher has for an operator, or the operator itself."""
    namespace, _, name = op.name.rpartition("::")
    try:
        return packet(namespace or "aten", name if namespace else aten_names(name)[0])
    except AttributeError:
        return op


class _Counting(DispatchMode):
    def __init__(self, counter: FlopCounterMode) -> None:
        self.counter = counter

    def dispatch(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        out = op(*args, **kwargs)
        self.counter._count(op, out, args, kwargs)
        return out


class FlopCounterMode:
    """Context manager that counts FLOPs by module and operator, and prints a table on exit.

    Parameters
    ----------
    mods : any, optional
        Ignored, with a warning.
    depth : int
        Depth to which the table lists submodules. Default: 2.
    display : bool
        Whether the table is printed on exit. Default: True.
    custom_mapping : dict, optional
        Additional formulas by operator, which replace registered ones. A formula receives shapes, or tensors if it has
        a true attribute ``_get_raw``. See `register_flop_formula`.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.utils.flop_counter import FlopCounterMode
    >>> layer = mt.nn.Linear(512, 512, device="meta")
    >>> with FlopCounterMode(display=False) as counter:
    ...     _ = layer(mt.empty(8, 512, device="meta"))
    >>> counter.get_total_flops()
    4194304
    """

    def __init__(
        self, mods: Any = None, depth: int = 2, display: bool = True, custom_mapping: dict[Any, Callable[..., int]] | None = None
    ) -> None:
        if mods is not None:
            warnings.warn("FlopCounterMode: mods is not needed and ignored", stacklevel=2)
        self.flop_counts: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
        self.depth = depth
        self.display = display
        self.mode: _Counting | None = None
        self.mod_tracker = ModuleTracker()
        own = (custom_mapping or {}).items()
        self.flop_registry = flop_registry | {
            target: formula if getattr(formula, "_get_raw", False) else shape_wrapper(formula) for target, formula in own
        }

    def get_total_flops(self) -> int:
        """Return the number of FLOPs counted in total."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """Return the counts by module name and then by operator. The entry "Global" has the totals."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """Return the counts as a table, with submodules down to `depth`."""
        depth = self.depth if depth is None else depth
        total = self.get_total_flops()
        unit = get_suffix_str(total)

        def shown(count: int) -> str:
            return convert_num_with_suffix(count, unit) if unit else str(count)

        def part(name: str, indent: str) -> list[list[str]]:
            counts = self.flop_counts[name]
            lines = [(name, sum(counts.values())), *((f" - {op}", count) for op, count in counts.items())]
            return [[indent + text, shown(count), convert_to_percent_str(count, total)] for text, count in lines]

        rows: list[list[str]] = []
        in_modules = False
        for name in sorted(self.flop_counts):
            level = name.count(".")
            if name != "Global" and (depth is None or level < depth):
                rows += part(name, " " * level)
                in_modules |= sum(self.flop_counts[name].values()) >= total
        if "Global" in self.flop_counts and not in_modules:
            rows = part("Global", "") + [[" " + name, *rest] for name, *rest in rows]
        return _drawn(("Module", "FLOP", "% Total"), rows or [["Global", "0", "0%"]])

    def __enter__(self) -> FlopCounterMode:
        self.flop_counts.clear()
        self.mod_tracker.__enter__()
        self.mode = _Counting(self)
        self.mode.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        mode, self.mode = self.mode, None
        if mode is None:
            raise AssertionError("FlopCounterMode: exited without having been entered")
        for part in (mode, self.mod_tracker):
            part.__exit__(*error)
        if self.display:
            print(self.get_table())

    def _count(self, op: Any, out: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        products = PRODUCTS.get(op.name)
        if products is not None:
            kwargs = {name: value for name, value in kwargs.items() if name != "generator"}
            for name, shapes, shape in products(out, *args, **kwargs):
                self._add(_PARTS[name], self.flop_registry[_PARTS[name]](*shapes, out_val=shape))
            return
        formula = self.flop_registry.get(_packet(op)) or self.flop_registry.get(op)
        if formula is not None:
            self._add(_packet(op), formula(*args, **kwargs, out_val=out))
        elif "::" in op.name and op.name in FLOPS:
            self._add(_packet(op), FLOPS[op.name](out, *args, **kwargs))

    def _add(self, target: Any, count: int) -> None:
        for name in self.mod_tracker.parents:
            self.flop_counts[name][target] += count
