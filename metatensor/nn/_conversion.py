"""Changing the device, dtype or other properties of all tensors of a module."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import metatensor as mt
from metatensor._core.tensor import Tensor
from metatensor.nn._parameter import without_grad

if TYPE_CHECKING:
    from typing_extensions import Self

    from metatensor.nn.module import Module

__all__ = ["Conversion"]


class _OncePerTensor:
    """A conversion of tensors that remembers its results, so that what was one tensor stays one tensor.

    `Module._apply` hands it down through the tree. The originals are kept alive meanwhile, as ids are only unique
    among the living.
    """

    def __init__(self, convert: Callable[[Tensor], Tensor]) -> None:
        self.convert = convert
        self.done: dict[int, tuple[Tensor, Tensor]] = {}

    def __call__(self, tensor: Tensor) -> Tensor:
        found = self.done.get(id(tensor))
        if found is not None:
            return found[1]
        result = without_grad(self.convert, tensor)
        self.done[id(tensor)] = (tensor, result)
        return result

    def in_place(self, parameter: Tensor) -> None:
        """Convert a parameter and its gradient; the object stays the same, so ties and optimizers hold."""
        if id(parameter) in self.done:
            return
        result = self(parameter)
        if result is not parameter:
            parameter.data = result
        gradient = parameter.grad
        if gradient is not None:
            converted = self(gradient)
            if converted is not gradient:
                parameter.grad = converted.requires_grad_(gradient.requires_grad)


class Conversion:
    """The converting methods of `Module`; all work in place and return the module."""

    __slots__ = ()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace the data of each parameter, its gradient, and each buffer by what ``fn`` makes of it."""
        if not isinstance(fn, _OncePerTensor):
            fn = _OncePerTensor(fn)
        if recurse:
            for module in self.children():
                module._apply(fn)
        for parameter in self._parameters.values():
            if parameter is not None:
                fn.in_place(parameter)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def apply(self, fn: Callable[[Module], Any]) -> Self:
        """Call ``fn`` with each module below and then with this one."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move to a device, change floating-point and complex tensors to a dtype, or both.

        Called as ``to(device=None, dtype=None, non_blocking=False, *, memory_format=None)``, ``to(dtype)`` or
        ``to(tensor)``, which means the tensor's device and dtype. ``memory_format`` applies to tensors of 4 and 5
        dimensions. TypeError for a dtype of integers; NotImplementedError when moving from meta to a real device,
        where there are no values to move (`to_empty` does that).
        """
        device, dtype, non_blocking, memory_format = _parse_to(*args, **kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(f"Module.to: the dtype must be floating-point or complex, not {dtype}")

        def convert(tensor: Tensor) -> Tensor:
            new_dtype = dtype if tensor.is_floating_point() or tensor.is_complex() else None
            options = {"memory_format": memory_format} if memory_format is not None and tensor.dim() in (4, 5) else {}
            try:
                return tensor.to(device, new_dtype, non_blocking, **options)
            except NotImplementedError as error:
                if tensor.is_meta and device is not None and device.type != "meta":
                    raise NotImplementedError(
                        f"Cannot copy out of meta tensor; no data! {_place(self, tensor)}has none. Module.to_empty(device=...) "
                        "moves a module from meta and leaves its values uninitialised; load_state_dict(..., assign=True) gives it "
                        "those of a checkpoint."
                    ) from error
                raise

        return self._apply(convert)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Move to a device without copying values: what the tensors hold afterwards is arbitrary.

        A tensor that stands in several places stays one tensor, and tensors that share a storage (views, split
        projections) go on sharing one, with the same offsets and strides. Warns, naming them, of buffers whose values
        no state dict brings back; `metatensor.deferred_init` and `metatensor.materialize` keep them.
        """
        device = mt.device(device)
        _warn_of_lost(self, recurse)
        tensors = [t for m in (self.modules() if recurse else [self]) for t in _own_tensors(m)]
        users: dict[int, set[int]] = {}
        for tensor in tensors:
            users.setdefault(tensor.untyped_storage()._cdata, set()).add(id(tensor))
        fresh: dict[int, Tensor] = {}

        def empty(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            if len(users.get(storage._cdata, ())) < 2:
                # Not of the tensor itself: what is deferred, or fake, would make this so, too.
                like = tensor if tensor.is_meta or storage.data is not None else mt.empty_like(tensor, device="meta")
                return mt.empty_like(like, device=device)
            if storage._cdata not in fresh:
                fresh[storage._cdata] = mt.empty(storage.nbytes(), dtype=mt.uint8, device=device)
            raw = fresh[storage._cdata]
            usable = raw.numel() // tensor.itemsize * tensor.itemsize
            whole = raw.narrow(0, 0, usable).view(tensor.dtype)
            return whole.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())

        return self._apply(empty, recurse=recurse)

    def share_memory(self) -> Self:
        """Move parameters and buffers to memory that processes forked afterwards share."""
        return self._apply(lambda tensor: tensor.share_memory_())

    def cpu(self) -> Self:
        """Move to the cpu device."""
        return self._apply(lambda tensor: tensor.cpu())

    def cuda(self, device: Any = None) -> Self:
        """Move to a CUDA device, the current one where none is given."""
        return self._apply(lambda tensor: tensor.cuda(device))

    def type(self, dst_type: Any) -> Self:
        """Change all tensors, integers too, to a dtype."""
        return self._apply(lambda tensor: tensor.type(dst_type))

    def float(self) -> Self:
        """Change floating-point tensors to float32."""
        return self._floats_to(mt.float32)

    def double(self) -> Self:
        """Change floating-point tensors to float64."""
        return self._floats_to(mt.float64)

    def half(self) -> Self:
        """Change floating-point tensors to float16."""
        return self._floats_to(mt.float16)

    def bfloat16(self) -> Self:
        """Change floating-point tensors to bfloat16."""
        return self._floats_to(mt.bfloat16)

    def _floats_to(self, dtype: mt.dtype) -> Self:
        return self._apply(lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set `requires_grad` of every parameter."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop every parameter's gradient, or fill it with zeros."""
        for parameter in self.parameters():
            if parameter.grad is not None:
                if set_to_none:
                    parameter.grad = None
                else:
                    parameter.grad = mt.zeros_like(parameter.grad)


def _own_tensors(module: Any) -> list[Tensor]:
    return [t for members in (module._parameters, module._buffers) for t in members.values() if t is not None]


def _parse_to(
    *args: Any,
    device: Any = None,
    dtype: Any = None,
    non_blocking: bool = False,
    memory_format: Any = None,
    tensor: Tensor | None = None,
) -> tuple[Any, Any, bool, Any]:
    """The device, dtype, non_blocking and memory_format that the forms of `Module.to` mean."""
    rest = list(args)
    if tensor is not None:
        rest.insert(0, tensor)
    if len(rest) > 3:
        raise TypeError(f"Module.to: expected at most 3 positional arguments, got {len(args)}")
    if rest:
        first = rest.pop(0)
        if isinstance(first, Tensor):
            device, dtype = first.device, first.dtype
        elif isinstance(first, mt.dtype):
            dtype = first
        else:
            device = first if device is None else device
            if rest:
                dtype = rest.pop(0)
        if rest:
            non_blocking = rest.pop(0)
    if rest:
        raise TypeError(f"Module.to: too many arguments: {rest}")
    if dtype is not None and not isinstance(dtype, mt.dtype):
        raise TypeError(f"Module.to: expected a dtype, got {dtype!r}")
    return None if device is None else mt.device(device), dtype, non_blocking, memory_format


def _warn_of_lost(module: Any, recurse: bool) -> None:
    """Say which buffers were computed, and are in no state dict."""
    lost = [
        f"{path}.{name}" if path else name
        for path, inner in (module.named_modules() if recurse else [("", module)])
        for name, buffer in inner._buffers.items()
        if buffer is not None and name in inner._non_persistent_buffers_set
    ]
    if lost:
        deferred = all(mt.is_deferred(buffer) for buffer in module.buffers(recurse) if buffer.numel())
        way = ("Call metatensor.materialize(model) instead" if deferred else
               "Build the model under metatensor.deferred_init() and call metatensor.materialize(model)")  # fmt: skip
        names = ", ".join(lost[:10]) + (f" and {len(lost) - 10} more" if len(lost) > 10 else "")
        warnings.warn(
            f"to_empty: the values of these buffers were computed, are in no state dict and are lost: {names}. {way} to have them.",
            UserWarning,
            stacklevel=3,
        )


def _place(module: Any, tensor: Tensor) -> str:
    """Where in a module a tensor stands, for a message."""
    for name, found in (*module.named_parameters(), *module.named_buffers()):
        if found is tensor:
            return f"{name} of {type(module).__name__} "
    return ""
