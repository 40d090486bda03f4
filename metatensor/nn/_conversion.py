"""Methods of `Module` that change the device, dtype or other properties of all its tensors."""

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
    """Conversion of tensors that caches its results, so that a shared tensor stays shared.

    `Module._apply` passes it down the module tree. It keeps the originals alive because an id is unique only while its
    object exists.
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
        """Convert a parameter and its gradient. The parameter object stays the same, so all references remain valid."""
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
    """Conversion methods of `Module`. Unless stated otherwise, they work in place and return the module."""

    __slots__ = ()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace the data of each parameter, its gradient, and each buffer by the result of ``fn``."""
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
        """Call ``fn`` on each submodule and then on this module.

        Parameters
        ----------
        fn : callable
            Function of a module. Its result is ignored.

        Returns
        -------
        Module
            This module.

        Examples
        --------
        >>> import metatensor as mt
        >>> model = mt.nn.Sequential(mt.nn.ReLU(), mt.nn.Tanh())
        >>> _ = model.apply(lambda module: print(type(module).__name__))
        ReLU
        Tanh
        Sequential
        """
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move all tensors to a device, convert floating-point and complex ones to a dtype, or both.

        The signatures are ``to(device=None, dtype=None, non_blocking=False, *, memory_format=None)``, ``to(dtype)`` and
        ``to(tensor)``, which uses the tensor's device and dtype. ``memory_format`` applies to tensors of 4 or 5
        dimensions.

        Returns
        -------
        Module
            This module.

        Raises
        ------
        TypeError
            If the dtype is neither floating-point nor complex.
        NotImplementedError
            If a tensor would be moved from meta to a real device. There are no values to copy. Use `to_empty` instead.

        Examples
        --------
        >>> import metatensor as mt
        >>> mt.nn.Linear(3, 2).to("meta", mt.float16).weight.dtype
        metatensor.float16
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
                        f"Cannot copy out of meta tensor; no data! {_place(self, tensor)}is on meta. "
                        "Module.to_empty(device=...) moves a module from meta and leaves its values uninitialized; "
                        "load_state_dict(..., assign=True) gives it the values of a checkpoint."
                    ) from error
                raise

        return self._apply(convert)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Move all tensors to a device without copying values. Their new values are arbitrary.

        A tensor that is registered several times stays a single tensor. Tensors that share a storage (views, split
        projections) share one afterwards, with the same offsets and strides. A warning names buffers that no state dict
        restores. To keep their values, use `metatensor.deferred_init` and `metatensor.materialize`.

        Parameters
        ----------
        device : device or str
            Target device.
        recurse : bool
            Include submodules. Default True.

        Returns
        -------
        Module
            This module.

        Examples
        --------
        >>> import metatensor as mt
        >>> mt.nn.Linear(3, 2, device="meta").to_empty(device="cpu").weight.device
        device(type='cpu')
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
                # Imitate a meta tensor: empty_like of a deferred or fake tensor would be deferred or fake too.
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
        """Move parameters and buffers to memory that is shared with processes forked later."""
        return self._apply(lambda tensor: tensor.share_memory_())

    def cpu(self) -> Self:
        """Move all tensors to the CPU."""
        return self._apply(lambda tensor: tensor.cpu())

    def cuda(self, device: Any = None) -> Self:
        """Move all tensors to a CUDA device, by default the current one."""
        return self._apply(lambda tensor: tensor.cuda(device))

    def type(self, dst_type: Any) -> Self:
        """Convert all tensors, including integer ones, to ``dst_type``."""
        return self._apply(lambda tensor: tensor.type(dst_type))

    def float(self) -> Self:
        """Convert floating-point tensors to float32."""
        return self._floats_to(mt.float32)

    def double(self) -> Self:
        """Convert floating-point tensors to float64."""
        return self._floats_to(mt.float64)

    def half(self) -> Self:
        """Convert floating-point tensors to float16."""
        return self._floats_to(mt.float16)

    def bfloat16(self) -> Self:
        """Convert floating-point tensors to bfloat16."""
        return self._floats_to(mt.bfloat16)

    def _floats_to(self, dtype: mt.dtype) -> Self:
        return self._apply(lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set ``requires_grad`` of all parameters."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set the gradients of all parameters to None or, if ``set_to_none`` is False, to zeros. Return None."""
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
    """Return (device, dtype, non_blocking, memory_format) for the arguments of `Module.to`."""
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
    """Warn about buffers that no state dict contains, and name them."""
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
            f"to_empty: state dicts do not contain these buffers, so their computed values are lost: {names}. {way} to keep them.",
            UserWarning,
            stacklevel=3,
        )


def _place(module: Any, tensor: Tensor) -> str:
    """Return the name of a tensor within a module, for a message, or "The tensor " if it is not found."""
    for name, found in (*module.named_parameters(), *module.named_buffers()):
        if found is tensor:
            return f"{name} of {type(module).__name__} "
    return "The tensor "
