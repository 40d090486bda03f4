"""The exceptions of `torch.distributed`."""

from __future__ import annotations

__all__ = ["DistBackendError", "DistError", "DistNetworkError", "DistStoreError"]


class DistError(RuntimeError):
    """Base class of errors of the distributed library."""


class DistBackendError(DistError):
    """An error of a backend: a collective failed, or ranks disagree about it."""


class DistNetworkError(DistError):
    """An error of the network."""


class DistStoreError(DistError):
    """An error of a store."""
