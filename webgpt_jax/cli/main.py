"""`webgpt`: finds the subcommand and turns what went wrong into one line and an exit status.

Exit status: 0, 1 (it failed; one line says why and what to do) or 2 (wrong usage). A subcommand is imported only when
it is asked for, so that `webgpt --help` is quick.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper

COMMANDS = {
    "ask": "answer questions from the web, with references",
    "browse": "drive the text browser yourself",
    "corpus": "render a bundled web",
    "demo": "train, pick and measure on a synthetic web, in minutes",
    "preflight": "say whether a training run fits on a TPU slice",
    "recording": "look into a recording of the web, export it",
    "view": "write episodes as a page to read",
}


def usage() -> str:
    lines = [f"  {name:<10} {purpose}" for name, purpose in COMMANDS.items()]
    return "\n".join(["usage: webgpt <command> …", "", *lines, "", "webgpt <command> --help says more of each."])


def main(arguments: Sequence[str] | None = None) -> int:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal that knows fewer characters shows others in their place
            stream.reconfigure(errors="backslashreplace")
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage())
        return 0 if arguments else 2
    name, *rest = arguments
    if name == "--version":
        from webgpt_jax import __version__

        print(f"webgpt_jax {__version__}")
        return 0
    if name not in COMMANDS:
        print(f"webgpt: no command {name!r}; there are {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    command = import_module(f"webgpt_jax.cli.{name}")
    if {"-h", "--help"} & set(rest[: rest.index("--")] if "--" in rest else rest):
        print(command.usage())
        return 0

    from webgpt_jax.cli import CommandError
    from webgpt_jax.flags import UsageError

    try:
        status: int = command.run(rest)
    except UsageError as error:
        print(f"webgpt {name}: {error} (webgpt {name} --help)", file=sys.stderr)
        return 2
    except CommandError as error:
        print(f"webgpt {name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"webgpt {name}: interrupted", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader of our output is gone, as in `webgpt ask … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status
