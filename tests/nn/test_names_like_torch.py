"""Every public name below torch.nn exists, with the same parameters and defaults."""

import importlib
import inspect
import types

import pytest

pytestmark = pytest.mark.torch

# Modules whose names are compared. `None` stands for torch.nn itself.
MODULES = [
    None,
    "functional",
    "init",
    "_reduction",
    "attention",
    "attention.bias",
    "attention.flex_attention",
    "common_types",
    "grad",
    "modules",
    "modules.activation",
    "modules.batchnorm",
    "modules.channelshuffle",
    "modules.container",
    "modules.conv",
    "modules.instancenorm",
    "modules.lazy",
    "modules.linear",
    "modules.loss",
    "modules.module",
    "modules.normalization",
    "modules.padding",
    "modules.pixelshuffle",
    "modules.pooling",
    "modules.rnn",
    "modules.sparse",
    "modules.transformer",
    "modules.upsampling",
    "modules.utils",
    "parallel",
    "parallel.data_parallel",
    "parallel.distributed",
    "parameter",
    "utils",
    "utils._named_member_accessor",
    "utils.clip_grad",
    "utils.convert_parameters",
    "utils.fusion",
    "utils.init",
    "utils.memory_format",
    "utils.parametrizations",
    "utils.parametrize",
    "utils.prune",
    "utils.rnn",
    "utils.spectral_norm",
    "utils.stateless",
    "utils.weight_norm",
]

# Names that only PyTorch has, with the reason.
MISSING = {
    "functional": {
        "conv_tbc": "the operator is metatensor.conv_tbc",
    },
    "utils.parametrize": {
        "OpaqueBase": "a class of PyTorch's compiler",
        "get_swap_module_params_on_conversion": "imported there, not public",
        "is_opaque_reference_type": "a helper of PyTorch's compiler",
        "is_traceable_wrapper_subclass": "a helper of PyTorch's compiler",
    },
    "attention": {
        "SDPAParams": "imported there, not public",
        "can_use_efficient_attention": "imported there, not public",
        "can_use_flash_attention": "imported there, not public",
    },
    "utils.rnn": {
        "PackedSequence_": "the tuple below PackedSequence",
        "bind": "a helper of PyTorch's own",
        "copy_method_params": "a helper of PyTorch's own",
    },
    "utils.spectral_norm": {
        "SpectralNormLoadStateDictPreHook": "state dicts of before version 1.0 are not loaded",
        "SpectralNormStateDictHook": "a private class here",
    },
    "utils.stateless": {"NamedMemberAccessor": "a helper of PyTorch's own"},
    "utils.weight_norm": {"norm_except_dim": "imported there, not public", "UninitializedParameter": "imported there, not public"},
}

# A decorator hides PyTorch's signature.
HIDDEN = {"Container", "NLLLoss2d"}


# For submodules of these, only names that they define are compared, not those that they import.
OWN_ONLY = {"attention", "modules", "parallel"}


def both(name):
    pytest.importorskip("torch")
    suffix = "" if name is None else f".{name}"
    # `torch.nn.utils.weight_norm` is a function that hides the module.
    return importlib.import_module(f"metatensor.nn{suffix}"), importlib.import_module(f"torch.nn{suffix}")


def public(module):
    """Return the names of PyTorch's classes and functions in a module."""
    for name, value in sorted(vars(module).items()):
        if name.startswith("_") or isinstance(value, types.ModuleType) or not callable(value):
            continue
        home = getattr(value, "__module__", None) or "torch"
        if module.__name__.count(".") > 2 and module.__name__.split(".")[2] in OWN_ONLY and home != module.__name__:
            continue
        if home.split(".")[0] == "torch" and name not in ("Tensor", "device", "dtype"):
            yield name, value


def is_alias(value):
    """Return True for type aliases, which serve only in annotations."""
    return type(value).__module__ == "typing" or isinstance(value, types.GenericAlias)


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_every_name(module):
    ours, theirs = both(module)
    known = MISSING.get(module, {})
    missing = [name for name, value in public(theirs) if not hasattr(ours, name) and name not in known and not is_alias(value)]
    assert missing == []


def parameters(function):
    """Return names, kinds and defaults of the parameters, or None if they are unknown."""
    try:
        found = list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError):
        return None
    if [p.kind for p in found] == [inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD]:
        return None
    return {p.name: default_of(p) for p in found}


def default_of(parameter):
    default = parameter.default
    if default is inspect.Parameter.empty:
        return "required"
    if type(default).__name__ in ("dtype", "DType"):
        return str(default).rpartition(".")[2]
    name = getattr(default, "__name__", None) or getattr(default, "name", None)
    return name.rpartition(".")[2] if isinstance(name, str) else default


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_every_signature(module):
    """Additional keyword parameters `generator` and `out` are allowed."""
    ours, theirs = both(module)
    different = {}
    for name, value in public(theirs):
        want = parameters(value)
        if not hasattr(ours, name) or want is None or name in HIDDEN or isinstance(value, type(ours)):
            continue
        got = parameters(getattr(ours, name))
        if got is None:
            continue
        got = {k: v for k, v in got.items() if k in want or k not in ("generator", "out")}
        if list(got) != list(want) or any(got[k] != want[k] for k in want):
            different[name] = (got, want)
    assert different == {}
