"""Learning rate schedules."""

from metatensor.optim._composed import ChainedScheduler, SequentialLR
from metatensor.optim._curves import (
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
from metatensor.optim._cycles import CosineAnnealingWarmRestarts, CyclicLR, OneCycleLR
from metatensor.optim._plateau import ReduceLROnPlateau
from metatensor.optim._schedule import LRScheduler
from metatensor.optim.optimizer import Optimizer

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR", "ExponentialLR",
    "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR", "Optimizer", "PolynomialLR",
    "ReduceLROnPlateau", "SequentialLR", "StepLR",
]  # fmt: skip


class _LRScheduler(LRScheduler):
    """Older name of `LRScheduler`, for subclasses."""
