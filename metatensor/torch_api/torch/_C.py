"""The names of PyTorch's compiled module that libraries use."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any

from metatensor._core.methods import _disabled_torch_dispatch_impl
from metatensor._core.random import Generator
from metatensor._core.size import Size
from metatensor._core.tensor import Tensor as TensorBase
from metatensor._core.tensor import _disabled_torch_function_impl
from metatensor._core.thread import DisableTorchFunctionSubclass, _DisableTorchDispatch

__all__ = [
    "DisableTorchFunctionSubclass", "DispatchKey", "Generator", "Graph", "Node", "Size", "TensorBase", "Value",
    "_DisableTorchDispatch", "_disabled_torch_dispatch_impl", "_disabled_torch_function_impl",
]  # fmt: skip

_TensorMeta = type(TensorBase)


class _nn:
    """The functions of ``torch._C._nn`` that libraries call."""

    @staticmethod
    def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
        """Return (device, dtype, non_blocking, memory_format) from the arguments of `Module.to`."""
        from metatensor.nn._conversion import _parse_to

        return _parse_to(*args, **kwargs)


_has_cuda = _has_mps = _has_xpu = _has_mkldnn = has_cuda = False


_KEYS = (
    "Undefined CompositeExplicitAutogradNonFunctional CompositeExplicitAutograd CompositeImplicitAutogradNestedTensor "
    "CompositeImplicitAutograd AutogradNestedTensor AutogradOther Autograd Conjugate ZeroTensor Negative "
    "BackendSelect ADInplaceOrView PythonTLSSnapshot Python FuncTorchDynamicLayerFrontMode "
    "FuncTorchDynamicLayerBackMode FuncTorchBatchedDecomposition FuncTorchBatched FuncTorchVmapMode "
    "FuncTorchGradWrapper PythonDispatcher PreDispatch Functionalize AutocastCPU AutocastMPS AutocastXPU AutocastHPU "
    "AutocastIPU AutocastCUDA AutocastPrivateUse1 Dense StartOfDenseBackends CPU CUDA HIP XLA MPS IPU XPU HPU VE Lazy "
    "MTIA MAIA PrivateUse1 PrivateUse2 PrivateUse3 Meta EndOfDenseBackends Quantized StartOfQuantizedBackends "
    "QuantizedCPU QuantizedCUDA QuantizedHIP QuantizedXLA QuantizedMPS QuantizedIPU QuantizedXPU QuantizedHPU "
    "QuantizedVE QuantizedLazy QuantizedMTIA QuantizedMAIA QuantizedPrivateUse1 QuantizedPrivateUse2 "
    "QuantizedPrivateUse3 QuantizedMeta EndOfQuantizedBackends Sparse StartOfSparseBackends SparseCPU SparseCUDA "
    "SparseHIP SparseXLA SparseMPS SparseIPU SparseXPU SparseHPU SparseVE SparseLazy SparseMTIA SparseMAIA "
    "SparsePrivateUse1 SparsePrivateUse2 SparsePrivateUse3 SparseMeta EndOfSparseBackends SparseCsr "
    "StartOfSparseCsrBackends SparseCsrCPU SparseCsrCUDA SparseCsrHIP SparseCsrXLA SparseCsrMPS SparseCsrIPU "
    "SparseCsrXPU SparseCsrHPU SparseCsrVE SparseCsrLazy SparseCsrMTIA SparseCsrMAIA SparseCsrPrivateUse1 "
    "SparseCsrPrivateUse2 SparseCsrPrivateUse3 SparseCsrMeta EndOfSparseCsrBackends NestedTensor "
    "StartOfNestedTensorBackends NestedTensorCPU NestedTensorCUDA NestedTensorHIP NestedTensorXLA NestedTensorMPS "
    "NestedTensorIPU NestedTensorXPU NestedTensorHPU NestedTensorVE NestedTensorLazy NestedTensorMTIA "
    "NestedTensorMAIA NestedTensorPrivateUse1 NestedTensorPrivateUse2 NestedTensorPrivateUse3 NestedTensorMeta "
    "EndOfNestedTensorBackends AutogradFunctionality StartOfAutogradFunctionalityBackends AutogradCPU AutogradCUDA "
    "AutogradHIP AutogradXLA AutogradMPS AutogradIPU AutogradXPU AutogradHPU AutogradVE AutogradLazy AutogradMTIA "
    "AutogradMAIA AutogradPrivateUse1 AutogradPrivateUse2 AutogradPrivateUse3 AutogradMeta "
    "EndOfAutogradFunctionalityBackends"
)

DispatchKey = enum.Enum("DispatchKey", _KEYS, start=0, module=__name__)  # type: ignore[misc]
DispatchKey.__doc__ = "The keys of PyTorch's dispatcher. metatensor's dispatcher has no keys."


class DispatchKeySet:
    """A set of dispatch keys."""

    def __init__(self, *keys: Any) -> None:
        self._keys = frozenset(keys)

    def has(self, key: Any) -> bool:
        """Return whether a key is in the set."""
        return key in self._keys

    def __iter__(self) -> Iterator[Any]:
        return iter(self._keys)

    def __or__(self, other: Any) -> DispatchKeySet:
        return DispatchKeySet(*self._keys, *other._keys)


def _AutoDispatchBelowAutograd() -> Any:
    """Return a context manager in which calls are not recorded."""
    from metatensor.autograd.grad_mode import no_grad

    return no_grad()


class _ExcludeDispatchKeyGuard:
    """Disable ``__torch_dispatch__`` (the Python key) as long as the object exists.

    Raise NotImplementedError for any other dispatch key.
    """

    def __init__(self, keys: Any) -> None:
        self.keys = keys
        self._guard: Any = None
        names = {key.name for key in keys}
        if not names <= {"Python", "PythonTLSSnapshot"}:
            raise NotImplementedError(f"torch._C._ExcludeDispatchKeyGuard: metatensor cannot exclude {', '.join(sorted(names))}")
        if names:
            self._guard = _DisableTorchDispatch()

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: Any) -> None:
        self._guard = None


class DisableTorchFunction:
    """Context manager inside which neither subclasses nor modes override functions."""

    def __init__(self) -> None:
        self._subclass = DisableTorchFunctionSubclass()
        self._level: Any = None

    def __enter__(self) -> None:
        from metatensor._core.modes import _disable_modes

        self._subclass.__enter__()
        self._level = _disable_modes(functions_only=True)

    def __exit__(self, *error: Any) -> None:
        from metatensor._core.modes import _restore_modes

        _restore_modes(self._level)
        self._subclass.__exit__(*error)


class Graph:
    """A TorchScript graph. It has no instances."""


class Value:
    """A value of a TorchScript graph. It has no instances."""


class Node:
    """A node of a TorchScript graph. It has no instances."""


class _EvalFrame:
    """Settings of PyTorch's compiler for frames. They have no effect."""

    @staticmethod
    def _set_lru_cache(value: bool) -> None:
        """Do nothing: no compiled code is cached."""


