"""The contents of ``import torch``: metatensor's operators and types, and other names of PyTorch's top-level module.

Any other name raises AttributeError.
"""

from os import listdir as _listdir
from types import ModuleType as _ModuleType

import metatensor as _mt
from metatensor._core.lazy import attributes as _attributes
from metatensor._core.op import registry as _registry
from metatensor.interchange.torch_modules import SHARED, target_of
from metatensor.torch_api.torch import _foreach, _functions, _settings, _typed
from metatensor.torch_api.torch.torch_version import TORCH_VERSION as __version__

# Names of metatensor that PyTorch does not have, or uses for something else.
_OWN = {
    "DataDependentError", "DispatchMode", "Spec", "analysis", "checkpoint", "devices", "library", "load", "op",
    "ops", "plugins", "random", "rules", "testing",
}  # fmt: skip

# In-place operators that PyTorch also offers as functions. All others are only methods.
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
    "_conj", "_fft_c2c", "_fft_c2r", "_fft_r2c", "_grouped_mm", "_histogramdd_bin_edges", "_histogramdd_from_bin_cts",
    "_histogramdd_from_bin_tensors", "_int_mm", "_native_batch_norm_legit", "_neg_view", "_scaled_mm",
))  # fmt: skip


def _is_shared(name, value):
    """Return whether a name of metatensor has the same meaning in PyTorch."""
    if name in _OWN or isinstance(value, _ModuleType):
        return False
    if name.startswith("_"):
        return name in _PRIVATE
    return not (name.endswith("_") and name in _registry or name.endswith("_") and hasattr(_mt.Tensor, name)) or name in _IN_PLACE


globals().update({name: value for name, value in vars(_mt).items() if _is_shared(name, value)})
for _module in (_foreach, _functions, _settings, _typed):
    globals().update({name: getattr(_module, name) for name in _module.__all__})

_lazy, _names = _attributes(
    __name__,
    {file.partition(".")[0] for file in _listdir(__path__[0]) if not file.startswith(("__init__", "__pycache__"))},
    {name: target_of(f"torch.{name}") for name in {name.split(".")[1] for name in SHARED}}
    | {name: f"metatensor:{name}" for name in (
        "Generator", "default_generator", "enable_grad", "finfo", "from_dlpack", "from_numpy", "frombuffer", "get_rng_state", "iinfo",
        "inference_mode", "initial_seed", "manual_seed", "no_grad", "seed", "set_grad_enabled", "set_printoptions", "set_rng_state",
    )}
    | {name: f"{__name__}._corners:{name}" for name in (
        "AnyType", "AwaitType", "BFloat16Storage", "BoolStorage", "BoolType", "ByteStorage", "CharStorage", "ClassType",
        "CompilationUnit", "ComplexDoubleStorage", "ComplexFloatStorage", "ComplexType", "DeviceObjType", "DictType",
        "DoubleStorage", "EnumType", "FloatStorage", "FloatType", "FutureType", "HalfStorage", "InferredType", "IntStorage",
        "IntType", "InterfaceType", "JITException", "ListType", "LongStorage", "NoneType", "NumberType", "OptionalType",
        "PyObjectType", "PyTorchFileReader", "PyTorchFileWriter", "RRefType",
        "ShortStorage", "StreamObjType", "StringType",
        "SymBoolType",
        "SymIntType", "TensorType", "TupleType", "UnionType", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d",
        "_has_compatible_shallow_copy_type", "_make_per_tensor_quantized_tensor", "_softmax_backward_data", "_weight_norm",
        "dequantize", "dsmm", "eig", "fake_quantize_per_channel_affine", "fake_quantize_per_tensor_affine",
        "fork", "frobenius_norm", "has_cuda", "has_lapack", "has_mkl", "has_mps", "has_openmp", "has_spectral", "hsmm", "hspmm",
        "import_ir_module", "int_repr", "lstsq", "matrix_rank", "nuclear_norm", "parse_ir", "parse_schema", "q_scale",
        "q_zero_point", "quantize_per_channel", "quantize_per_tensor", "quantize_per_tensor_dynamic", "saddmm", "smm", "solve",
        "sparse_bsc_tensor", "sparse_bsr_tensor", "sparse_compressed_tensor", "sparse_coo_tensor", "sparse_csc_tensor",
        "sparse_csr_tensor", "spmm", "sspaddmm", "symeig", "wait",
    )}
    | {"OutOfMemoryError": "metatensor.devices:OutOfMemoryError", "ScriptModule": f"{__name__}.jit:ScriptModule"}
    | {"ScriptFunction": f"{__name__}.jit:ScriptFunction"}
    | {"Tag": "metatensor.overloads.tags:Tag", "torch": __name__, "ops": f"{__name__}._ops:ops", "classes": f"{__name__}._ops:classes"}
    | {name: f"{__name__}.serialization:{name}" for name in ("load", "save")}
    | {name: f"{__name__}.storage:{name}" for name in ("TypedStorage",)}
    | {name: f"{__name__}.functional:{name}" for name in ("cond", "vmap", "while_loop")}
    | {name: f"{__name__}.streams:{name}" for name in ("Event", "Stream")}
    | {name: f"{__name__}.amp:{name}" for name in (
        "GradScaler", "autocast", "autocast_decrement_nesting", "autocast_increment_nesting", "clear_autocast_cache",
        "get_autocast_cpu_dtype", "get_autocast_dtype", "get_autocast_gpu_dtype", "is_autocast_cache_enabled",
        "is_autocast_cpu_enabled", "is_autocast_enabled", "set_autocast_cache_enabled", "set_autocast_cpu_dtype",
        "set_autocast_cpu_enabled", "set_autocast_dtype", "set_autocast_enabled", "set_autocast_gpu_dtype",
    )},
)  # fmt: skip


def __getattr__(name):
    if name == "Storage":  # follows the default dtype
        return _lazy(next(kind_name for kind_name, kind in _typed.DTYPES.items() if kind is _mt.get_default_dtype()) + "Storage")
    return _lazy(name)


def __dir__():
    return _names()
