"""Distributions with a probability of success, given as such or as log odds."""

from __future__ import annotations

from numbers import Number
from typing import Any

import metatensor as mt
from metatensor.torch_api.torch.distributions import constraints
from metatensor.torch_api.torch.distributions.utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits

__all__ = ["SuccessOrLogits"]


class SuccessOrLogits:
    """What gives a distribution `probs` and `logits`, one of which it was made with."""

    arg_constraints: Any = {"probs": constraints.unit_interval, "logits": constraints.real}

    def _take(self, probs: Any, logits: Any) -> mt.Size:
        """Keep what was given; the shape of the batch."""
        if (probs is None) == (logits is None):
            raise ValueError(f"{type(self).__name__}: give either probs or logits")
        given = logits if probs is None else probs
        (self._param,) = broadcast_all(given)
        if probs is None:
            self.logits = self._param
        else:
            self.probs = self._param
        return mt.Size() if isinstance(given, Number) else self._param.size()

    @lazy_property
    def probs(self) -> Any:
        """The probability of success."""
        return logits_to_probs(self.logits, is_binary=True)

    @lazy_property
    def logits(self) -> Any:
        """Its log odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @property
    def param_shape(self) -> mt.Size:
        """The shape of the probabilities."""
        return self._param.size()

    def _new(self, *args: Any, **kwargs: Any) -> Any:
        return self._param.new(*args, **kwargs)

