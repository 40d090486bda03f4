"""batch_norm and instance_norm: normalization of each channel by input statistics or running statistics."""
from cpython.object cimport PyObject
from metatensor._core.dtype cimport DType
from metatensor._core.layout cimport is_channels_last, set_format
from metatensor._core.op cimport (
    COMPOSITE, FUNCTION_ONLY, OUT, Call, Op, arg, as_declared, bool_arg, call, define, find, is_none, op_name,
    result_device, tensor_arg,
)
from metatensor._core.tensor cimport Tensor, hooks, new_contiguous, new_strided, shape_str
from metatensor._core.types cimport FORMAT_CHANNELS_LAST, FORMAT_CHANNELS_LAST_3D, MAX_DIMS, T_CONTIGUOUS, T_RETRIED, dim_t
from metatensor._core.versions cimport detached
from metatensor.ops.normalization cimport check_parameter, in_format, is_cpu, need_real_float, statistics_dtype
from metatensor.ops.pointwise cimport elementwise_like
from metatensor._core import errors
from metatensor._core.gradients import recorded_as


cdef int check_channels(Call* c, Tensor t, int slot, str name, dim_t channels) except -1:
    """Check an optional vector that must have one element for each channel."""
    cdef Tensor p
    if is_none(c, slot):
        return 0
    p = tensor_arg(c, slot)
    if p.total != channels:
        raise RuntimeError(f"{op_name(c)}(): {name} should contain {channels} elements, one for each channel of input "
                           f"{shape_str(t)}, not {p.total} (shape {shape_str(p)})")
    return 0 if c.flags & T_RETRIED else check_parameter(c, t, p, name)     # `refuse` changes the input's dtype


cdef Tensor normalized_like(Call* c, Tensor t):
    """Return an output for batch_norm. The CPU keeps the memory format. Other devices keep the dimension order."""
    cdef dim_t strides[MAX_DIMS]
    if not is_cpu(result_device(c)):
        return elementwise_like(t, t.dtype, result_device(c))
    if t.flags & T_CONTIGUOUS or not is_channels_last(t.ndim, t.sizes, t.strides):
        return in_format(c, t)
    set_format(t.ndim, t.sizes, strides, FORMAT_CHANNELS_LAST if t.ndim == 4 else FORMAT_CHANNELS_LAST_3D)
    return new_strided(t.ndim, t.sizes, strides, t.dtype, result_device(c))


cdef dim_t channels_of(Tensor t):
    return t.sizes[1] if t.ndim > 1 else 0


cdef int check_batch_norm(Call* c, Tensor t, int mean, int weight) except -1:
    """Check the input and its vectors: running statistics in slots `mean` and `mean` + 1 (none if `mean` is negative),
    weight and bias in slots `weight` and `weight` + 1."""
    cdef dim_t channels = channels_of(t)
    need_real_float(c, t)
    if mean >= 0:
        check_channels(c, t, mean, "running_mean", channels)
        check_channels(c, t, mean + 1, "running_var", channels)
        if tensor_arg(c, mean).ndim != 1 or tensor_arg(c, mean + 1).ndim != 1:
            raise RuntimeError(f"{op_name(c)}(): running_mean and running_var must have 1 dimension, got shapes "
                               f"{shape_str(tensor_arg(c, mean))} and {shape_str(tensor_arg(c, mean + 1))}")
    check_channels(c, t, weight, "weight", channels)
    check_channels(c, t, weight + 1, "bias", channels)
    return 0


cdef object batch_norm_eval_meta(Call* c):
    """Arguments: input, running_mean, running_var, weight, bias, eps."""
    cdef Tensor t = tensor_arg(c, 0)
    if is_none(c, 1) or is_none(c, 2):
        raise RuntimeError(f"batch_norm(): running_{'mean' if is_none(c, 1) else 'var'} must be given outside training")
    check_batch_norm(c, t, 1, 3)
    return normalized_like(c, t)


cdef object updated(Call* c, Tensor out):
    """Return `out` with outputs for the new running mean and variance, shaped like slots 1 and 2."""
    cdef Tensor mean = tensor_arg(c, 1), var = tensor_arg(c, 2)
    return (out, new_contiguous(mean.ndim, mean.sizes, mean.dtype, result_device(c)),
            new_contiguous(var.ndim, var.sizes, var.dtype, result_device(c)))


