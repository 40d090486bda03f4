"""Dropout of elements or whole channels, and alpha dropout, which keeps mean and variance."""
from metatensor._core.dtype cimport BOOL, by_code
from metatensor._core.op cimport (
    COMPOSITE, Call, FUNCTION_ONLY, INPLACE, INPLACE_ARG, OPTION_A, RANDOM, arg, bool_arg, call, define, float_arg,
    is_none, op_flags, op_name, result_device, tensor_arg,
)
from metatensor._core.random cimport take_ticket
from metatensor._core.tensor cimport Tensor, new_like, shape_str
from metatensor._core.types cimport KIND_BOOL, KIND_INT, T_REQUIRES_GRAD
from metatensor.ops.pointwise cimport canonical, elementwise_like
from metatensor.ops.spatial cimport fail
from metatensor._core.gradients import gradient, ops
from metatensor._core.sharding import sharding
from metatensor._core.gradients import recorded_as

# Marks ops of nn.functional, which raise ValueError for an invalid probability. The others raise RuntimeError.
cdef enum:
    FUNCTIONAL_API = OPTION_A


cdef double probability(Call* c) except -1:
    cdef double p = float_arg(c, 1)
    if not 0 <= p <= 1:
        message = f"{op_name(c)}(): argument 'p' must lie in [0, 1], got {p}"
        if op_flags(c) & FUNCTIONAL_API:
            raise ValueError(message)
        raise RuntimeError(message)
    return p


cdef inline Tensor fresh(Call* c, Tensor t):
    if canonical(t):
        return new_like(t, t.dtype, result_device(c))
    return elementwise_like(t, t.dtype, result_device(c))


cdef object drop(Call* c, bint training, int generator):
    """Return a new tensor, or the input itself if nothing can be dropped."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef double p = probability(c)
    if not training or p == 0 or t.total == 0:
        c.flags &= ~T_REQUIRES_GRAD     # the input itself is returned, so it remains a leaf
        return t
    if p < 1 and (t.dtype.kind == KIND_INT or t.dtype.kind == KIND_BOOL):
        fail(c, f"the elements are scaled, so {t.dtype.name} is not supported")
    take_ticket(c, generator)
    return fresh(c, t)


cdef object dropout(Call* c):
    return drop(c, bool_arg(c, 2), 4 if op_flags(c) & FUNCTIONAL_API else 3)


cdef object drop_channels(Call* c, int least):
    """Drop whole channels. The input needs at least `least` dimensions. This is checked only if channels are drawn at
    random."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef double p = probability(c)
    if t.ndim < least and t.total and 0 < p < 1 and bool_arg(c, 2):
        fail(c, f"needs at least {least} dimensions, got shape {shape_str(t)}")
    return dropout(c)


cdef object feature_dropout(Call* c):
    return drop_channels(c, 2)


cdef object dropout1d(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    probability(c)
    if t.ndim != 2 and t.ndim != 3:
        fail(c, f"expected an input of 2 or 3 dimensions, got shape {shape_str(t)}")
    return dropout(c)


cdef object dropout3d(Call* c):
    """Drop whole channels. In an input without a batch, dimension 0 holds the channels."""
    return drop_channels(c, 1)


cdef object native_dropout(Call* c):
    """Return the result and the bool mask of the elements that were kept."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef bint training = is_none(c, 2) or bool_arg(c, 2)
    probability(c)
    if training and (t.dtype.kind == KIND_INT or t.dtype.kind == KIND_BOOL):
        fail(c, f"the elements are scaled, so {t.dtype.name} is not supported")
    take_ticket(c, 3)
    return (fresh(c, t), elementwise_like(t, by_code(BOOL), result_device(c)))


cdef object backward(Call* c):
    return call("mul", (call("mul", (arg(c, 0), arg(c, 1))), float(arg(c, 2))))


cdef str _api = "*, generator? generator=None"
cdef long _flags = FUNCTION_ONLY | RANDOM | INPLACE
cdef long _nn_flags = FUNCTION_ONLY | RANDOM | INPLACE_ARG | FUNCTIONAL_API | INPLACE

define(f"dropout(Tensor input, float p, bool train, {_api}) -> Tensor", dropout, _flags,
       "If `train`, set each element to 0 with probability `p` and scale the others by 1 / (1 - p).")
define(f"feature_dropout(Tensor input, float p, bool train, {_api}) -> Tensor", feature_dropout, _flags,
       "Dropout of whole channels: all elements of `input[n, c]` are kept or dropped together.")
define(f"alpha_dropout(Tensor input, float p, bool train, {_api}) -> Tensor", dropout, _flags,
       "Alpha dropout, which keeps the mean and variance of SELU activations (Klambauer et al., 2017).")
define(f"feature_alpha_dropout(Tensor input, float p, bool train, {_api}) -> Tensor", feature_dropout, _flags,
       "Alpha dropout of whole channels: all elements of `input[n, c]` are kept or dropped together.")
sharding("native_dropout", "cut input -> cat, cat")
define(f"native_dropout(Tensor input, float p, bool? train, {_api}) -> (Tensor, Tensor)", native_dropout,
       FUNCTION_ONLY | RANDOM,
       "Dropout that also returns the bool mask of the elements that were kept. `train=None` means true.")
define(f"nn.functional.dropout(Tensor input, float p=0.5, bool training=True, bool inplace=False, {_api}) -> Tensor",
       dropout, _nn_flags,
       "If `training`, set each element to 0 with probability `p` and scale the others by 1 / (1 - p).")
define(f"nn.functional.dropout1d(Tensor input, float p=0.5, bool training=True, bool inplace=False, {_api}) -> Tensor",
       dropout1d, _nn_flags, "Dropout of whole channels of `input` (N, C, L) or (C, L).")
define(f"nn.functional.dropout2d(Tensor input, float p=0.5, bool training=True, bool inplace=False, {_api}) -> Tensor",
       feature_dropout, _nn_flags, "Dropout of whole channels of `input` (N, C, H, W).")
define(f"nn.functional.dropout3d(Tensor input, float p=0.5, bool training=True, bool inplace=False, {_api}) -> Tensor",
       dropout3d, _nn_flags, "Dropout of whole channels of `input` (N, C, D, H, W) or (C, D, H, W).")
define(f"nn.functional.alpha_dropout(Tensor input, float p=0.5, bool training=False, bool inplace=False, {_api}) "
       "-> Tensor", dropout, _nn_flags, "Alpha dropout, which keeps the mean and variance of SELU activations.")
define(f"nn.functional.feature_alpha_dropout(Tensor input, float p=0.5, bool training=False, bool inplace=False, {_api})"
       " -> Tensor", feature_dropout, _nn_flags, "Alpha dropout of whole channels: all elements of `input[n, c]` are "
                                                 "kept or dropped together.")

# Gradients ------------------------------------------------------------------------------------------

for _name in ("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"):
    recorded_as(_name, f"activation.{_name}", written=f"activation.{_name}_write")
for _name in ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"):
    recorded_as(f"nn.functional.{_name}", f"activation.layer_{_name}",
                written=None if _name in ("dropout1d", "dropout3d") else f"activation.layer_{_name}_write")
gradient("native_dropout", outputs=(0,),
         input=lambda grad, result1, p, train: grad * result1 if train is False else ops.native_dropout_backward(grad, result1, _scale(p)))
define("native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor", backward, FUNCTION_ONLY | COMPOSITE,
       "Gradient of `native_dropout`: `grad_output * mask * scale`.")


def _scale(p):
    return 0.0 if p == 1 else 1 / (1 - p)
