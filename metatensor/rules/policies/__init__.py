"""Kernel policies as data: `meta`, `eager` and `cuda`, and those that plugins and users add.

`policy` chooses one for a block. `policy_named` returns one by name. The tables are in the modules `eager` and `cuda`; the table of
`meta` is `metatensor.rules.parts`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from metatensor._core.accounting import current_policy, pop_policy, push_policy
from metatensor._core.late import later
from metatensor.rules.policies.policy import Kernel, KernelPolicy, Workspace

__all__ = ["META", "Kernel", "KernelPolicy", "Workspace", "chosen", "policies", "policy", "policy_for", "policy_named",
           "policy_of_profile", "register_policy"]  # fmt: skip

META = KernelPolicy(
    "meta", "PyTorch's meta device, as a dispatch mode sees it: operators that PyTorch's dispatcher takes apart are computed in steps.",
)  # fmt: skip
_BUILT_IN = ("meta", "eager", "cuda")
_registered: dict[str, KernelPolicy] = {"meta": META}


def register_policy(policy: KernelPolicy) -> KernelPolicy:
    """Register a policy for `policy_named`. Raise ValueError if the name is taken by another one."""
    if policy.name in _BUILT_IN or _registered.get(policy.name, policy) is not policy:
        raise ValueError(f"there already is a kernel policy {policy.name!r}")
    _registered[policy.name] = policy
    return policy


def policy_named(name: str | KernelPolicy) -> KernelPolicy:
    """Return the kernel policy with this name.

    Besides "meta", "eager" and "cuda", these are registered policies and those of device plugins, by the type of their
    device. Raise ValueError if there is none.
    """
    if isinstance(name, KernelPolicy):
        return name
    found = _registered.get(name)
    if found is None and name in _BUILT_IN:
        found = _registered[name] = import_module(f"metatensor.rules.policies.{name}").POLICY
    if found is None:
        found = _of_device(name)
    if found is None:
        raise ValueError(f"there is no kernel policy {name!r}; there are {', '.join(policies())}")
    return found


def _of_device(type: str) -> KernelPolicy | None:
    """Return the policy that a device plugin ships, or None."""
    plugins = later("plugins")
    if type not in plugins.device_types():
        return None
    policy = plugins.backend(type).policy
    if policy is not None and not isinstance(policy, KernelPolicy):
        raise TypeError(f"the device {type!r} has a policy that is no KernelPolicy: {policy!r}")
    return policy


def policies() -> list[str]:
    """Return the names of the built-in and registered policies, sorted."""
    return sorted({*_BUILT_IN, *_registered})


@contextmanager
def policy(name: str | KernelPolicy) -> Iterator[KernelPolicy]:
    """Use a kernel policy in this thread until the block ends. Blocks may be nested; the innermost policy applies.

    A policy says which operators are one kernel, which tensors they save for backward, and which temporary tensors they create.
    On meta, the policy determines what runs and what is saved; shapes and dtypes of results are the same under each policy.

    Parameters
    ----------
    name : str or KernelPolicy
        "meta" (PyTorch's meta device, the default on meta), "eager" (PyTorch's CPU), "cuda" (PyTorch on an NVIDIA GPU), a registered
        policy, or the type of a device whose plugin has a policy.

    Raises
    ------
    ValueError
        If there is no such policy.

    Examples
    --------
    >>> import metatensor as mt
    >>> q = mt.empty(1, 8, 1024, 64, dtype=mt.bfloat16, device="meta", requires_grad=True)
    >>> def saved(name):
    ...     with mt.analysis.policy(name), mt.analysis.MemoryTracker() as memory:
    ...         y = mt.nn.functional.scaled_dot_product_attention(q, q, q)
    ...         return memory.current
    >>> saved("meta") // 2**20, saved("cuda") // 2**20
    (39, 1)
    """
    found = policy_named(name)
    push_policy(found)
    try:
        yield found
    finally:
        pop_policy()


def chosen() -> KernelPolicy | None:
    """Return the policy that this thread uses, or None if no block has chosen one."""
    found: KernelPolicy | None = current_policy()
    return found


def policy_for(given: str | KernelPolicy | None, profile: Any = None) -> KernelPolicy:
    """Return the policy of an estimate: the given one, else that of the enclosing block, else that of the device, else `META`."""
    if given is not None:
        return policy_named(given)
    return chosen() or (META if profile is None else policy_of_profile(profile))


def policy_of_profile(profile: Any) -> KernelPolicy:
    """Return the policy for estimates on a device: "cuda" for GPUs of PyTorch's device type cuda, "eager" for CPUs, else "meta"."""
    return policy_named({"cuda": "cuda", "cpu": "eager"}.get(profile.backend, "meta"))
