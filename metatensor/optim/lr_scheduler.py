"""Schedules of the learning rate."""

from metatensor.optim._lr_base import LRScheduler
from metatensor.optim._lr_composed import ChainedScheduler, ReduceLROnPlateau, SequentialLR
from metatensor.optim._lr_cycles import CosineAnnealingWarmRestarts, CyclicLR, OneCycleLR
from metatensor.optim._lr_plain import (
    ConstantLR,
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from metatensor.optim.optimizer import Optimizer

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR", "ExponentialLR",
    "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR", "Optimizer", "PolynomialLR",
    "ReduceLROnPlateau", "SequentialLR", "StepLR",
]  # fmt: skip


class _LRScheduler(LRScheduler):
    """The older name of `LRScheduler`, for subclasses."""
