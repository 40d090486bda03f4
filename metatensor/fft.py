"""Fourier transforms: the operators of the namespace `fft`."""

from metatensor._core.op import namespace as _namespace

globals().update(_namespace("fft"))
