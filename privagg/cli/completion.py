"""``privagg completion``: the script that teaches a shell the command's words."""

from __future__ import annotations

import rich_click as click
from click.shell_completion import get_completion_class

__all__ = ["command"]

_HELP = """Print the completion script for a shell.

\b
bash   eval "$(privagg completion bash)"      in ~/.bashrc
zsh    eval "$(privagg completion zsh)"       in ~/.zshrc
fish   privagg completion fish | source       in ~/.config/fish/config.fish
"""


@click.command("completion", help=_HELP)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the script of click's completion class for `shell`."""
    completion = get_completion_class(shell)
    if completion is None:
        raise click.UsageError(f"click has no completion for {shell}", ctx)
    click.echo(completion(ctx.find_root().command, {}, "privagg", "_PRIVAGG_COMPLETE").source())
