"""Spec, the description of a result that meta functions return."""

from collections.abc import Iterable
from typing import final

from metatensor._core.device import Device
from metatensor._core.dtype import DType

@final
class Spec:
    """The metadata of one result of an op."""

    def __init__(
        self,
        shape: Iterable[int],
        dtype: DType,
        *,
        strides: Iterable[int] | None = None,
        device: Device | None = None,
    ) -> None: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> DType: ...
    @property
    def strides(self) -> tuple[int, ...] | None: ...
    @property
    def device(self) -> Device | None: ...
