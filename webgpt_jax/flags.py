"""Command-line flags made from a frozen dataclass of settings, so that each default stands in one place.

A field declared with `option(default, help)` is the flag `--<name>`; its type is the field's annotation.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, field, fields
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from absl import flags

T = TypeVar("T")


class UsageError(Exception):
    """The command line is wrong: one line says how, the exit status is 2."""


def option(default: Any, help_text: str) -> Any:
    """A dataclass field that is also a flag."""
    return field(default=default, metadata={"help": help_text})


def _plain_type(annotation: Any) -> type:
    """The type of a flag; that of `X | None` is X."""
    if get_origin(annotation) in (Union, types.UnionType):
        (annotation,) = (choice for choice in get_args(annotation) if choice is not types.NoneType)
    return annotation  # type: ignore[no-any-return]


_DEFINE: dict[type, Callable[..., Any]] = {
    bool: flags.DEFINE_bool,
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
    str: flags.DEFINE_string,
}


def _options(settings: type) -> list[tuple[Field[Any], type]]:
    hints = get_type_hints(settings)
    return [(entry, _plain_type(hints[entry.name])) for entry in fields(settings)]


def parse(settings: type[T], arguments: Sequence[str]) -> tuple[T, list[str]]:
    """Reads flags, wherever they stand, into the dataclass; returns it and the other arguments in order.

    Raises:
      UsageError: an unknown flag, or a value that is not of the flag's type.
    """
    values = flags.FlagValues()  # type: ignore[no-untyped-call]
    values.set_gnu_getopt(True)
    for entry, kind in _options(settings):
        _DEFINE[kind](entry.name, entry.default, entry.metadata["help"], flag_values=values)
    for argument in arguments[: arguments.index("--")] if "--" in arguments else arguments:
        # Of absl's own flags: the one reads files as arguments, the other lets misspelt flags pass.
        if argument.startswith("-") and argument.lstrip("-").partition("=")[0] in ("flagfile", "undefok"):
            raise UsageError(f"Unknown command line flag {argument!r}")
    try:
        rest = values(["webgpt", *arguments])
    except flags.Error as error:
        raise UsageError(str(error).replace("\n", " ")) from None
    return settings(**{entry.name: values[entry.name].value for entry in fields(settings)}), rest[1:]  # type: ignore[arg-type]


def describe(settings: type) -> str:
    """The flags of a dataclass, two lines each, for `--help`."""
    lines = []
    for entry, kind in _options(settings):
        name = f"--[no]{entry.name}" if kind is bool else f"--{entry.name}=…"
        shown = entry.default not in (None, MISSING, False, "")
        lines += [f"  {name}", f"      {entry.metadata['help']}" + (f" (default: {entry.default})" if shown else "")]
    return "\n".join(lines)
