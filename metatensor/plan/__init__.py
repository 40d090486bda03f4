"""Plan how a model is used: what an inference server can do with it, and where its parts go.

`serve` reports the state that a model keeps for each token, the longest context, the number of concurrent sequences, and
times. `device_map` places the parts of a model on unequal devices, the host's memory and a disk. `search` ranks the
layouts of a training step on many devices. `place_operators` chooses where each operator of a model runs.
"""

from metatensor.plan.applying import Applied
from metatensor.plan.devices import DeviceError, Place, places_of
from metatensor.plan.distributing import distribute_parameters
from metatensor.plan.fitting import FittedProfile, Measurement, fit_profile
from metatensor.plan.layouts import Degrees, Layout, Rejected
from metatensor.plan.operators import OperatorPlan, place_operators
from metatensor.plan.placing import DeviceMapPlan, PlaceUse, device_map
from metatensor.plan.searching import TrainingPlan, search
from metatensor.plan.serving import DecodeRow, ServingPlan, serve
from metatensor.plan.states import StateGroup
from metatensor.plan.sweep_file import SweepError
from metatensor.plan.sweeping import Case, WorkerError, sweep

__all__ = ["Applied", "Case", "DecodeRow", "Degrees", "DeviceError", "DeviceMapPlan", "FittedProfile", "Layout", "Measurement",
           "OperatorPlan", "Place", "PlaceUse", "Rejected", "ServingPlan", "StateGroup", "SweepError", "TrainingPlan",
           "WorkerError", "device_map", "distribute_parameters", "fit_profile", "place_operators", "places_of", "search", "serve",
           "sweep"]  # fmt: skip
