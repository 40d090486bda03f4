"""The group of commands: built-in commands, which are imported when they run, and commands of plugins."""

from __future__ import annotations

import errno
import os
import signal
import sys
from importlib import import_module
from typing import Any

import click

from metatensor._version import __version__
from metatensor.checkpoint.errors import printable

__all__ = ["app"]

OWN = {
    "calibrate": "Measure a device, and write a profile of it.",
    "check": "Check that a model runs on meta and is within budgets.",
    "convert": "Write a checkpoint in another format.",
    "devices": "List devices and plugins, and why a plugin cannot be used.",
    "diff": "Compare two reports of estimate or check, or two programs.",
    "estimate": "Estimate the cost of a model: parameters, FLOPs, memory, shapes.",
    "fit": "Find the largest batch that fits into a device, and what makes a batch fit.",
    "fit-profile": "Fit the efficiencies of a device's profile to your own training steps.",
    "inspect": "List the tensors of a checkpoint, or the contents of a program or an ONNX model.",
    "plan": "Plan how a model is used: an inference server, a placement on unequal devices, or training on many.",
    "plans": "List the plans that a sweep has saved, or make a page of them.",
    "profiles": "List figures of accelerators: memory, bandwidth, rates, links, with sources.",
    "reshard": "Divide a checkpoint among the ranks of a mesh, or plan that.",
    "run": "Run a script written for PyTorch, with metatensor in place of PyTorch, a program or an ONNX model.",
    "topologies": "List systems of several devices, or predict collectives over links such as those of 64xH100.",
    "trace": "Write a model's calls of operators to a file that can be run without the model's source.",
}
"""Short help of the built-in commands by name. Each command is in the module with the same name."""


class Commands(click.Group):
    """A group of built-in commands and commands of plugins. A plugin cannot replace a built-in command."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command. Characters that the output's encoding lacks are written as escape sequences."""
        for stream in (sys.stdout, sys.stderr):
            if getattr(stream, "errors", None) == "strict":
                stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        if not kwargs.pop("standalone_mode", True):
            return super().main(*args, standalone_mode=False, **kwargs)
        sys.exit(self._status(*args, **kwargs))

    def _status(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command and return its exit status. If a signal ended it, the status is 128 plus its number."""
        try:
            try:
                status = super().main(*args, standalone_mode=False, **kwargs)
            except SystemExit as error:
                status = error.code
            sys.stdout.flush()
        except click.ClickException as error:
            error.show()
            return error.exit_code
        except (click.Abort, KeyboardInterrupt):
            return 128 + signal.SIGINT
        except OSError as error:
            if error.errno not in (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
                raise
            _discard_output()
            if error.errno == errno.EPIPE:
                return 128 + signal.SIGPIPE
            print(f"Error: the output cannot be written: {error.strerror}", file=sys.stderr)
            return 1
        return status

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command. If the reader of its output has closed the pipe, exit as if stopped by SIGPIPE."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # click would exit with status 1
            _discard_output()
            raise SystemExit(128 + signal.SIGPIPE) from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*OWN, *_plugin_commands()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in OWN:
            module = import_module("metatensor.cli." + cmd_name.replace("-", "_"))
            command: click.Command = module.command
            return command
        return _plugin_commands().get(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands, without importing the built-in ones."""
        plugins = _plugin_commands()
        rows = [(printable(name), OWN.get(name) or _help(plugins[name])) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _discard_output() -> None:
    """Redirect stdout to the null device, so that Python can flush it at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _plugin_commands() -> dict[str, Any]:
    """Return the commands that plugins registered, by name. If two have the same name, the first one is returned."""
    from metatensor import plugins

    found: dict[str, Any] = {}
    for command in plugins.commands():
        if isinstance(command, click.Command) and command.name and command.name not in OWN:
            found.setdefault(command.name, command)
    return found


def _help(command: click.Command) -> str:
    """Return the short help of a plugin's command on one line."""
    try:
        return printable(" ".join(command.get_short_help_str().split()))
    except (Exception, SystemExit) as error:
        return f"(its help fails: {type(error).__name__})"


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="metatensor")
def app() -> None:
    """Plan models without data: determine their cost, check that they run, and list the contents of checkpoints."""
