"""Stateless functions of layers, such as ``linear(x, weight, bias)``.

The functions are the operators that `metatensor.ops` and plugins declare as "nn.functional.*". Operators declared
after this module was imported are looked up on first access.

Examples
--------
>>> import metatensor as mt
>>> mt.nn.functional.linear(mt.empty(2, 8), mt.empty(4, 8)).shape
metatensor.Size([2, 4])
"""

from importlib import import_module
from typing import Any

from metatensor._core.op import namespace as _namespace
from metatensor._core.op import op_by_name as _op_by_name

globals().update(_namespace("nn.functional"))

# Python functions that are not operators. They are imported on first access because they need the layers.
_HELPERS = dict.fromkeys((
    "_canonical_mask", "_check_key_padding_mask", "_get_softmax_dim", "_in_projection", "_in_projection_packed", "_is_integer",
    "_list_with_default", "_mha_shape_check", "_no_grad_embedding_renorm_", "_none_or_dtype", "_pair", "_single", "_triple",
    "_unpool_output_size", "_verify_batch_size", "_verify_spatial_size", "assert_int_or_pair", "boolean_dispatch",
    "handle_torch_function", "has_torch_function", "has_torch_function_unary", "has_torch_function_variadic",
), "metatensor.nn._functional_helpers") | dict.fromkeys((
    "ScalingType", "SwizzleType", "scaled_grouped_mm", "scaled_mm",
), "metatensor.nn._scaled") | {"grad": "metatensor.nn"}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _HELPERS:
        found = globals()[name] = getattr(import_module(_HELPERS[name]), name)
        return found
    try:
        op = _op_by_name(f"nn.functional.{name}")
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    globals()[name] = op
    return op


def __dir__() -> list[str]:
    return sorted({*globals(), *_namespace("nn.functional"), *_HELPERS})
