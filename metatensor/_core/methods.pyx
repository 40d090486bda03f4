"""Methods and properties of Tensor that are neither operators nor performance-critical."""

from collections import OrderedDict

from metatensor._core.graph cimport Node, NodeExtra, exposed, node_extra, registered, track_all
from metatensor._core.history cimport node_of
from metatensor._core.size cimport make_size
from metatensor._core.slots cimport set_buffer, type_set
from metatensor._core.tensor cimport (
    Tensor, TensorExtra, detach_from, extra_of, instance_of, set_layout,
    mark_changed, set_requires_grad, shape_str,
)
from metatensor._core.thread cimport hints
from metatensor._core.types cimport (
    KIND_COMPLEX, KIND_FLOAT, T_CONJ, T_CONSTANT, T_DISTRIBUTED, T_INFERENCE, T_NEG, T_NONLEAF, T_REQUIRES_GRAD,
    T_RETAINS_GRAD, T_VIEW, dim_t,
)
from metatensor._core.versions cimport own_versions, with_own_versions
from metatensor._core.late import later
from metatensor._core.op import registry


# Subclasses ---------------------------------------------------------------------------------

def __torch_function__(cls, func, types, args=(), kwargs=None):
    """Run `func` for a subclass. The default implementation computes as usual and wraps the results in `cls`."""
    from metatensor._core.overrides import default_torch_function
    return default_torch_function(cls, func, types, args, kwargs)


def _init_subclass(cls, **kwargs):
    super(Tensor, cls).__init_subclass__(**kwargs)
    from metatensor._core.overrides import declare
    declare(cls)


def _disabled_torch_dispatch_impl(cls, func, types, args=(), kwargs=None):
    """Return NotImplemented. This is the ``__torch_dispatch__`` of classes that do not override operators."""
    return NotImplemented


def _make_subclass(cls, data, require_grad=False):
    """Return ``data.detach()`` as an instance of the subclass `cls`. It shares the storage."""
    cdef Tensor source, t
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise TypeError("_make_subclass: expected a subclass of Tensor")
    if not isinstance(data, Tensor):
        raise TypeError(f"_make_subclass: expected a Tensor, got {type(data).__name__}")
    source = <Tensor>data
    t = instance_of(cls)
    set_layout(t, source.ndim, source.sizes, source.strides, source.offset)
    t.storage = source.storage
    t.dtype = source.dtype
    t.flags |= source.flags & (T_CONJ | T_NEG | T_CONSTANT)
    if require_grad:
        set_requires_grad(t, True)
    return t


def _make_wrapper_subclass(cls, size, strides=None, storage_offset=None, memory_format=None, dtype=None, layout=None,
                           device=None, pin_memory=False, requires_grad=False, dispatch_sizes_strides_policy=None,
                           dispatch_device=False, dispatch_layout=False):
    """Return an instance of `cls`, a class with ``__torch_dispatch__``, that has a shape but no data.

    Parameters
    ----------
    cls : type
        A subclass of Tensor that defines ``__torch_dispatch__``.
    size, strides, storage_offset, memory_format, dtype, layout, device, requires_grad
        As for `empty_strided`. The device need not be present. Default strides: contiguous in `memory_format`.
    pin_memory : bool
        Must be False.
    dispatch_sizes_strides_policy, dispatch_device, dispatch_layout
        Must have their defaults: overriding sizes, device and layout is not supported.

    Raises
    ------
    RuntimeError
        If `cls` does not define ``__torch_dispatch__``, or if both `strides` and `memory_format` are given.
    NotImplementedError
        If an argument that must have its default is given, or if the layout is not strided.
    """
    from metatensor._core.storage_views import tensor_from_storage
    from metatensor._core.storage import make_fake_storage
    cdef Tensor made
    cdef dim_t need = 1
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise TypeError("_make_wrapper_subclass: expected a subclass of Tensor")
    if not cls._overrides_torch_dispatch:
        raise RuntimeError(f"_make_wrapper_subclass: {cls.__name__} does not define __torch_dispatch__")
    if dispatch_sizes_strides_policy is not None or dispatch_device or dispatch_layout:
        raise NotImplementedError("_make_wrapper_subclass: the sizes, device and layout of a wrapper are fixed when it is made; "
                                  "dispatch_sizes_strides_policy, dispatch_device and dispatch_layout are not supported")
    if layout is not None and layout is not _layout(None):
        raise NotImplementedError(f"_make_wrapper_subclass: only the strided layout exists, not {layout}")
    if pin_memory:
        raise NotImplementedError("_make_wrapper_subclass: a wrapper has no memory that could be pinned")
    import metatensor
    size = tuple(size)
    dtype = metatensor.get_default_dtype() if dtype is None else dtype
    if strides is None:
        options = {} if memory_format is None else {"memory_format": memory_format}
        strides = metatensor.empty(size, dtype=dtype, device="meta", **options).stride()
    elif memory_format is not None:
        raise RuntimeError("_make_wrapper_subclass: strides and memory_format exclude each other")
    offset = storage_offset or 0
    for n, step in zip(size, strides):
        need = 0 if n == 0 or need == 0 else need + (n - 1) * step
    target = metatensor.get_default_device() if device is None else metatensor.device(device)
    storage = make_fake_storage(target, (offset + need) * dtype.itemsize if need else 0)
    made = _make_subclass(cls, tensor_from_storage(storage, dtype, size, tuple(strides), offset))
    if requires_grad:
        set_requires_grad(made, True)
    return made


