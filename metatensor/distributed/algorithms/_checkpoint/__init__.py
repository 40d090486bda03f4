"""Modules that compute their activations again, under the names that libraries import."""

from metatensor._core.lazy import attributes

__getattr__, __dir__ = attributes(__name__, ("checkpoint_wrapper",))
