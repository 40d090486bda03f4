"""Containers of parameters: `ParameterList` and `ParameterDict`."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from metatensor._core.tensor import Tensor
from metatensor.nn.module import Module
from metatensor.nn.parameter import Parameter

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["ParameterDict", "ParameterList"]


def _as_parameter(value: Any) -> Any:
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _describe(value: Any) -> str:
    if not isinstance(value, Tensor):
        return f"Object of type: {type(value).__name__}"
    kind = "Parameter" if isinstance(value, Parameter) else type(value).__name__
    place = "" if value.device.type == "cpu" else f" ({value.device})"
    return f"{kind} containing: [{value.dtype} of size {'x'.join(map(str, value.shape))}{place}]"


def _show(container: Module, items: Iterable[tuple[Any, Any]]) -> str:
    lines = [f"\n    ({key}): {_describe(value)}" for key, value in items]
    return f"{type(container).__name__}({''.join(lines)}" + ("\n)" if lines else ")")


class ParameterList(Module):
    """List of parameters.

    Tensors that are put into it become parameters. Other values are stored unchanged.

    Parameters
    ----------
    values : iterable, optional
        Initial elements.

    Examples
    --------
    >>> import metatensor as mt
    >>> weights = mt.nn.ParameterList([mt.zeros(2, 3), mt.zeros(4)])
    >>> [p.shape for p in weights]
    [metatensor.Size([2, 3]), metatensor.Size([4])]
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def _index(self, index: int) -> int:
        index = operator.index(index)
        if not -len(self) <= index < len(self):
            raise IndexError(f"ParameterList: there is no element {index} among {len(self)}")
        return index % len(self)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            result = type(self)()
            for i in range(*index.indices(len(self))):
                result.append(self[i])
            return result
        return getattr(self, str(self._index(index)))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, str(self._index(index)), _as_parameter(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(len(self))])

    def __iadd__(self, values: Iterable[Any]) -> Self:
        return self.extend(values)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def append(self, value: Any) -> Self:
        """Add a value at the end and return the list."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Add values at the end and return the list. Raise TypeError if ``values`` is a tensor or not iterable."""
        if isinstance(values, Tensor) or not isinstance(values, Iterable):
            raise TypeError(f"ParameterList: expected an iterable of values, got {type(values).__name__}")
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        """Return one line per value with its class, dtype and shape."""
        return "\n".join(f"({i}): {_describe(value)}" for i, value in enumerate(self))

    def __repr__(self) -> str:
        return _show(self, enumerate(self))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("a ParameterList is not callable")


class ParameterDict(Module):
    """Dictionary of parameters in insertion order.

    Tensors that are put into it become parameters. Other values are stored unchanged.

    Parameters
    ----------
    parameters : mapping or iterable of pairs, optional
        Initial names and values.

    Examples
    --------
    >>> import metatensor as mt
    >>> weights = mt.nn.ParameterDict({"scale": mt.ones(3)})
    >>> weights["scale"].requires_grad
    True
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def _attribute(self, key: Any) -> str:
        """Return the name of the attribute that holds ``key``. It has a prefix if the name itself is taken."""
        if not isinstance(key, str):
            raise TypeError(f"ParameterDict: a key must be a str, not {key!r}")
        name = str(key)
        while hasattr(type(self), name) or name == "_keys":
            name = f"_{name}"
        return name

    def __getitem__(self, key: str) -> Any:
        return getattr(self, self._attribute(key))

    def __setitem__(self, key: str, value: Any) -> None:
        attribute = self._attribute(key)
        self._keys[key] = None
        setattr(self, attribute, _as_parameter(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, self._attribute(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        """Return a new dictionary with the same parameters."""
        return ParameterDict(self.items())

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Return the value of ``key``, after setting it to ``default`` if it is missing."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Remove all values."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Remove and return the value of ``key``. Raise AttributeError if there is none."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove the last key and return it with its value."""
        key = next(reversed(self))
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of ``key``, or ``default`` if there is none."""
        return self[key] if key in self else default

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """Return a new dictionary with the same value for all keys."""
        return ParameterDict((key, default) for key in keys)

    def keys(self) -> Iterable[str]:
        """Return the names."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Return pairs of name and value."""
        return [(key, self[key]) for key in self]

    def values(self) -> Iterable[Any]:
        """Return the values."""
        return [self[key] for key in self]

    def update(self, parameters: Any) -> None:
        """Add values from a mapping or an iterable of (name, value) pairs, replacing those of the same names.

        Names are added in the order of an `OrderedDict`, a `ParameterDict` or an iterable of pairs. Those of any other
        mapping, including a plain dict, are sorted first.

        Raises
        ------
        TypeError
            If ``parameters``, or one of its elements, is not iterable.
        ValueError
            If an element does not have exactly two parts.
        """
        if not isinstance(parameters, Iterable):
            raise TypeError(f"ParameterDict: expected a mapping or pairs, got {type(parameters).__name__}")
        if isinstance(parameters, (OrderedDict, ParameterDict)):
            parameters = parameters.items()
        elif isinstance(parameters, Mapping):
            parameters = sorted(parameters.items(), key=operator.itemgetter(0))
        for i, pair in enumerate(parameters):
            if not isinstance(pair, Iterable):
                raise TypeError(f"ParameterDict: element {i} is a {type(pair).__name__}, not a pair")
            entry = list(pair)
            if len(entry) != 2:
                raise ValueError(f"ParameterDict: element {i} has {len(entry)} parts, not 2")
            self[entry[0]] = entry[1]

    def extra_repr(self) -> str:
        """Return one line per value with its class, dtype and shape."""
        return "\n".join(f"({key}): {_describe(value)}" for key, value in self.items())

    def __repr__(self) -> str:
        return _show(self, self.items())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("a ParameterDict is not callable")

    def __or__(self, other: ParameterDict) -> ParameterDict:
        result = self.copy()
        result.update(other)
        return result

    def __ror__(self, other: ParameterDict) -> ParameterDict:
        result = other.copy()
        result.update(self)
        return result

    def __ior__(self, other: ParameterDict) -> Self:
        self.update(other)
        return self
