"""The group of commands: our own, loaded when one of them runs, and those of plugins."""

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
    "check": "Does a model run on meta, within budgets? For CI.",
    "convert": "Write a checkpoint in another format.",
    "devices": "List devices and plugins, and why a broken one is broken.",
    "estimate": "What a model costs: parameters, FLOPs, memory, shapes.",
    "inspect": "List the tensors of a checkpoint, compare it with another or with a model.",
    "run": "Run a script written for PyTorch, with metatensor in its place.",
}
"""Our commands, each in the module of its name, with what the overview says of it."""


class Commands(click.Group):
    """Commands by name; a plugin cannot take one of ours."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command. What the terminal's encoding does not have is written as escapes."""
        for stream in (sys.stdout, sys.stderr):
            if getattr(stream, "errors", None) == "strict":
                stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        if not kwargs.pop("standalone_mode", True):
            return super().main(*args, standalone_mode=False, **kwargs)
        sys.exit(self._status(*args, **kwargs))

    def _status(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command and return its exit status. One that was stopped has the status that a shell gives for its signal."""
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
        """Run the command. Where whoever reads its output has seen enough, it has the status of one stopped by SIGPIPE."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # click would make it 1
            _discard_output()
            raise SystemExit(128 + signal.SIGPIPE) from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*OWN, *_plugin_commands()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in OWN:
            module = import_module(f"metatensor.cli.{cmd_name}")
            command: click.Command = module.command
            return command
        return _plugin_commands().get(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The overview, without loading our commands."""
        plugins = _plugin_commands()
        rows = [(printable(name), OWN.get(name) or _help(plugins[name])) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _discard_output() -> None:
    """Let Python, which writes what is left when it ends, write it nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _plugin_commands() -> dict[str, Any]:
    """What the plugins' hook ``metatensor_commands`` registered, by name; the first of two with one name."""
    from metatensor import plugins

    found: dict[str, Any] = {}
    for command in plugins.commands():
        if isinstance(command, click.Command) and command.name and command.name not in OWN:
            found.setdefault(command.name, command)
    return found


def _help(command: click.Command) -> str:
    """What a plugin's command says of itself, in a line."""
    try:
        return printable(" ".join(command.get_short_help_str().split()))
    except (Exception, SystemExit) as error:
        return f"(its help fails: {type(error).__name__})"


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="metatensor")
def app() -> None:
    """Plan models without data: what they cost, whether they run, and what is in their checkpoints."""
