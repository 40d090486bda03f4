"""The module from which libraries import the classes of compiled code."""

from metatensor.torch_api.torch.jit import RecursiveScriptModule, ScriptFunction, ScriptModule, script

__all__ = ["RecursiveScriptModule", "ScriptFunction", "ScriptModule", "script"]