def as_subclass(Tensor self not None, cls):
    """Return a view of this tensor that is an instance of `cls`, a subclass of Tensor."""
    cdef Tensor t = _make_subclass(cls, self)
    t.base = self if self.base is None else self.base
    t.flags |= T_VIEW | (self.flags & (T_REQUIRES_GRAD | T_NONLEAF))
    return t


# Metadata ---------------------------------------------------------------------------------

def element_size(Tensor self not None):
    """Return the size of one element in bytes."""
    return self.dtype.itemsize


def data_ptr(Tensor self not None):
    """Return the address of the first element, or 0 if the tensor is empty.

    A storage without data counts as starting at address 0.
    """
    return self.storage.data_ptr() + self.offset * self.dtype.itemsize if self.total else 0


def is_floating_point(Tensor self not None):
    """Return True if the dtype is a real floating-point dtype."""
    return self.dtype.kind == KIND_FLOAT


def is_complex(Tensor self not None):
    """Return True if the dtype is complex."""
    return self.dtype.kind == KIND_COMPLEX


def is_signed(Tensor self not None):
    """Return True if the dtype can represent negative numbers."""
    return self.dtype.is_signed


def is_conj(Tensor self not None):
    """Return True if the conjugate bit is set: the values are the conjugates of the stored ones."""
    return self.flags & T_CONJ != 0


def is_neg(Tensor self not None):
    """Return True if the negative bit is set: the values are the negatives of the stored ones."""
    return self.flags & T_NEG != 0


def is_inference(Tensor self not None):
    """Return True if the tensor was created in inference mode."""
    return self.flags & T_INFERENCE != 0


def get_device(Tensor self not None):
    """Return the index of the device, or -1 if it has none."""
    return self.storage.device.number


def _is_view(Tensor self not None):
    """Return True if the tensor is a view of another one."""
    return self.flags & T_VIEW != 0


def _layout(self):
    from metatensor._core.formats import strided
    return strided


def _names(Tensor self not None):
    return (None,) * self.ndim


# Gradients ----------------------------------------------------------------------------------

def requires_grad_(Tensor self not None, requires_grad=True):
    """Set `requires_grad` and return this tensor."""
    set_requires_grad(self, requires_grad)
    return self


def _get_grad(Tensor self not None):
    return None if self.extra is None else (<TensorExtra>self.extra).grad


