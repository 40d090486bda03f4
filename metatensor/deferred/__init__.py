"""Build models without memory and give them data later: deferred initialization, fake tensors, and copies on meta.

Example::

    with mt.deferred_init():
        model = Model()
    model.to(mt.bfloat16)
    mt.materialize(model, device="cuda")

`required` finds the recorded steps that tensors need, `materializing` runs them, and `recipes` sends them to other processes.
`parts` computes slices, and `constants` computes small constants if no device is installed. `known` and `host_kernels`
compute small tensors on meta that are made of constants. `fake`, `meta_copies` and `unresolved` hold `FakeTensorMode`,
`to_meta`, and the reports of tensors without data.
"""

from metatensor._core.lazy import attributes
from metatensor.deferred.materializing import (
    bytes_of,
    checksum,
    copy_of,
    deferred_init,
    dematerialize,
    filled,
    forbidden,
    has_values,
    is_deferred,
    materialize,
    materialize_slice,
    run,
    tensors_of,
    value_of,
)
from metatensor.deferred.required import OVERWRITES, groups_of, overwrites, read, refs_of, steps_for, written

__all__ = ["deferred_init", "dematerialize", "is_deferred", "materialize", "materialize_slice"]

__getattr__, __dir__ = attributes(
    __name__, ("constants", "fake", "host_kernels", "known", "meta_copies", "named_tensors", "parts", "recipes", "unresolved"),
    {
        "is_constant": f"{__name__}.known:is_constant",
        "keep_constants": "metatensor._core.constants:keep_constants",
        "FakeTensorMode": f"{__name__}.fake:FakeTensorMode",
        "is_fake": f"{__name__}.fake:is_fake",
        "to_meta": f"{__name__}.meta_copies:to_meta",
        "assert_materialized": f"{__name__}.unresolved:assert_materialized",
        "assert_no_materialization": f"{__name__}.unresolved:assert_no_materialization",
    },
)  # fmt: skip
