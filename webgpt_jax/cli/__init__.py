"""The `webgpt` command, one module a subcommand: each has `usage() -> str` and `run(arguments) -> int`."""


class CommandError(Exception):
    """The command failed for a reason the user can do something about: one line, exit status 1."""