def _set_grad(Tensor self not None, value):
    cdef Tensor g
    if value is None:
        if self.extra is not None:
            (<TensorExtra>self.extra).grad = None
        return
    if not isinstance(value, Tensor):
        raise TypeError(f"grad: expected a Tensor or None, got {type(value).__name__}")
    g = <Tensor>value
    if g is self:
        raise RuntimeError("grad: a tensor cannot be its own gradient")
    if g.dtype is not self.dtype or g.storage.device is not self.storage.device:
        raise RuntimeError(f"grad: expected {self.dtype.name} on {self.storage.device}, got {g.dtype.name} "
                           f"on {g.storage.device}")
    if make_size(self.ndim, self.sizes) != make_size(g.ndim, g.sizes):
        raise RuntimeError(f"grad: expected shape {shape_str(self)}, got {shape_str(g)}")
    extra_of(self).grad = g
    if g.node != NULL and g.flags & T_NONLEAF:
        track_all(<Node>g.node)     # it may lead to this tensor


def _del_grad(Tensor self not None):
    extra_of(self).grad = None


def _grad_fn(Tensor self not None):
    cdef int output
    cdef Node node
    if self.is_leaf:
        return None
    node = node_of(self, &output)
    return None if node is None else exposed(node)


def _output_nr(Tensor self not None):
    cdef int output = 0
    if self.flags & T_NONLEAF:
        node_of(self, &output)
    return output


def _retains_grad(Tensor self not None):
    return self.flags & T_RETAINS_GRAD != 0


def retain_grad(Tensor self not None):
    """Store the gradient of this non-leaf tensor in its ``grad`` during backward.

    Raises
    ------
    RuntimeError
        If the tensor does not require grad.
    """
    cdef int output
    cdef Node node
    if not self.flags & T_REQUIRES_GRAD:
        raise RuntimeError("retain_grad: this tensor does not require grad")
    if not self.flags & T_NONLEAF or self.flags & T_RETAINS_GRAD:
        return
    node = node_of(self, &output)
    if node is None:
        raise RuntimeError("retain_grad: how this tensor was computed was not recorded")
    if node_extra(node).retained is None:
        node_extra(node).retained = {}
    import weakref
    node_extra(node).retained[output] = weakref.ref(self)
    self.flags |= T_RETAINS_GRAD


