"""CUDA devices, if a plugin provides the device type cuda."""

from __future__ import annotations

from typing import Any

from metatensor._core.absent import kind
from metatensor._core.lazy import attributes
from metatensor.torch_api.torch import _typed
from metatensor.torch_api.torch._devices import DeviceApi, device_context
from metatensor.torch_api.torch.cuda.streams import Event, ExternalStream, Stream, StreamContext

__all__ = [
    "BFloat16Tensor", "BoolTensor", "ByteTensor", "CUDAGraph", "CharTensor", "DoubleTensor", "Event", "ExternalStream",
    "FloatTensor", "HalfTensor", "IntTensor", "LongTensor", "ShortTensor", "Stream", "StreamContext", "can_device_access_peer",
    "current_blas_handle", "current_device", "current_stream", "default_stream", "device", "device_count", "device_of",
    "empty_cache", "get_arch_list", "get_device_capability", "get_device_name", "get_device_properties", "get_gencode_flags",
    "get_rng_state", "get_rng_state_all", "get_sync_debug_mode", "graph", "graph_pool_handle", "init", "initial_seed",
    "ipc_collect", "is_available", "is_bf16_supported", "is_current_stream_capturing", "is_initialized", "is_tf32_supported",
    "make_graphed_callables", "manual_seed", "manual_seed_all", "max_memory_allocated", "max_memory_cached",
    "max_memory_reserved", "mem_get_info", "memory_allocated", "memory_cached", "memory_reserved", "memory_stats", "memory_summary",
    "reset_max_memory_allocated", "reset_max_memory_cached", "reset_peak_memory_stats", "seed", "seed_all", "set_device",
    "set_rng_state", "set_rng_state_all", "set_stream", "set_sync_debug_mode", "stream", "synchronize",
]  # fmt: skip

_lazy, __dir__ = attributes(
    __name__, ("_utils", "amp", "graphs", "memory", "nvtx", "random", "streams"),
    {"OutOfMemoryError": "metatensor.devices:OutOfMemoryError", "_get_device_index": f"{__name__}._utils:_get_device_index"},
)  # fmt: skip

_api = DeviceApi("cuda")
is_available, device_count, is_initialized, init = _api.is_available, _api.device_count, _api.is_initialized, _api.init
current_device, set_device, synchronize = _api.current_device, _api.set_device, _api.synchronize
get_device_properties, get_device_name = _api.get_device_properties, _api.get_device_name
get_device_capability, is_bf16_supported = _api.get_device_capability, _api.is_bf16_supported
is_current_stream_capturing = _api.is_current_stream_capturing
memory_stats, memory_allocated, memory_reserved = _api.memory_stats, _api.memory_allocated, _api.memory_reserved
max_memory_allocated, max_memory_reserved = _api.max_memory_allocated, _api.max_memory_reserved
memory_cached, max_memory_cached = memory_reserved, max_memory_reserved
reset_peak_memory_stats = reset_max_memory_allocated = reset_max_memory_cached = _api.reset_peak_memory_stats
mem_get_info, empty_cache = _api.mem_get_info, _api.empty_cache
manual_seed, manual_seed_all, seed, seed_all = _api.manual_seed, _api.manual_seed_all, _api.seed, _api.seed_all
initial_seed, get_rng_state, set_rng_state = _api.initial_seed, _api.get_rng_state, _api.set_rng_state
get_rng_state_all, set_rng_state_all = _api.get_rng_state_all, _api.set_rng_state_all
device = device_context(_api)

has_half = True
has_magma = False

(
    BFloat16Tensor, BoolTensor, ByteTensor, CharTensor, DoubleTensor, FloatTensor, HalfTensor, IntTensor, LongTensor, ShortTensor,
) = (
    _typed.make(name, "cuda")
    for name in ("BFloat16", "Bool", "Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short")
)  # fmt: skip


def __getattr__(name: str) -> Any:
    return _api.generators() if name == "default_generators" else _lazy(name)


class device_of(device):  # type: ignore[misc, valid-type]
    """Context manager that makes the device of a tensor the current one.

    It does nothing for tensors that are not on cuda.
    """

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.device.index if obj.device.type == "cuda" else -1)


def is_tf32_supported() -> bool:
    """Return whether there is a device that supports TF32."""
    return is_available() and get_device_capability()[0] >= 8


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Raise NotImplementedError: the backend does not report it."""
    _api.require()
    raise NotImplementedError("torch.cuda.can_device_access_peer: metatensor's cuda backend does not report it")


def get_arch_list() -> list[str]:
    """Return an empty list, because kernels are compiled at run time for the device in use."""
    return []


def get_gencode_flags() -> str:
    """Return an empty string."""
    return ""


def current_blas_handle() -> int:
    """Raise NotImplementedError: the backend does not expose its cuBLAS handles."""
    _api.require()
    raise NotImplementedError("torch.cuda.current_blas_handle: metatensor's cuda backend does not expose its cuBLAS handles")


def ipc_collect() -> None:
    """Do nothing, because no memory is shared with other processes. Raise AssertionError if there is no device."""
    _api.require()


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """Return the entries of `memory_stats` as text, one per line."""
    return "\n".join(f"{name}: {value}" for name, value in memory_stats(device).items())


# Streams and graphs ---------------------------------------------------------------------------------------------------


def current_stream(device: Any = None) -> Stream:
    """Return the current stream of a device in this thread."""
    index = _api.index(device)
    return Stream._of(_api.require().current_stream(index))  # type: ignore[no-any-return]


def default_stream(device: Any = None) -> Stream:
    """Return the default stream of a device."""
    index = _api.index(device)
    return Stream._of(_api.require().default_stream(index))  # type: ignore[no-any-return]


def stream(stream: Stream | None) -> StreamContext:
    """Return a context manager that makes a stream the current one."""
    return StreamContext(stream)


def set_stream(stream: Stream | None) -> None:
    """Make a stream and its device the current ones."""
    if stream is not None:
        stream._use(stream._stream.index, stream._stream)


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Accept 0 or "default".

    Raise NotImplementedError for modes that warn or raise, because no operation is monitored.
    """
    modes = ("default", "warn", "error")
    if debug_mode not in modes and debug_mode not in (0, 1, 2):
        raise RuntimeError(f"torch.cuda.set_sync_debug_mode: expected one of {modes} or 0, 1, 2, got {debug_mode!r}")
    if debug_mode not in (0, "default"):
        raise NotImplementedError("torch.cuda.set_sync_debug_mode: synchronization is not monitored, so mode "
                                  f"{debug_mode!r} is not supported")


def get_sync_debug_mode() -> int:
    """Return 0: synchronizing operations are not reported."""
    return 0


_WHY = "metatensor records no CUDA graphs"
CUDAGraph = kind("cuda.CUDAGraph", _WHY, error=RuntimeError)
graph = kind("cuda.graph", _WHY, error=RuntimeError)


def graph_pool_handle() -> Any:
    """Raise RuntimeError: CUDA graphs are not supported."""
    raise RuntimeError(f"torch.cuda.graph_pool_handle: {_WHY}")


def make_graphed_callables(callables: Any, sample_args: Any, **options: Any) -> Any:
    """Raise RuntimeError: CUDA graphs are not supported."""
    raise RuntimeError(f"torch.cuda.make_graphed_callables: {_WHY}")


def _lazy_init() -> None:
    init()
