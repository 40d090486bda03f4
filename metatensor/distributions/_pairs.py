"""Parameters that come as probabilities or as logits: one of the two is given, the other is computed when it is read."""

from __future__ import annotations

from typing import Any

from metatensor.distributions._parametric import Parametric
from metatensor.distributions.utils import exactly_one, lazy_property, logits_to_probs, probs_to_logits

__all__ = ["BinaryPair", "CategoryPair"]


class _Pair(Parametric):
    _binary: bool

    def _set_pair(self, validate_args: bool | None, probs: Any, logits: Any, event_shape: Any = (), **others: Any) -> None:
        """As `_set_parameters`, for `probs` or `logits` and further parameters."""
        name, given = exactly_one(self, probs=probs, logits=logits)
        self._set_parameters(validate_args, event_shape, **others, **{name: given})

    @lazy_property
    def probs(self) -> Any:
        """The probabilities."""
        return logits_to_probs(self.logits, is_binary=self._binary)

    @lazy_property
    def logits(self) -> Any:
        """The log odds of a binary outcome, or the logarithms of the probabilities of categories."""
        return probs_to_logits(self.probs, is_binary=self._binary)

    @property
    def _param(self) -> Any:
        return getattr(self, "probs" if "probs" in self._parameters else "logits")

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter that was given."""
        return self._param.shape


class BinaryPair(_Pair):
    """Base class: `probs` or `logits` of one event that happens or not."""

    _binary = True


class CategoryPair(_Pair):
    """Base class: `probs` or `logits` of categories along the last dimension, which are normalized here."""

    _binary = False

    def _set_categories(self, validate_args: bool | None, probs: Any, logits: Any, is_event: bool, **others: Any) -> None:
        """Normalize the parameter given and set it; `is_event` tells whether a value is a vector over the categories."""
        _, given = exactly_one(self, probs=probs, logits=logits)
        if given.ndim < 1:
            raise ValueError(f"{type(self).__name__}(): probs or logits must have at least one dimension, got a scalar")
        if probs is not None:
            probs = probs / probs.sum(-1, keepdim=True)
        else:
            logits = logits - logits.logsumexp(-1, keepdim=True)
        self._set_pair(validate_args, probs, logits, given.shape[-1:] if is_event else (), **others)

    @property
    def _num_events(self) -> int:
        return self._param.shape[-1]
