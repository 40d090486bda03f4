"""What ``import torch`` gives: the operators and types of metatensor under PyTorch's names, and what else belongs there.

A name that is neither is an AttributeError.
"""

from __future__ import annotations as _annotations

import builtins as _builtins
import math as _math
from collections.abc import Callable as _Callable
from types import ModuleType as _ModuleType
from typing import Any as _Any

import metatensor as _mt
from metatensor._core.op import registry as _registry
from metatensor._core.thread import DisableTorchFunctionSubclass as _DisableTorchFunctionSubclass
from metatensor.torch_api._lazy import attributes as _attributes
from metatensor.torch_api.torch import _settings, _typed
from metatensor.torch_api.torch.torch_version import TORCH_VERSION as __version__  # noqa: F401

# What metatensor has under its own name, or under the same name for another thing.
_OWN = {
    "DataDependentError", "DispatchMode", "Spec", "analysis", "autograd", "checkpoint", "devices", "library", "load", "op",
    "ops", "plugins", "random", "rules", "testing",
}  # fmt: skip

# The in-place operators that are functions in PyTorch; the others are methods only.
_IN_PLACE = frozenset(
    name + "_"
    for name in (
        "abs acos acosh addmv alpha_dropout arccos arccosh arcsin arcsinh arctan arctanh as_strided asin asinh atan atanh "
        "ceil celu clamp clamp_max clamp_min clip conj_physical cos cosh deg2rad detach dropout embedding_renorm erf erfc "
        "exp exp2 expm1 feature_alpha_dropout feature_dropout fill fix floor frac gcd i0 index_put lcm ldexp log log10 "
        "log1p log2 logit nan_to_num neg negative rad2deg reciprocal relu resize_as round rrelu rsqrt selu sigmoid sin "
        "sinc sinh sqrt square tan tanh threshold trunc xlogy zero"
    ).split()
)

_PRIVATE = frozenset((
    "_conj", "_fft_c2c", "_fft_c2r", "_fft_r2c", "_histogramdd_bin_edges", "_histogramdd_from_bin_cts",
    "_histogramdd_from_bin_tensors", "_int_mm", "_native_batch_norm_legit", "_neg_view", "_scaled_mm",
))  # fmt: skip


def _is_shared(name: str, value: _Any) -> bool:
    """Whether a name of metatensor's is one of PyTorch's too, for the same thing."""
    if name in _OWN or isinstance(value, _ModuleType):
        return False
    if name.startswith("_"):
        return name in _PRIVATE
    return not (name.endswith("_") and name in _registry or name.endswith("_") and hasattr(_mt.Tensor, name)) or name in _IN_PLACE


globals().update({name: value for name, value in vars(_mt).items() if _is_shared(name, value)})
globals().update({name: getattr(_settings, name) for name in _settings.__all__})
globals().update({name: getattr(_typed, name) for name in _typed.__all__})

_lazy, _names = _attributes(
    __name__,
    (
        "_C", "_dynamo", "_higher_order_ops", "_inductor", "_jit_internal", "_ops", "_prims_common", "_subclasses", "_tensor",
        "_utils", "_weights_only_unpickler", "accelerator", "amp", "ao", "autograd", "backends", "compiler", "cpu", "cuda",
        "distributed", "distributions", "export", "functional", "futures", "fx", "hub", "jit", "library", "mps", "mtia",
        "multiprocessing", "nested", "onnx", "optim", "overrides", "package", "profiler", "quantization", "random",
        "return_types", "serialization", "sparse", "storage", "testing", "torch_version", "types", "utils", "version", "xpu",
    ),
    {name: f"metatensor.{name}" for name in ("fft", "func", "linalg", "masked", "nn", "signal", "special")}
    | {name: f"metatensor:{name}" for name in (
        "Generator", "default_generator", "finfo", "from_dlpack", "from_numpy", "frombuffer", "get_rng_state", "iinfo",
        "initial_seed", "manual_seed", "seed", "set_printoptions", "set_rng_state",
    )}
    | {"torch": __name__, "ops": f"{__name__}._ops:ops", "classes": f"{__name__}._ops:classes"}
    | {name: f"{__name__}.serialization:{name}" for name in ("load", "save")}
    | {name: f"{__name__}.storage:{name}" for name in ("TypedStorage",)}
    | {name: f"{__name__}.functional:{name}" for name in ("cond", "vmap", "while_loop")}
    | {name: f"{__name__}.streams:{name}" for name in ("Event", "Stream")}
    | {name: f"{__name__}.amp:{name}" for name in (
        "GradScaler", "autocast", "get_autocast_cpu_dtype", "get_autocast_dtype", "get_autocast_gpu_dtype",
        "is_autocast_cache_enabled", "is_autocast_cpu_enabled", "is_autocast_enabled", "set_autocast_cache_enabled",
        "set_autocast_dtype", "set_autocast_enabled",
    )},
)  # fmt: skip


def __getattr__(name: str) -> _Any:
    return _lazy(name)


def __dir__() -> list[str]:
    return _names()


# Functions of PyTorch that are no operators --------------------------------------------------------------------------


