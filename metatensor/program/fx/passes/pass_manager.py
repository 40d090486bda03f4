"""The module of ``torch.fx.passes`` that has an older PassManager. The present one is in ``infra.pass_manager``."""

from metatensor.program.fx.passes.infra.pass_manager import PassManager, this_before_that_pass_constraint

__all__ = ["PassManager", "this_before_that_pass_constraint"]