cdef object batch_norm_train_meta(Call* c):
    """Arguments: input, running_mean, running_var, weight, bias, momentum, eps."""
    cdef Tensor t = tensor_arg(c, 0)
    check_batch_norm(c, t, 1, 3)
    return updated(c, normalized_like(c, t))


cdef object batch_norm_stats_meta(Call* c):
    """Training without running statistics. Arguments: input, weight, bias, eps."""
    cdef Tensor t = tensor_arg(c, 0)
    check_batch_norm(c, t, -1, 1)
    return normalized_like(c, t)


cdef object batch_statistics_meta(Call* c):
    """Arguments: input, weight, eps. The statistics of half-precision input are float32, unless the weight is
    half-precision too and the device is a CPU."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef DType kept = statistics_dtype(c, t, 1, 1)
    cdef dim_t n = channels_of(t)
    need_real_float(c, t)
    if t.ndim < 2:
        raise RuntimeError(f"{op_name(c)}(): at least 2 dimensions are needed, got shape {shape_str(t)}")
    return (new_contiguous(1, &n, kept, result_device(c)), new_contiguous(1, &n, kept, result_device(c)))


cdef object instance_norm_meta(Call* c):
    """Arguments: input, weight, bias, eps."""
    cdef Tensor t = tensor_arg(c, 0)
    check_batch_norm(c, t, -1, 1)
    return new_contiguous(t.ndim, t.sizes, t.dtype, result_device(c))


cdef object instance_norm_eval_meta(Call* c):
    """Arguments: input, running_mean, running_var, weight, bias, eps."""
    cdef Tensor t = tensor_arg(c, 0)
    check_batch_norm(c, t, 1, 3)
    return new_contiguous(t.ndim, t.sizes, t.dtype, result_device(c))


cdef object instance_norm_train_meta(Call* c):
    """Arguments: input, running_mean, running_var, weight, bias, momentum, eps."""
    return updated(c, instance_norm_eval_meta(c))


define("nn.functional._batch_norm_eval(Tensor input, Tensor? running_mean, Tensor? running_var, Tensor? weight, "
       "Tensor? bias, float eps) -> Tensor", batch_norm_eval_meta, 0, "`batch_norm` with the given running statistics.")
define("nn.functional._batch_norm_stats(Tensor input, Tensor? weight, Tensor? bias, float eps) -> Tensor",
       batch_norm_stats_meta, 0, "`batch_norm` with the statistics of the batch.")
define("nn.functional._batch_norm_train(Tensor input, Tensor running_mean, Tensor running_var, Tensor? weight, "
       "Tensor? bias, float momentum, float eps) -> (Tensor, Tensor, Tensor)", batch_norm_train_meta, 0,
       "`batch_norm` with the statistics of the batch. Returns the result and the updated running mean and variance.")
define("nn.functional._batch_statistics(Tensor input, Tensor? weight, float eps) -> (Tensor, Tensor)",
       batch_statistics_meta, 0, "Mean and reciprocal standard deviation of each channel, each of shape (C,).")
define("nn.functional._instance_norm(Tensor input, Tensor? weight, Tensor? bias, float eps) -> Tensor",
       instance_norm_meta, 0, "`instance_norm` with the statistics of each instance.")
define("nn.functional._instance_norm_train(Tensor input, Tensor running_mean, Tensor running_var, Tensor? weight, "
       "Tensor? bias, float momentum, float eps) -> (Tensor, Tensor, Tensor)", instance_norm_train_meta, 0,
       "`instance_norm` with the statistics of each instance. Returns the result and the updated running mean and "
       "variance.")
define("nn.functional._instance_norm_eval(Tensor input, Tensor running_mean, Tensor running_var, Tensor? weight, "
       "Tensor? bias, float eps) -> Tensor", instance_norm_eval_meta, 0,
       "`instance_norm` with the given running statistics.")

cdef Op _eval = find("nn.functional._batch_norm_eval")
cdef Op _stats = find("nn.functional._batch_norm_stats")
cdef Op _train = find("nn.functional._batch_norm_train")
cdef Op _instance = find("nn.functional._instance_norm")
cdef Op _instance_train = find("nn.functional._instance_norm_train")
cdef Op _instance_eval = find("nn.functional._instance_norm_eval")


cdef int _store(Tensor running, Tensor value) except -1:
    """Copy `value` into `running` without recording gradients."""
    cdef PyObject* args[2]
    cdef Op copy = find("copy_")
    cdef Tensor target = detached(running), source = detached(value)
    args[0], args[1] = <PyObject*>target, <PyObject*>source
    hooks.invoke(<PyObject*>copy, args, 2)
    return 0


cdef object update_running(Call* c, object results):
    """Write the new running statistics into slots 1 and 2, and return the normalized output."""
    cdef Tensor out, mean, var
    out, mean, var = results
    _store(tensor_arg(c, 1), mean)
    _store(tensor_arg(c, 2), var)
    return out


cdef object normalize_by_input(Call* c, Op stats, Op train):
    """Normalize by the statistics of the input. Arguments: input, running_mean, running_var, weight, bias, training,
    momentum, eps."""
    cdef PyObject* args[7]
    cdef int i
    if is_none(c, 1) and is_none(c, 2):
        args[0], args[1], args[2], args[3] = c.args[0], c.args[3], c.args[4], c.args[7]
        return hooks.invoke(<PyObject*>stats, args, 4)
    if is_none(c, 1) or is_none(c, 2):
        raise RuntimeError(f"{op_name(c)}(): running_mean and running_var must be given together")
    for i in range(5):
        args[i] = c.args[i]
    args[5], args[6] = c.args[6], c.args[7]
    return update_running(c, as_declared(train, hooks.invoke(<PyObject*>train, args, 7)))


cdef object normalize_by_running(Call* c, Op evaluate):
    """Normalize by the running statistics, with the arguments of `normalize_by_input`."""
    cdef PyObject* args[6]
    cdef int i
    for i in range(5):
        args[i] = c.args[i]
    args[5] = c.args[7]
    return hooks.invoke(<PyObject*>evaluate, args, 6)


cdef bint one_place(Tensor t) noexcept:
    """Return whether there is a single spatial element."""
    cdef int i
    for i in range(2, t.ndim):
        if t.sizes[i] != 1:
            return False
    return True


cdef object batch_norm_body(Call* c):
    """Arguments: input, running_mean, running_var, weight, bias, training, momentum, eps."""
    cdef Tensor t = tensor_arg(c, 0)
    if not bool_arg(c, 5):
        return normalize_by_running(c, _eval)
    if t.ndim and t.sizes[0] == 1 and one_place(t):
        raise ValueError("batch_norm(): more than 1 value per channel is needed in training, got input of shape "
                         + shape_str(t))
    return normalize_by_input(c, _stats, _train)


cdef object instance_norm_body(Call* c):
    """Arguments: input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps."""
    cdef Tensor t = tensor_arg(c, 0)
    if bool_arg(c, 5):
        if one_place(t):
            raise ValueError("instance_norm(): more than 1 spatial element is needed in training, got input of shape "
                             + shape_str(t))
        return normalize_by_input(c, _instance, _instance_train)
    if is_none(c, 1) or is_none(c, 2):
        raise RuntimeError("instance_norm(): running_mean and running_var must be given when use_input_stats is False")
    return normalize_by_running(c, _instance_eval)


cdef object native_batch_norm(Call* c, object running_mean, object running_var, bint training, object momentum,
                              object eps):
    """Return the result, the mean and the reciprocal standard deviation. Slots 1 and 2 hold weight and bias."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef object out, weight = arg(c, 1), bias = arg(c, 2)
    cdef Tensor mean, rstd
    if t.ndim < 2:
        raise (IndexError if t.ndim else RuntimeError)(f"{op_name(c)}(): at least 2 dimensions are needed, got shape "
                                                       f"{shape_str(t)}")
    if c.out != NULL and isinstance(<object>c.out, (tuple, list)):
        for out in <object>c.out:
            if isinstance(out, Tensor) and (<Tensor>out).dtype is not t.dtype:
                raise errors.cannot_cast(op_name(c), t.dtype, (<Tensor>out).dtype)
            break       # the statistics may have another dtype
    if not training:
        out = call("nn.functional._batch_norm_eval", (t, running_mean, running_var, weight, bias, eps))
    elif running_mean is None or running_var is None:
        out = call("nn.functional._batch_norm_stats", (t, weight, bias, eps))
    else:
        out, mean, rstd = call("nn.functional._batch_norm_train", (t, running_mean, running_var, weight, bias, momentum,
                                                                   eps))
        call("copy_", (running_mean, mean))
        call("copy_", (running_var, rstd))
    if training or not is_cpu(result_device(c)):
        mean, rstd = call("nn.functional._batch_statistics", (t, weight, eps))
    else:
        mean, rstd = [call("new_empty", (t, (0,)), {"dtype": statistics_dtype(c, t, 1, 1)}) for _ in range(2)]
    return (out, mean, rstd)


