"""The base class of transforms, with inversion, composition and independence of dimensions."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Sequence
from typing import Any

from metatensor.distributions import constraints
from metatensor.distributions.utils import _sum_rightmost

__all__ = ["ComposeTransform", "IndependentTransform", "Transform", "identity_transform", "same"]


def same(a: Any, b: Any) -> bool:
    """Return True if two parameters have equal values. They may be numbers or tensors."""
    if a is b:
        return True
    equal = a == b
    return bool(equal.all()) if hasattr(equal, "all") else bool(equal)


class Transform:
    """Base class of maps whose ``log |det Jacobian|`` is known.

    Parameters
    ----------
    cache_size : int
        If 1, keep the last pair of input and output, so that inverting the last output returns the input itself. If 0,
        keep nothing. Default: 0.

    Raises
    ------
    ValueError
        If `cache_size` is neither 0 nor 1.

    Notes
    -----
    A subclass sets `domain` and `codomain` (constraints) and `bijective`, and defines `_call`, `_inverse` and
    `log_abs_det_jacobian`. A monotone transform of numbers has a `sign`: +1 if it is increasing, -1 if it is
    decreasing. A transform that changes shapes defines `forward_shape` and `inverse_shape`.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import ExpTransform
    >>> t = ExpTransform()
    >>> x = mt.zeros(2, device="cpu")
    >>> t(x), t.inv(t(x)), t.log_abs_det_jacobian(x, t(x))
    (tensor([1., 1.]), tensor([0., 0.]), tensor([0., 0.]))
    """

    domain: Any
    codomain: Any
    bijective: Any = False
    _compared: tuple[str, ...] | None = None
    """Names of the parameters that are compared by ``==``. If None, a transform is equal only to itself."""

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError(f"{type(self).__name__}(): cache_size must be 0 or 1, got {cache_size}")
        self._cache_size = cache_size
        self._inv: Any = None
        self._cached_x_y: tuple[Any, Any] = (None, None)

    # Application

    def _call(self, x: Any) -> Any:
        """Map `x`, which lies in the domain."""
        raise NotImplementedError(f"{type(self).__name__} does not implement _call()")

    def _inverse(self, y: Any) -> Any:
        """Return a value in the domain that is mapped to `y`."""
        raise NotImplementedError(f"{type(self).__name__} does not implement _inverse()")

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Return ``log |det dy/dx|``.

        Parameters
        ----------
        x : Tensor
            Input.
        y : Tensor
            Output for `x`.

        Returns
        -------
        Tensor
            One number for each value, so the event dimensions of the domain are missing from its shape.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement log_abs_det_jacobian()")

    def __call__(self, x: Any) -> Any:
        """Map `x`, which lies in the domain."""
        return self._cached(0, x, self._call)

    def _inv_call(self, y: Any) -> Any:
        return self._cached(1, y, self._inverse)

    def _cached(self, side: int, given: Any, compute: Any) -> Any:
        """Return the other element of the cached pair if it contains `given`.

        Otherwise compute it and cache the new pair.

        `side` is 0 if `given` is an input, and 1 if it is an output.
        """
        if self._cache_size and given is self._cached_x_y[side] and given is not None:
            return self._cached_x_y[1 - side]
        found = compute(given)
        if self._cache_size:
            self._cached_x_y = (given, found) if side == 0 else (found, given)
        return found

    # Derived properties

    @property
    def event_dim(self) -> int:
        """The number of event dimensions, if it is the same for domain and codomain.

        Raises
        ------
        ValueError
            If the two numbers differ.
        """
        if self.domain.event_dim != self.codomain.event_dim:
            raise ValueError(f"{self!r} maps values of {self.domain.event_dim} dimensions to values of {self.codomain.event_dim}")
        return self.domain.event_dim

    @property
    def inv(self) -> Transform:
        """The inverse of this transform."""
        found = None if self._inv is None else self._inv()
        if found is None:
            found = _InverseTransform(self)
            self._inv = weakref.ref(found)
        return found

    @property
    def sign(self) -> Any:
        """+1 if the transform is increasing, -1 if it is decreasing: a number or tensor."""
        raise NotImplementedError(f"{type(self).__name__} does not define a sign")

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return a transform with the given cache size: this one if its size is equal, else a copy."""
        if self._cache_size == cache_size:
            return self
        twin = copy.copy(self)
        Transform.__init__(twin, cache_size)
        return twin

    def forward_shape(self, shape: Sequence[int]) -> Any:
        """Return the shape of the output for an input of the given shape."""
        return shape

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        """Return the shape of the input for an output of the given shape."""
        return shape

    def __eq__(self, other: object) -> bool:
        if self is other or self._compared is None:
            return self is other
        return type(self) is type(other) and all(same(getattr(self, n), getattr(other, n)) for n in self._compared)

    __hash__ = None  # type: ignore[assignment]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_inv": None}  # a weak reference cannot be pickled, and `inv` makes a new inverse

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _InverseTransform(Transform):
    """The inverse of a transform. Both share the cache of that transform."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(transform._cache_size)
        self._transform = transform

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:  # type: ignore[override]
        return self._transform.codomain

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:  # type: ignore[override]
        return self._transform.domain

    @property
    def bijective(self) -> Any:  # type: ignore[override]
        return self._transform.bijective

    @property
    def sign(self) -> Any:
        return self._transform.sign

    @property
    def inv(self) -> Transform:
        return self._transform

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self._transform.with_cache(cache_size).inv

    def __call__(self, x: Any) -> Any:
        return self._transform._inv_call(x)

    def _inv_call(self, y: Any) -> Any:
        return self._transform(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -self._transform.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Sequence[int]) -> Any:
        return self._transform.inverse_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        return self._transform.forward_shape(shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._transform == other._transform

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._transform!r})"


def widened(constraint: Any, event_dim: int) -> Any:
    """Return `constraint` widened to `event_dim` event dimensions. It must not have more than that."""
    missing = event_dim - constraint.event_dim
    return constraints.independent(constraint, missing) if missing else constraint


def _dims_before(ends: Sequence[tuple[int, int]]) -> int:
    """Return the number of event dimensions of the input of a composition of maps.

    `ends` gives the event dimensions of the input and output of each map, last map first.
    """
    dims = ends[0][1] if ends else 0
    for takes, yields in ends:
        dims = max(takes, dims + takes - yields)
    return dims


class ComposeTransform(Transform):
    """Composition of transforms.

    Parameters
    ----------
    parts : sequence of Transform
        Transforms. The first one is applied first.
    cache_size : int
        If 1, every part keeps its last input and output. Default: 0.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import AffineTransform, ComposeTransform, ExpTransform
    >>> t = ComposeTransform([AffineTransform(1.0, 2.0), ExpTransform()])  # exp(1 + 2 x)
    >>> t.log_abs_det_jacobian(x := mt.zeros(1, device="cpu"), t(x))  # log(2) + 1
    tensor([1.6931])
    """

    _compared = ("parts",)

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)
        super().__init__(cache_size)

    def _ends(self) -> list[tuple[int, int]]:
        return [(part.domain.event_dim, part.codomain.event_dim) for part in self.parts]

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:  # type: ignore[override]
        return widened(self.parts[0].domain, _dims_before(self._ends()[::-1])) if self.parts else constraints.real

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:  # type: ignore[override]
        if not self.parts:
            return constraints.real
        backwards = [(yields, takes) for takes, yields in self._ends()]
        return widened(self.parts[-1].codomain, _dims_before(backwards))

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(part.bijective for part in self.parts)

    @property
    def sign(self) -> Any:
        product: Any = 1
        for part in self.parts:
            product = product * part.sign
        return product

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else ComposeTransform([p.with_cache(cache_size) for p in self.parts], cache_size)

    def __call__(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        return x

    def _inv_call(self, y: Any) -> Any:
        for part in reversed(self.parts):
            y = part._inv_call(y)
        return y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        # `dims` is the number of event dimensions before each part. If a part has fewer, its term is summed over the
        # rest.
        dims, total = self.domain.event_dim, None
        for at, part in enumerate(self.parts, 1):
            out = y if at == len(self.parts) else part(x)
            term = _sum_rightmost(part.log_abs_det_jacobian(x, out), dims - part.domain.event_dim)
            total = term if total is None else total + term
            x, dims = out, dims + part.codomain.event_dim - part.domain.event_dim
        return x.new_zeros(x.shape) if total is None else total

    def forward_shape(self, shape: Sequence[int]) -> Any:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}(\n    " + ",\n    ".join(repr(part) for part in self.parts) + "\n)"


identity_transform: ComposeTransform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform with trailing batch dimensions that are treated as event dimensions.

    It maps values as `base_transform` does. Its `log_abs_det_jacobian` is summed over the additional event dimensions.

    Parameters
    ----------
    base_transform : Transform
        Transform of the elements.
    reinterpreted_batch_ndims : int
        Number of additional event dimensions.
    cache_size : int
        As in `Transform`. Default: 0.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import ExpTransform, IndependentTransform
    >>> x = mt.zeros(2, 3, device="meta")
    >>> IndependentTransform(ExpTransform(), 1).log_abs_det_jacobian(x, x.exp()).shape
    metatensor.Size([2])
    """

    _compared = ("base_transform", "reinterpreted_batch_ndims")

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.base_transform, self.reinterpreted_batch_ndims = base_transform.with_cache(cache_size), reinterpreted_batch_ndims

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:  # type: ignore[override]
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:  # type: ignore[override]
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> Any:  # type: ignore[override]
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def _call(self, x: Any) -> Any:
        self._need(x, self.domain)
        return self.base_transform(x)

    def _inverse(self, y: Any) -> Any:
        self._need(y, self.codomain)
        return self.base_transform._inv_call(y)

    def _need(self, value: Any, constraint: Any) -> None:
        if value.ndim < constraint.event_dim:
            raise ValueError(f"{self!r} needs a value of at least {constraint.event_dim} dimensions, got shape {tuple(value.shape)}")

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return _sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Sequence[int]) -> Any:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"