def backward(Tensor self not None, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    """Compute the gradients of this tensor with respect to the leaves and add them to the leaves' ``grad``.

    Parameters
    ----------
    gradient : Tensor, optional
        The gradient of this tensor, with the same shape. Default: 1, which requires a tensor of one element.
    retain_graph : bool, optional
        Keep the saved values, so that backward can run through the graph again. Default: `create_graph`.
    create_graph : bool
        Record the computation, so that the gradients can be differentiated. Default False.
    inputs : Tensor or sequence of Tensor, optional
        Accumulate the gradients of these tensors only.

    Raises
    ------
    RuntimeError
        If the tensor does not require grad, the gradient does not fit, or saved values were freed or changed.
    """
    later("backward")(self, gradient, retain_graph, create_graph, inputs=inputs)


def register_hook(Tensor self not None, hook):
    """Call ``hook(grad)`` when the gradient of this tensor is known. The hook returns None or a gradient that replaces it.

    Returns
    -------
    handle
        An object whose `remove` removes the hook.

    Raises
    ------
    RuntimeError
        If the tensor does not require grad.
    """
    cdef int output
    cdef Node node
    cdef NodeExtra extra
    if not self.flags & T_REQUIRES_GRAD:
        raise RuntimeError("register_hook: the tensor does not require grad")
    if not self.flags & T_NONLEAF:
        return _leaf_hook(self, "gradient", hook, "register_hook")
    node = node_of(self, &output)
    if node is None:
        raise RuntimeError("register_hook: how this tensor was computed was not recorded")
    extra = node_extra(node)
    if extra.tensor_hooks is None:
        extra.tensor_hooks = {}
    if output not in extra.tensor_hooks:
        extra.tensor_hooks[output] = OrderedDict()
    return registered(extra.tensor_hooks[output], hook, "register_hook")


def register_post_accumulate_grad_hook(Tensor self not None, hook):
    """Call ``hook(tensor)`` after a gradient has been added to the ``grad`` of this leaf.

    Returns
    -------
    handle
        An object whose `remove` removes the hook.

    Raises
    ------
    RuntimeError
        If the tensor does not require grad or is not a leaf.
    """
    if not self.flags & T_REQUIRES_GRAD:
        raise RuntimeError("register_post_accumulate_grad_hook: the tensor does not require grad")
    if self.flags & T_NONLEAF:
        raise RuntimeError("register_post_accumulate_grad_hook: the tensor is not a leaf")
    return _leaf_hook(self, "accumulated", hook, "register_post_accumulate_grad_hook")


def hooks_after_accumulation(Tensor t not None):
    """Return the functions given to `register_post_accumulate_grad_hook` of a leaf."""
    cdef TensorExtra extra = <TensorExtra>t.extra
    if extra is None or extra.hooks is None:
        return []
    return list(extra.hooks.get("accumulated", {}).values())


cdef object _leaf_hook(Tensor t, str kind, object hook, str name):
    cdef TensorExtra extra = extra_of(t)
    if extra.hooks is None:
        extra.hooks = {}
    if kind not in extra.hooks:
        extra.hooks[kind] = OrderedDict()
    return registered(extra.hooks[kind], hook, name)


def _increment_version(Tensor self not None):
    mark_changed(self)


def _get_data(Tensor self not None):
    if self.flags & T_DISTRIBUTED:
        return later("data_of")(self)
    if hints.modes and later("is_traced")():
        return registry["_data"](self)
    return with_own_versions(self)


def _set_data(Tensor self not None, value):
    if not isinstance(value, Tensor):
        raise TypeError(f"data: expected a Tensor, got {type(value).__name__}")
    if self.flags & T_REQUIRES_GRAD and (<Tensor>value).dtype.kind not in (KIND_FLOAT, KIND_COMPLEX):
        raise RuntimeError(f"data: a tensor that requires grad cannot become {(<Tensor>value).dtype.name}")
    if self.flags & T_DISTRIBUTED:
        if hints.modes:
            later("refuse_in_trace")("an assignment to .data of a distributed tensor")
        later("set_data")(self, value)
        return
    if (<Tensor>value).flags & T_DISTRIBUTED:
        raise TypeError("data: a plain tensor cannot become a distributed one")
    if hints.modes and later("is_traced")():
        registry["_set_data"](self, value)
        return
    own_versions(self)
    detach_from(self, <Tensor>value)


# Methods with the same answer for every tensor ----------------------------------------------------

def dense_dim(Tensor self not None):
    """Return the number of dense dimensions, which is `ndim`."""
    return self.ndim


def sparse_dim(Tensor self not None):
    """Return the number of sparse dimensions, which is 0."""
    return 0


def is_distributed(Tensor self not None):
    """Return False: a plain tensor is not distributed over processes."""
    return False


def __reversed__(Tensor self not None):
    """Return the tensor with its first dimension reversed."""
    return self if self.ndim == 0 else self.flip(0)


# Conversion to other libraries. The implementations are in Python, because they move data ---------

def numpy(self, *, force=False):
    """Return a NumPy array that shares memory with this cpu tensor.

    Parameters
    ----------
    force : bool
        Whether to copy if memory cannot be shared. Default False.
    """
    return later("to_numpy")(self, force)


def __array__(self, dtype=None, copy=None):
    return later("to_array")(self, dtype, copy)


def __array_wrap__(self, array, context=None, return_scalar=False):
    return later("array_wrap")(self, array)


def __bytes__(self):
    """Return the elements of a vector of ints from 0 to 255 as bytes, as PyTorch does.

    The result is not the raw memory, unlike that of memoryview().
    """
    return bytes(self.__index__() if self.numel() == 1 else self.tolist())


def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
    """Return a DLPack capsule of the tensor's memory. Raise BufferError if the tensor cannot be exported."""
    return later("to_dlpack")(self, stream, max_version, dl_device, copy)


def __dlpack_device__(self):
    return later("dlpack_device")(self)


def __array_namespace__(self, /, *, api_version=None):
    """Return `metatensor.array_api`.

    Raise ValueError for an unsupported version of the standard.
    """
    return later("array_namespace")(api_version)


def to_device(self, device, /, *, stream=None):
    """Return the tensor on `device`: this object if it is already there, else a copy. `stream` is ignored."""
    return self.to(device)


def _array_interface(self):
    return later("array_interface")(self)


def _cuda_array_interface(self):
    return later("cuda_array_interface")(self)


cdef object _buffer_of(object self):
    """Return the NumPy array that provides the tensor's buffer."""
    return later("buffer_of")(self)


def __deepcopy__(self, memo):
    return later("deep_copy")(self, memo)


def __reduce_ex__(self, protocol):
    return later("reduce_tensor")(self)


def new(self, *args, size=None, device=None):
    """Return an uninitialized tensor of the given sizes, or a tensor with the values of a sequence.

    The result has this tensor's dtype and device type.
    """
    from metatensor._core import more_methods
    if size is not None:
        if args:
            raise TypeError("new(): takes sizes by position or as 'size', not both")
        args = tuple(size)
    return more_methods.new(self, args, device)


def apply_(self, callable):
    """Replace each element x of a cpu tensor by ``callable(x)``. Return the tensor."""
    from metatensor._core import more_methods
    return more_methods.apply_(self, callable)


def map_(self, tensor, callable):
    """Replace each element x of a cpu tensor by ``callable(x, y)``, where y is the element of `tensor`.

    Return the tensor.
    """
    from metatensor._core import more_methods
    return more_methods.map_(self, tensor, callable)


def module_load(Tensor self not None, other, assign=False):
    """Return the tensor that `Module.load_state_dict` stores.

    If `assign`, this is `other`, detached. Otherwise copy the values of `other` into this tensor and return that,
    detached.
    """
    return other.detach() if assign else self.detach().copy_(other)


def record_stream(self, stream):
    """Do nothing: memory is not reused on another stream while a tensor uses it."""


def to_dense(self, dtype=None, *, masked_grad=None):
    """Return the tensor, converted to `dtype` if that is given. Every tensor is dense."""
    return self if dtype is None else self.to(dtype)


def storage(self):
    """Return the storage as a sequence of elements of this dtype. It is deprecated in PyTorch."""
    return later("TypedStorage")(wrap_storage=self.untyped_storage(), dtype=self.dtype)


def storage_type(self):
    """Return the class of the result of `storage`."""
    return later("TypedStorage")


def _typed_storage(self):
    """Return `storage()`, without a warning."""
    return self.storage()


def is_coalesced(Tensor self not None):
    """Return False: no tensor is sparse."""
    return False


def resize(self, *sizes):
    """Return a view with the given sizes. It is deprecated in PyTorch."""
    return self.view(*sizes)


def resize_as(self, tensor):
    """Return a view with the sizes of ``tensor``. It is deprecated in PyTorch."""
    return self.view(tensor.size())


# Methods that only raise: those of sparse and quantized tensors, and those that PyTorch removed.
cdef dict _refusals = {
    "metatensor has strided tensors only": (NotImplementedError, (
        "coalesce sparse_mask to_mkldnn to_sparse to_sparse_coo to_sparse_bsc to_sparse_bsr to_sparse_csc to_sparse_csr")),
    "the tensor is strided, not sparse": (RuntimeError, "ccol_indices col_indices crow_indices indices row_indices values"),
    "the tensor is not quantized": (
        RuntimeError, "dequantize int_repr q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale q_zero_point qscheme"),
    "PyTorch removed this method; use the functions of linalg": (RuntimeError, "eig lstsq solve symeig"),
}


def _refusal(name, error, why):
    def refused(self, *args, **kwargs):
        raise error(f"{name}(): {why}")

    refused.__name__ = refused.__qualname__ = name
    refused.__doc__ = f"Raise {error.__name__}: {why}."
    return refused


cdef tuple _methods = (
    element_size, data_ptr, is_floating_point, is_complex, is_signed, is_conj, is_neg, is_inference,
    get_device, dense_dim, sparse_dim, is_distributed, __reversed__, _is_view, as_subclass, requires_grad_, retain_grad,
    backward, numpy, __array__, __array_wrap__, __bytes__, __dlpack__,
    __dlpack_device__, __array_namespace__, to_device, __deepcopy__, __reduce_ex__, new, apply_, map_, register_hook,
    register_post_accumulate_grad_hook, _increment_version, module_load, record_stream, to_dense, storage,
    storage_type, _typed_storage, is_coalesced, resize, resize_as,
)

type_set(Tensor, "__torch_function__", classmethod(__torch_function__))
type_set(Tensor, "__init_subclass__", classmethod(_init_subclass))
type_set(Tensor, "__torch_dispatch__", _disabled_torch_dispatch_impl)
type_set(Tensor, "_make_subclass", staticmethod(_make_subclass))
type_set(Tensor, "_make_wrapper_subclass", staticmethod(_make_wrapper_subclass))

set_buffer(Tensor, _buffer_of)

for _f in _methods:
    type_set(Tensor, _f.__name__, _f)
for _why, (_error, _refused) in _refusals.items():
    for _name in _refused.split():
        type_set(Tensor, _name, _refusal(_name, _error, _why))

for _name, _property in {
    "is_sparse": property(lambda self: False, doc="Whether the layout is sparse."),
    "is_sparse_csr": property(lambda self: False, doc="Whether the layout is sparse CSR."),
    "is_quantized": property(lambda self: False, doc="Whether the tensor is quantized."),
    "is_nested": property(lambda self: False, doc="Whether the tensor is nested."),
    "is_mkldnn": property(lambda self: False, doc="Whether the layout is oneDNN's."),
    "is_mps": property(lambda self: self.device.type == "mps", doc="Whether the device is mps."),
    "is_xpu": property(lambda self: self.device.type == "xpu", doc="Whether the device is xpu."),
    "is_xla": property(lambda self: self.device.type == "xla", doc="Whether the device is xla."),
    "is_ipu": property(lambda self: self.device.type == "ipu", doc="Whether the device is ipu."),
    "is_maia": property(lambda self: self.device.type == "maia", doc="Whether the device is maia."),
    "is_mtia": property(lambda self: self.device.type == "mtia", doc="Whether the device is mtia."),
    "is_vulkan": property(lambda self: self.device.type == "vulkan", doc="Whether the device is vulkan."),
    "__array_interface__": property(_array_interface, doc="The NumPy array interface of the memory."),
    "__cuda_array_interface__": property(_cuda_array_interface, doc="The CUDA array interface of the memory."),
    "layout": property(_layout, doc="The layout, always `strided`."),
    "names": property(_names, doc="Names of the dimensions: None for each."),
    "grad": property(_get_grad, _set_grad, _del_grad, "The gradient, or None."),
    "_grad": property(_get_grad, _set_grad, _del_grad, "The same as `grad`."),
    "grad_fn": property(_grad_fn, doc="The node of the call that returned the tensor; None for a leaf."),
    "output_nr": property(_output_nr, doc="Which output of `grad_fn` the tensor is."),
    "volatile": property(lambda self: False, doc="Always False. PyTorch no longer uses this property."),
    "retains_grad": property(_retains_grad, doc="Whether `retain_grad` was called and this is not a leaf."),
    "data": property(_get_data, _set_data, doc="A detached tensor that shares the storage."),
}.items():
    type_set(Tensor, _name, _property)


cdef extern from *:
    """
    /* As in PyTorch, user code may set attributes of the class: ``torch.Tensor.cuda = f``. */
    static void mt_allow_setattr(PyObject *type) {
        ((PyTypeObject *)type)->tp_flags &= ~Py_TPFLAGS_IMMUTABLETYPE;
        PyType_Modified((PyTypeObject *)type);
    }
    """
    void allow_setattr "mt_allow_setattr" (object type) noexcept

allow_setattr(Tensor)
