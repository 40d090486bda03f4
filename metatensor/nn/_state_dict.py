"""Methods of `Module` that save its state to a dict and load it back."""

from __future__ import annotations

import sys
import warnings
from collections import OrderedDict, namedtuple
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from metatensor._core.source_locations import is_ours
from metatensor._core.tensor import Tensor
from metatensor.nn._parameter import without_grad
from metatensor.nn.parameter import Parameter, is_lazy

if TYPE_CHECKING:
    from metatensor.nn.module import Module

__all__ = ["StateDict"]

_EXTRA_STATE = "_extra_state"


class _IncompatibleKeys(namedtuple("_IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """Result of `load_state_dict`: keys missing in the state dict, and keys that the module does not have."""

    __slots__ = ()

    def __repr__(self) -> str:
        return super().__repr__() if any(self) else "<All keys matched successfully>"

    __str__ = __repr__


class StateDict:
    """Methods of `Module` that save and load its state."""

    __slots__ = ()

    def get_extra_state(self) -> Any:
        """Return state other than tensors, to be saved in the state dict.

        A subclass that overrides this method must also override `set_extra_state`.
        """
        raise RuntimeError(f"{type(self).__name__} does not override get_extra_state()")

    def set_extra_state(self, state: Any) -> None:
        """Restore the state that `get_extra_state` returned."""
        raise RuntimeError(f"{type(self).__name__} does not override set_extra_state()")

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> OrderedDict[str, Any]:
        """Return the parameters and persistent buffers by dotted name.

        The tensors share their storage with the module. A tied tensor appears under each of its names. The attribute
        ``_metadata`` of the result holds the version of each module.

        Parameters
        ----------
        destination : dict, optional
            Dict to fill instead of a new one.
        prefix : str
            Put before each name. Default "".
        keep_vars : bool
            Return the tensors themselves instead of detached ones. Default False.

        Returns
        -------
        OrderedDict
            Tensors, and any extra state, by name.

        Examples
        --------
        >>> import metatensor as mt
        >>> list(mt.nn.Sequential(mt.nn.Linear(3, 2)).state_dict())
        ['0.weight', '0.bias']
        """
        if args:
            warnings.warn("state_dict: pass destination, prefix and keep_vars by name", FutureWarning, stacklevel=2)
            given = dict(zip(("destination", "prefix", "keep_vars"), args))
            destination = given.get("destination", destination)
            prefix = given.get("prefix", prefix)
            keep_vars = given.get("keep_vars", keep_vars)
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in self._hooks_of("_state_dict_pre_hooks"):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._hooks_of("_state_dict_hooks"):
            replaced = hook(self, destination, prefix, local_metadata)
            if replaced is not None:
                if getattr(hook, "_from_public_api", False):
                    raise RuntimeError("a state_dict post-hook must change the dict in place and return None")
                destination = replaced
        return destination

    def _hooks_of(self, table: str) -> list:
        return list(self.__dict__.get(table, {}).values())

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Add this module's own state, without that of its submodules, to ``destination``."""
        for name, parameter in self._parameters.items():
            if parameter is not None:
                destination[prefix + name] = parameter if keep_vars else parameter.detach()
        temporary = self._non_persistent_buffers_set if self._buffers else ()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in temporary:
                destination[prefix + name] = buffer if keep_vars else buffer.detach()
        if type(self).get_extra_state is not StateDict.get_extra_state:
            destination[prefix + _EXTRA_STATE] = self.get_extra_state()

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copy the values of a state dict into this module and its submodules.

        Parameters
        ----------
        state_dict : mapping
            Tensors by dotted name, of the shapes of the module's tensors.
        strict : bool
            Raise an error if the names differ from those of the module. Default True.
        assign : bool
            Replace the module's tensors by those of the dict, with their device and dtype, instead of copying values.
            Tied tensors stay tied. Default False.

        Returns
        -------
        tuple
            Named tuple (missing_keys, unexpected_keys).

        Raises
        ------
        TypeError
            If ``state_dict`` is not a mapping.
        RuntimeError
            If names or shapes do not match. The message lists all of them.

        Notes
        -----
        A meta tensor does not keep the values copied into it, so a warning is given.

        Examples
        --------
        >>> import metatensor as mt
        >>> layer = mt.nn.Linear(3, 2, device="meta")
        >>> layer.load_state_dict(mt.nn.Linear(3, 2, device="cpu").state_dict(), assign=True)
        <All keys matched successfully>
        >>> layer.weight.device
        device(type='cpu')
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"load_state_dict: expected a dict, got {type(state_dict).__name__}")
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        metadata = getattr(state_dict, "_metadata", {})
        ties = _tied_places(self) if assign else []
        state = OrderedDict(state_dict)

        _load(self, state, "", metadata, assign, missing, unexpected, errors)
        for places in ties:
            _tie_again(places)
        if strict:
            if missing:
                errors.insert(0, f"Missing in the state dict: {_quoted(missing)}.")
            if unexpected:
                errors.insert(0, f"Unexpected in the state dict: {_quoted(unexpected)}.")
        if errors:
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t" + "\n\t".join(errors))
        return _IncompatibleKeys(missing, unexpected)

    def _load_from_state_dict(
        self,
        state_dict: Mapping[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Load this module's own state, without that of its submodules, and append problems to the lists.

        ``state_dict`` contains the entries whose names start with ``prefix``. Overriding methods may change it.
        """
        for hook in self._hooks_of("_load_state_dict_pre_hooks"):
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        temporary = self._non_persistent_buffers_set if self._buffers else ()
        own = {**self._parameters, **{k: v for k, v in self._buffers.items() if k not in temporary}}
        own = {name: tensor for name, tensor in own.items() if tensor is not None}
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, tensor in own.items():
            key = prefix + name
            if key in state_dict:
                problem = self._load_one(name, key, tensor, state_dict[key], assign)
                if problem is not None:
                    error_msgs.append(problem)
            elif strict:
                missing_keys.append(key)
        extra = prefix + _EXTRA_STATE
        has_extra = type(self).set_extra_state is not StateDict.set_extra_state
        if has_extra and extra in state_dict:
            self.set_extra_state(state_dict[extra])
        elif has_extra and strict:
            missing_keys.append(extra)
        if strict:
            for key in state_dict:
                first, dot, _ = key[len(prefix) :].partition(".")
                known = first in self._modules if dot else first in own
                if key.startswith(prefix) and not known and not (has_extra and key == extra):
                    unexpected_keys.append(key)

    def _load_one(self, name: str, key: str, tensor: Tensor, value: Any, assign: bool) -> str | None:
        """Load one tensor. Return the reason if that is impossible, else None."""
        if not isinstance(value, Tensor):
            return f"{key}: expected a Tensor in the state dict, got {type(value).__name__}."
        if is_lazy(tensor) and is_lazy(value):
            return None
        if tensor.dim() == 0 and value.dim() == 1 and value.shape[0] == 1:
            value = value.reshape(())  # very old checkpoints store scalars with shape (1,)
        if value.shape != tensor.shape:
            return (
                f"size mismatch for {key}: the state dict has shape {list(value.shape)}, "
                f"the module has {list(tensor.shape)}."
            )
        if tensor.is_meta and not value.is_meta and not assign:
            warnings.warn(
                f"{key}: values are loaded into a meta tensor, which cannot hold them; pass assign=True to "
                "load_state_dict to use the tensors of the state dict, or call to_empty() first",
                stacklevel=_level_of_caller(),
            )
        try:
            if assign:
                without_grad(self._take_over, name, tensor, value)
            else:
                without_grad(tensor.copy_, value)
        except Exception as error:
            return f"{key} (shape {list(value.shape)}): {type(error).__name__}: {error}"
        return None

    def _take_over(self, name: str, tensor: Tensor, value: Tensor) -> None:
        if isinstance(tensor, Parameter):
            if isinstance(value, Parameter):
                value.requires_grad_(tensor.requires_grad)
            else:
                value = Parameter(value, tensor.requires_grad)
        setattr(self, name, value)


def _load(
    module: Module, entries: Mapping[str, Any], prefix: str, metadata: Mapping[str, Any], assign: bool, missing: list[str],
    unexpected: list[str], errors: list[str],
) -> None:  # fmt: skip
    """Load a module and its submodules. This is not a closure, because a recursive closure is a reference cycle."""
    local_metadata = dict(metadata.get(prefix[:-1], {}))
    if assign:
        local_metadata["assign_to_params_buffers"] = True
    module._load_from_state_dict(entries, prefix, local_metadata, True, missing, unexpected, errors)
    children = [(name, child) for name, child in module._modules.items() if child is not None]
    if children:
        below = _by_child(entries, len(prefix))
        for name, child in children:
            _load(child, below.get(name, {}), f"{prefix}{name}.", metadata, assign, missing, unexpected, errors)
    keys = _IncompatibleKeys(missing, unexpected)
    for hook in module._hooks_of("_load_state_dict_post_hooks"):
        if hook(module, keys) is not None:
            raise RuntimeError("a load_state_dict post-hook must change the lists in place and return None")


def _level_of_caller() -> int:
    """Return the ``stacklevel`` with which the calling function warns about the line that called `load_state_dict`.

    The number of frames in between depends on the depth of the module and on methods that override ours.
    """
    frame = sys._getframe(1)
    frames = [frame]
    while frame.f_back is not None:
        frame = frame.f_back
        frames.append(frame)
    own = [is_ours(frame) for frame in frames]
    names = [frame.f_code.co_name if ours else "" for frame, ours in zip(frames, own)]
    start = names.index("load_state_dict") if "load_state_dict" in names else 0
    return own.index(False, start) + 1 if False in own[start:] else len(frames)


def _by_child(entries: Mapping[str, Any], start: int) -> dict[str, dict[str, Any]]:
    """Return the entries of each submodule by its name, which is the text between ``start`` and the next dot."""
    below: dict[str, dict[str, Any]] = {}
    for key, value in entries.items():
        end = key.find(".", start)
        if end >= 0:
            below.setdefault(key[start:end], {})[key] = value
    return below


def _tied_places(root: Any) -> list[list[tuple[Module, str, Tensor]]]:
    """Return the places (module, name, tensor) of each parameter and buffer that is registered more than once."""
    places: dict[int, list[tuple[Module, str, Tensor]]] = {}
    for module in root.modules():
        for members in (module._parameters, module._buffers):
            for name, tensor in members.items():
                if tensor is not None:
                    places.setdefault(id(tensor), []).append((module, name, tensor))
    return [group for group in places.values() if len(group) > 1]


def _tie_again(places: list[tuple[Module, str, Tensor]]) -> None:
    """If a tied tensor was replaced in some of its places, put the last replacement into all of them."""
    now = [getattr(module, name) for module, name, _ in places]
    replaced = [tensor for tensor, (_, _, before) in zip(now, places) if tensor is not before]
    if replaced:
        for module, name, _ in places:
            setattr(module, name, replaced[-1])


def _quoted(names: list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
