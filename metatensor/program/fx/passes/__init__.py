"""Passes over graphs."""

from metatensor._core.lazy import attributes

__getattr__, __dir__ = attributes(
    __name__,
    ("graph_manipulation", "infra", "operator_support", "param_fetch", "pass_manager", "shape_prop", "split_module", "split_utils",
     "splitter_base", "tools_common", "utils"),
)  # fmt: skip
