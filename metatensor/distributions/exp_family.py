"""Exponential families, whose density is h(x) exp(<eta, T(x)> - A(eta))."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.distributions.distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """Base class of exponential families.

    The density is h(x) exp(<eta, T(x)> - A(eta)), with the natural parameters eta, the sufficient statistics T, the
    log normalizer A and the carrier measure h. A subclass defines `_natural_params` (a tuple of tensors),
    `_log_normalizer(*eta)`, and `_mean_carrier_measure`, the mean of log h. `entropy` and the Kullback-Leibler
    divergence between two members of the family follow from these.

    The means of the sufficient statistics are the gradient of A. A subclass that has a closed form for them defines
    `_mean_statistics`, and then no gradient is computed.

    Notes
    -----
    Nielsen and Nock derive the formulas (2010, in the proceedings of ICIP).
    """

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        raise NotImplementedError(f"{type(self).__name__} does not define _natural_params")

    def _log_normalizer(self, *natural_params: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define _log_normalizer()")

    @property
    def _mean_carrier_measure(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define _mean_carrier_measure")

    @property
    def _mean_statistics(self) -> tuple[Any, ...]:
        """The means of the sufficient statistics. By default they are the gradient of the log normalizer."""
        eta = [p.detach().requires_grad_() for p in self._natural_params]
        with mt.enable_grad():
            total = self._log_normalizer(*eta).sum()
        try:
            return tuple(mt.autograd.grad(total, eta, create_graph=True))
        except NotImplementedError as error:
            raise NotImplementedError(
                f"{type(self).__name__}: entropy and divergence of this family need the gradient of its log normalizer "
                f"({error}); define _mean_statistics, or entropy()"
            ) from error

    def _pairing(self, eta: tuple[Any, ...], statistics: tuple[Any, ...]) -> Any:
        """Return the inner product of `eta` and `statistics`, summed over all parameters and event dimensions.

        A term is 0 if eta is 0, even if the statistic is infinite.
        """
        batch_dims, total = len(self.batch_shape), None
        for e, t in zip(eta, statistics, strict=True):
            term = mt.where(e == 0, 0.0, e * t)
            term = term if term.ndim == batch_dims else term.flatten(batch_dims).sum(-1)
            total = term if total is None else total + term
        return total

    def entropy(self) -> Any:
        """Return the entropy in nats: A(eta) - <eta, E[T]> - E[log h]."""
        eta = self._natural_params
        return self._log_normalizer(*eta) - self._pairing(eta, self._mean_statistics) - self._mean_carrier_measure


def bregman(p: ExponentialFamily, q: ExponentialFamily) -> Any:
    """Return KL(p || q) for two members of one exponential family.

    It is the Bregman divergence A(eta_q) - A(eta_p) - <eta_q - eta_p, E_p[T]>.
    """
    at_p, at_q = p._natural_params, q._natural_params
    between = p._pairing(tuple(b - a for a, b in zip(at_p, at_q, strict=True)), p._mean_statistics)
    return q._log_normalizer(*at_q) - p._log_normalizer(*at_p) - between