cdef object native_batch_norm_body(Call* c):
    """Arguments: input, weight, bias, running_mean, running_var, training, momentum, eps."""
    return native_batch_norm(c, arg(c, 3), arg(c, 4), bool_arg(c, 5), arg(c, 6), arg(c, 7))


cdef object native_batch_norm_no_stats_body(Call* c):
    """Arguments: input, weight, bias, training, momentum, eps."""
    return native_batch_norm(c, None, None, bool_arg(c, 3), arg(c, 4), arg(c, 5))


define("nn.functional.batch_norm(Tensor input, Tensor? running_mean, Tensor? running_var, Tensor? weight=None, "
       "Tensor? bias=None, bool training=False, float momentum=0.1, float eps=1e-05) -> Tensor", batch_norm_body,
       COMPOSITE,
       "Normalize each channel (dimension 1) to mean 0 and variance 1, then multiply by `weight` and add `bias`, each "
       "of shape (C,). Training uses the statistics of the batch and updates the running statistics in place.")
define("native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, "
       "bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)", native_batch_norm_body,
       COMPOSITE | OUT | FUNCTION_ONLY,
       "`batch_norm` that also returns the mean and reciprocal standard deviation of the batch. Outside training on a "
       "CPU, these two are empty.")
define("_native_batch_norm_legit(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, "
       "bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)", native_batch_norm_body,
       COMPOSITE | OUT | FUNCTION_ONLY,
       "`native_batch_norm` with required running statistics. The overload `no_stats` takes no running statistics.")