class _dynamo:
    """The compiled part of PyTorch's compiler."""

    eval_frame = _EvalFrame


def __getattr__(name: str) -> Any:
    if name.endswith("Type") or name == "CompilationUnit":
        from metatensor.torch_api.torch import _corners

        if name in vars(_corners):
            return vars(_corners)[name]
    raise AttributeError(f"module 'torch._C' has no attribute {name!r} (metatensor stands in the place of PyTorch)")


def _set_grad_enabled(enabled: bool) -> None:
    """Enable or disable gradient mode."""
    import metatensor as mt

    mt.set_grad_enabled(enabled)


def _is_tracing() -> bool:
    """Return whether `torch.jit.trace` runs a function in this thread."""
    from metatensor.torch_api.torch import jit

    return jit.is_tracing()


def _jit_set_autocast_mode(enabled: bool) -> bool:
    """Return False, the previous mode. There is no TorchScript."""
    return False


def _jit_set_texpr_fuser_enabled(enabled: bool) -> None:
    """Do nothing, because there is no TorchScript."""


def _jit_set_profiling_mode(enabled: bool) -> bool:
    """Return False, the previous mode. There is no TorchScript."""
    return False


def _jit_set_profiling_executor(enabled: bool) -> bool:
    """Return False, the previous mode. There is no TorchScript."""
    return False


def _jit_override_can_fuse_on_cpu(enabled: bool) -> None:
    """Do nothing, because there is no TorchScript."""


def _jit_override_can_fuse_on_gpu(enabled: bool) -> None:
    """Do nothing, because there is no TorchScript."""


def _jit_set_nvfuser_enabled(enabled: bool) -> bool:
    """Return False, the previous mode. There is no TorchScript."""
    return False


def _get_tracing_state() -> Any:
    """Return an object while `torch.jit.trace` runs a function in this thread, else None."""
    return object() if _is_tracing() else None


def _get_accelerator() -> Any:
    """Return the device of the accelerator, or cpu if there is none."""
    import metatensor as mt
    from metatensor.torch_api.torch import accelerator

    found = accelerator.current_accelerator()
    return mt.device("cpu") if found is None else found


def _log_api_usage_once(*_: Any) -> None:
    """Do nothing."""


def _cuda_getDeviceCount() -> int:
    """Return the number of CUDA devices."""
    from metatensor.torch_api.torch import cuda

    return int(cuda.device_count())
