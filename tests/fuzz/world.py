"""The names that programs use: tensors in many forms, and objects that misbehave."""
# The programs use these imports.
# ruff: noqa: F401, F811

import collections
import copy
import gc
import operator
import pickle
import threading
import warnings
import weakref

import metatensor as mt
from metatensor import autograd, library, nn
from metatensor._core import (
    dtype,
    execute,
    formats,
    host,
    layout,
    memory,
    modes,
    op,
    random,
    schema,
    size,
    storage,
    storage_views,
    thread,
)
from metatensor.interchange.arrays import rebuild_tensor
from oracle.records import Decoder, Resolver, invoke

FORMS = ("plain", "transposed", "expanded", "sliced", "stepped", "offset", "permuted", "overlapping", "conj", "neg",
         "grad", "nonleaf", "inference", "parameter", "subclass", "override", "view", "fake", "channels", "huge")


class Oops(Exception):
    """Raised by the objects below."""


class Sub(mt.Tensor):
    """A subclass that overrides nothing."""

    __torch_function__ = mt._core.tensor._disabled_torch_function_impl


class Override(mt.Tensor):
    """A subclass whose override runs every call unchanged."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs)


class Liar(mt.Tensor):
    """A subclass whose override returns arbitrary results."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return [NotImplemented, None, 3, (), [args], args[0] if args else None][len(getattr(func, "__name__", "")) % 6]


def T(shape, dtype="float32", form="plain", device=None):
    """Return a tensor of a shape and dtype in one of `FORMS`. If the form does not fit the shape, it is plain."""
    dtype = getattr(mt, dtype)
    device = device or T.device
    new = lambda *s: _new(s, dtype, device)
    if form == "fake":
        made = storage.make_fake_storage("cpu", max(_elements(shape), 0) * dtype.itemsize)
        return storage_views.tensor_from_storage(made, dtype, tuple(shape), layout.contiguous_strides(shape))
    if form == "inference":
        with mt.inference_mode():
            return new(*shape)
    if form == "transposed" and len(shape) > 1:
        return new(*shape[::-1]).permute(*range(len(shape))[::-1])
    if form == "permuted" and len(shape) > 2:
        return new(shape[1], *shape[2:], shape[0]).movedim(-1, 0)
    if form == "expanded" and shape:
        return new(1, *shape[1:]).expand(*shape)
    if form == "sliced" and shape:
        return new(shape[0] + 2, *shape[1:])[1:-1]
    if form == "stepped" and shape:
        return new(*shape[:-1], 2 * shape[-1])[..., ::2]
    if form == "offset":
        return new(2, *shape)[1]
    if form == "overlapping" and shape:
        return new(_elements(shape) + 1).as_strided(shape, (1,) * len(shape))
    if form == "huge" and shape and device == "meta":
        return new(1, *shape[1:]).expand(2**38, *shape[1:])
    if form == "channels" and len(shape) in (4, 5):
        return new(*shape).to(memory_format=mt.channels_last if len(shape) == 4 else mt.channels_last_3d)
    made = new(*shape)
    if form == "view":
        return made.view(shape)
    if form == "conj":
        return made.conj()
    if form == "neg":
        return made._neg_view()
    if form in ("grad", "nonleaf", "parameter") and (dtype.is_floating_point or dtype.is_complex):
        if form == "parameter":
            return nn.Parameter(made)
        made.requires_grad = True
        return made * 1 if form == "nonleaf" else made
    if form in ("subclass", "override"):
        return made.as_subclass(Sub if form == "subclass" else Override)
    return made


T.device = "meta"


def _new(shape, dtype, device):
    """Return zeros, so that values are the same every time."""
    t = mt.empty(shape, dtype=dtype, device=device)
    return t if device == "meta" or dtype in _NO_NUMBERS else t.zero_()


_NO_NUMBERS = {d for d in vars(mt).values() if isinstance(d, mt.dtype) and str(d).split(".")[1].startswith(("q", "bits", "float4"))}


def _elements(shape):
    n = 1
    for s in shape:
        n *= s
    return n


# Objects that misbehave. They call `act` in the middle of the call that they are arguments of. --------------------


def _acts(base, names):
    """Return a subclass of `base` whose special methods call `act` first."""

    def method(name):
        def run(self, *args):
            act, self.act = self.act, None  # only once, because `act` may use the object again
            if act is not None:
                act()
            return getattr(base, name)(self, *args)

        return run

    return {name: method(name) for name in names}


_INT = ("__index__", "__int__", "__float__", "__bool__", "__eq__", "__lt__", "__gt__", "__le__", "__ge__", "__add__",
        "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__neg__", "__floordiv__", "__mod__", "__repr__")
_FLOAT = ("__float__", "__int__", "__bool__", "__eq__", "__lt__", "__gt__", "__add__", "__mul__", "__neg__", "__repr__")


class _Acting:
    def __new__(cls, value, act=None):
        self = super().__new__(cls, value)
        self.act = act
        return self

    __hash__ = None


