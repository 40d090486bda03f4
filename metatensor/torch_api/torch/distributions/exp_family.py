"""Exponential families: densities exp(natural parameters . statistics - log normalizer) times a carrier."""

from __future__ import annotations

from typing import Any

from metatensor.torch_api.torch.distributions.distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """The base of distributions that are an exponential family."""

    def entropy(self) -> Any:
        """NotImplementedError: in general it takes the gradient of the log normalizer, and there is no backward."""
        raise NotImplementedError(f"{type(self).__name__}.entropy: it takes a gradient, and metatensor has no backward")
