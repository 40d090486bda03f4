"""Plan how a model is used: what an inference server can do with it, and where its parts go.

`serve` reports the state that a model keeps for each token, the longest context, the number of concurrent sequences, and
times.
"""

from metatensor.plan.devices import DeviceError, Place, places_of
from metatensor.plan.serving import DecodeRow, ServingPlan, StateGroup, serve

__all__ = ["DecodeRow", "DeviceError", "Place", "ServingPlan", "StateGroup", "places_of", "serve"]
