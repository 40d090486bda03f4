"""The von Mises distribution of angles."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import metatensor as mt
from metatensor.distributions import constraints
from metatensor.distributions._parametric import Parametric
from metatensor.distributions.utils import has_data, noise

__all__ = ["VonMises"]

ATTEMPTS = 40  # rounds of rejection sampling, each of which accepts a proposal with probability above 0.65


class VonMises(Parametric):
    """The von Mises distribution, a counterpart of the normal distribution on the circle.

    Parameters
    ----------
    loc : float or Tensor
        Mean direction, in radians.
    concentration : float or Tensor
        Positive number. If it is large, the variance of the angle is about 1 / concentration.
    validate_args : bool, optional
        As for `Distribution`.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributions import VonMises
    >>> VonMises(mt.zeros(4, device="meta"), 2.0).sample((3,)).shape
    metatensor.Size([3, 4])
    """

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self._set_parameters(validate_args, loc=loc, concentration=concentration)

    @property
    def mean(self) -> Any:
        """The mean direction."""
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        """The circular variance: 1 minus the mean of cos(x - loc)."""
        return 1 - mt.special.i1e(self.concentration) / mt.special.i0e(self.concentration)

    def _log_density(self, value: Any) -> Any:
        # i0e is scaled by exp(-concentration), which the subtraction of 1 from the cosine compensates.
        fall = self.concentration * ((value - self.loc).cos() - 1)
        return fall - (2 * math.pi * mt.special.i0e(self.concentration)).log()

    def _draw(self, shape: Any) -> Any:
        """Draw by rejection from a wrapped Cauchy distribution (Best and Fisher, 1979), in float64."""
        kappa = self.concentration.double().expand(shape)
        tau = 1 + (1 + 4 * kappa.square()).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
        # For small concentrations the formula for r loses precision by cancellation. Use the first terms of its series.
        r = mt.where(kappa < 1e-5, 1 / kappa + kappa, (1 + rho.square()) / (2 * rho))
        side = mt.where(noise("uniform", shape, kappa) < 0.5, -1.0, 1.0)
        cosine, waiting = mt.ones_like(kappa), mt.ones_like(kappa, dtype=mt.bool)
        for _ in range(ATTEMPTS):
            z = (math.pi * noise("uniform", shape, kappa)).cos()
            proposed = (1 + r * z) / (r + z)
            room = kappa * (r - proposed)
            fits = (room / noise("uniform", shape, kappa)).log() + 1 - room >= 0
            cosine = mt.where(waiting & fits, proposed, cosine)
            waiting = waiting & ~fits
            if has_data(waiting) and not bool(waiting.any()):
                break
        angle = side * cosine.clamp(-1.0, 1.0).acos() + self.loc.double()
        return ((angle + math.pi) % (2 * math.pi) - math.pi).to(self.loc.dtype)
