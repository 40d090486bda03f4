"""Distributions that take either probabilities or logits. The missing one is computed on first access."""

from __future__ import annotations

from typing import Any

from metatensor.distributions._parametric import Parametric
from metatensor.distributions.utils import exactly_one, lazy_property, logits_to_probs, probs_to_logits

__all__ = ["BinaryPair", "CategoryPair"]


class _Pair(Parametric):
    _binary: bool

    def _set_pair(self, validate_args: bool | None, probs: Any, logits: Any, event_shape: Any = (), **others: Any) -> None:
        """Set `probs` or `logits`, whichever is not None, and further parameters. See `_set_parameters`."""
        name, given = exactly_one(self, probs=probs, logits=logits)
        self._set_parameters(validate_args, event_shape, **others, **{name: given})

    @lazy_property
    def probs(self) -> Any:
        """The probabilities."""
        return logits_to_probs(self.logits, is_binary=self._binary)

    @lazy_property
    def logits(self) -> Any:
        """The log odds of a binary outcome, or the log probabilities of categories."""
        return probs_to_logits(self.probs, is_binary=self._binary)

    @property
    def _param(self) -> Any:
        return getattr(self, "probs" if "probs" in self._parameters else "logits")

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter that was passed to the constructor, `probs` or `logits`."""
        return self._param.shape


class BinaryPair(_Pair):
    """Base class of families with the parameter `probs` or `logits` of one binary outcome."""

    _binary = True


class CategoryPair(_Pair):
    """Base class of families with the parameter `probs` or `logits` of categories along the last dimension.

    The parameter is normalized, so that the probabilities sum to 1.
    """

    _binary = False

    def _set_categories(self, validate_args: bool | None, probs: Any, logits: Any, is_event: bool, **others: Any) -> None:
        """Normalize and set the parameter that is not None.

        If `is_event` is true, a sample is a vector with one element for each category.
        """
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
