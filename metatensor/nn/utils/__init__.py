"""Helpers around modules and their parameters."""

from metatensor.nn.utils import convert_parameters, stateless
from metatensor.nn.utils._skip_init import skip_init
from metatensor.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters

__all__ = ["convert_parameters", "parameters_to_vector", "skip_init", "stateless", "vector_to_parameters"]