class OutOfMemoryError(RuntimeError):
    """An allocation on a device failed."""


AcceleratorError = RuntimeError
legacy_contiguous_format = _mt.contiguous_format
DisableTorchFunctionSubclass = _DisableTorchFunctionSubclass


class SymInt:
    """A size that is a symbol: there are none here, so nothing is an instance."""

    def __init__(self, *_: _Any) -> None:
        raise NotImplementedError(f"torch.{type(self).__name__}: sizes are numbers in metatensor, never symbols")


class SymFloat(SymInt):
    """A number that is a symbol: there are none here."""


class SymBool(SymInt):
    """A truth value that is a symbol: there are none here."""


def sym_int(a: _Any) -> int:
    """``a`` as an int, rounded towards zero."""
    return _builtins.int(a)


def sym_float(a: _Any) -> float:
    """``a`` as a float."""
    return _builtins.float(a)


def sym_not(a: _Any) -> bool:
    """Whether ``a`` is false."""
    return not a


def sym_max(a: _Any, b: _Any) -> _Any:
    """The larger of two numbers."""
    return _builtins.max(a, b)


def sym_min(a: _Any, b: _Any) -> _Any:
    """The smaller of two numbers."""
    return _builtins.min(a, b)


def sym_sqrt(a: _Any) -> float:
    """The square root of a number."""
    return _math.sqrt(a)


def sym_ite(b: bool, t: _Any, f: _Any) -> _Any:
    """``t`` where ``b`` is true, else ``f``."""
    return t if b else f


def sym_sum(args: _Any) -> _Any:
    """The sum of numbers."""
    return _builtins.sum(args)


def _assert(condition: _Any, message: str) -> None:
    """AssertionError where ``condition`` is false; a condition that is a tensor without data is taken for true."""
    if isinstance(condition, _mt.Tensor) and condition.untyped_storage().data is None:
        return
    if not condition:
        raise AssertionError(message)


def _check_with(kind: type[Exception], cond: _Any, message: _Callable[[], str] | None = None) -> None:
    if not isinstance(cond, _builtins.bool):
        raise TypeError(f"_check: cond must be a bool, got {type(cond).__name__}")
    if not cond:
        raise kind("a check failed" if message is None else str(message()))


def _check(cond: _Any, message: _Callable[[], str] | None = None) -> None:
    """RuntimeError with what ``message()`` says where ``cond`` is False."""
    _check_with(RuntimeError, cond, message)


def _check_is_size(i: int, message: _Callable[[], str] | None = None, *, max: int | None = None) -> None:
    """RuntimeError where ``i`` is negative, or above ``max``."""
    _check_with(RuntimeError, i >= 0 and (max is None or i <= max), message)


def _check_index(cond: _Any, message: _Callable[[], str] | None = None) -> None:
    """IndexError where ``cond`` is False."""
    _check_with(IndexError, cond, message)


def _check_value(cond: _Any, message: _Callable[[], str] | None = None) -> None:
    """ValueError where ``cond`` is False."""
    _check_with(ValueError, cond, message)


def _check_type(cond: _Any, message: _Callable[[], str] | None = None) -> None:
    """TypeError where ``cond`` is False."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: _Any, message: _Callable[[], str] | None = None) -> None:
    """NotImplementedError where ``cond`` is False."""
    _check_with(NotImplementedError, cond, message)


def typename(obj: _Any, /) -> str:
    """The type of a tensor ("torch.FloatTensor"), or the dotted name of anything else's type."""
    if isinstance(obj, _mt.Tensor):
        return str(obj.type())
    kind = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(kind, "__module__", None) or ""
    return kind.__qualname__ if module in ("", "builtins") else f"{module}.{kind.__qualname__}"


def compile(model: _Any = None, **options: _Any) -> _Any:
    """``model`` itself: there is nothing to compile. Without a model, a decorator."""
    if model is None:
        return lambda model: compile(model, **options)
    if not callable(model):
        raise RuntimeError(f"torch.compile: expected something to call, got {type(model).__name__}")
    return model


def get_device_module(device: _Any = None) -> _ModuleType:
    """The module of a device type, such as ``torch.cuda``; that of the accelerator, or of the cpu, for None."""
    if device is None:
        found = __getattr__("accelerator").current_accelerator()
        kind = "cpu" if found is None else found.type
    else:
        kind = _mt.device(device).type
    try:
        return __getattr__(kind)
    except AttributeError:
        raise RuntimeError(f"torch.get_device_module: there is no module torch.{kind}") from None


def is_anomaly_enabled() -> bool:
    """False: there is no backward to watch."""
    return False


def is_distributed(input: _Any) -> bool:
    """False: no tensor is spread over processes."""
    return False


def is_vulkan_available() -> bool:
    """False."""
    return False


def _is_all_true(input: _Any) -> _Any:
    """Whether all elements of a bool tensor are true."""
    return _mt.all(input)


def _shape_as_tensor(input: _Any) -> _Any:
    """The shape as an int64 tensor on the cpu."""
    return _mt.tensor(input.shape, dtype=_mt.int64, device="cpu")
