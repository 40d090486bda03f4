"""The group of commands: our own, loaded when one of them runs, and those of plugins."""

from __future__ import annotations

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
        return super().main(*args, **kwargs)

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