define("_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, float momentum, "
       "float eps) -> (Tensor, Tensor, Tensor)", native_batch_norm_no_stats_body, COMPOSITE | OUT | FUNCTION_ONLY)
define("nn.functional.instance_norm(Tensor input, Tensor? running_mean=None, Tensor? running_var=None, "
       "Tensor? weight=None, Tensor? bias=None, bool use_input_stats=True, float momentum=0.1, float eps=1e-05) "
       "-> Tensor", instance_norm_body, COMPOSITE,
       "Normalize each channel (dimension 1) of each instance to mean 0 and variance 1, then multiply by `weight` and "
       "add `bias`, each of shape (C,). With `use_input_stats`, the statistics are computed from the input, and the "
       "running statistics, if given, are updated in place. Otherwise the running statistics are used.")

recorded_as("nn.functional.batch_norm", "norm.batch_norm")
recorded_as("nn.functional.instance_norm", "norm.instance_norm")
# Programs that were traced without gradients call these directly.
recorded_as("nn.functional._batch_norm_eval", "norm.batch_norm_eval")
recorded_as("nn.functional._batch_norm_stats", "norm.batch_norm_stats")
recorded_as("nn.functional._batch_norm_train", "norm.batch_norm_train")
recorded_as("nn.functional._instance_norm", "norm.instance_norm_stats")
recorded_as("nn.functional._instance_norm_train", "norm.instance_norm_train")
recorded_as("nn.functional._instance_norm_eval", "norm.instance_norm_eval")
recorded_as("native_batch_norm", "norm.native_batch_norm")
recorded_as("_native_batch_norm_legit", "norm.native_batch_norm")
recorded_as("_native_batch_norm_legit.no_stats", "norm.native_batch_norm_no_stats")