Int = type("Int", (_Acting, int), _acts(int, _INT))
Float = type("Float", (_Acting, float), _acts(float, _FLOAT))
Str = type("Str", (_Acting, str), {**_acts(str, ("__eq__", "__len__", "__iter__", "__getitem__", "__repr__")),
                                   "__hash__": str.__hash__})
List = type("List", (list,), {"act": None, **_acts(list, ("__len__", "__getitem__", "__iter__"))})
Tuple = type("Tuple", (_Acting, tuple), _acts(tuple, ("__len__", "__getitem__", "__iter__")))


class Index:
    """An object with `__index__` that is not an int."""

    def __init__(self, value, act=None):
        self.value, self.act = value, act

    def __index__(self):
        if self.act is not None:
            self.act()
        return self.value

    __int__ = __index__


class Real(Index):
    """An object with `__float__` that is not a float."""

    __index__ = None

    def __float__(self):
        if self.act is not None:
            self.act()
        return self.value


class Seq:
    """A sequence that claims any length. Its items may call `act`."""

    def __init__(self, items, length=None, act=None):
        self.items, self.length, self.act = items, length, act

    def __len__(self):
        if self.act is not None:
            self.act()
        return len(self.items) if self.length is None else self.length

    def __getitem__(self, i):
        if self.act is not None:
            self.act()
        return self.items[i]


class Scalar0:
    """An object that looks like a NumPy scalar."""

    ndim = 0
    shape = ()

    def __init__(self, value, dtype=None, act=None):
        self.value, self.dtype, self.act = value, dtype, act

    def item(self):
        if self.act is not None:
            self.act()
        return self.value


class Thrower:
    """An object whose attributes and special methods raise."""

    def __getattr__(self, name):
        raise Oops(name)

    def _throw(self, *args):
        raise Oops("no")

    __len__ = __getitem__ = __index__ = __float__ = __bool__ = __eq__ = __iter__ = __int__ = __call__ = __repr__ = _throw
    __hash__ = object.__hash__


class Meddler(mt.DispatchMode):
    """A mode that does something other than running the op. `kind` selects what."""

    def __init__(self, kind, act=None):
        self.kind, self.act = kind, act

    def dispatch(self, op, args, kwargs):
        if self.act is not None:
            self.act()
        if self.kind == "pass":
            return op(*args, **kwargs)
        if self.kind == "raise":
            raise Oops(op.name)
        if self.kind == "args":
            return args
        if self.kind == "none":
            return None
        if self.kind == "twice":
            op(*args, **kwargs)
            return op(*args, **kwargs)
        if self.kind == "leave":
            self.__exit__(None, None, None)
            self.__enter__()
        if self.kind == "clone":
            out = op(*args, **kwargs)
            return out.clone() if isinstance(out, mt.Tensor) else out
        return op(*args[:-1], **kwargs)


class Net(nn.Module):
    """A module with a parameter, a buffer and a submodule."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(T((3, 3)))
        self.register_buffer("running", T((3,)))
        self.inner = nn.Linear(3, 3, device=T.device)

    def forward(self, x):
        return self.inner(x) @ self.weight + self.running


class Scaled(mt.autograd.Function):
    """A function that saves its arguments and its result."""

    @staticmethod
    def forward(ctx, x, y):
        out = x * y
        ctx.save_for_backward(x, y if isinstance(y, mt.Tensor) else None, out)
        return out

    @staticmethod
    def backward(ctx, grad):
        x, y, _ = ctx.saved_tensors
        return grad * (1 if y is None else y), None if y is None else grad * x


class Written(mt.autograd.Function):
    """A function that changes its argument."""

    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class Odd(mt.autograd.Function):
    """A function whose forward and backward return anything."""

    @staticmethod
    def forward(ctx, x, value):
        ctx.value = value
        ctx.itself = ctx
        return x, x.detach(), value

    @staticmethod
    def backward(ctx, *grads):
        return ctx.value


def utils_checkpoint(x):
    """Run a function under `checkpoint`."""
    return mt.utils.checkpoint.checkpoint(lambda t: (t * t).exp(), x, use_reentrant=False)


def first(value):
    """Return the first tensor of a result."""
    return value if isinstance(value, mt.Tensor) else next((t for t in value if isinstance(t, mt.Tensor)), value)


def in_threads(*functions):
    """Run functions concurrently, each in several threads. Raise the most serious of their exceptions."""
    raised = []

    def run(function):
        try:
            for _ in range(3):
                function()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(f,)) for f in functions * 2]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for error in raised:
        if isinstance(error, SystemError):
            raise error
    if raised:
        raise raised[0]


def R(call, args, kwargs):
    """Make a recorded call of `tests/oracle` with its JSON arguments."""
    decode = Decoder(mt, T.device)
    return invoke(_resolve, call, decode(args), decode(kwargs))


_resolve = Resolver(mt)
O = op.registry
Ellipsis_ = ...
inf, nan = float("inf"), float("nan")
NAMES = {name: value for name, value in globals().items() if not name.startswith("__")}
