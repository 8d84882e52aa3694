"""The `webgpt` command, one module a subcommand: each has `usage() -> str` and `run(arguments) -> int`."""

import sys


class CommandError(Exception):
    """The command failed for a reason the user can do something about: one line, exit status 1."""


def emit(text: str) -> None:
    """Prints a result on standard output, now.

    Raises:
      CommandError: it cannot be written. A reader that has gone raises BrokenPipeError, as always.
    """
    try:
        print(text, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CommandError(f"cannot write the output: {error.strerror}") from None


def at_terminal() -> bool:
    """Whether a person can type; False also where standard input is closed."""
    return sys.stdin is not None and sys.stdin.isatty()
