"""Frozen dataclasses as JSON and back, every field checked. Faults are named by their place: `steps[3].action.text`."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def encode(value: Any) -> Any:
    """A dataclass, or a tuple, mapping, enum or plain value within one, as what `json.dumps` takes."""
    if is_dataclass(value):
        return {field.name: encode(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (tuple, list)):
        return [encode(item) for item in value]
    if isinstance(value, Mapping):
        return {key: encode(item) for key, item in value.items()}
    return value


def decode(kind: type[T], value: Any) -> T:
    """The value of that type which `encode` made `value` of.

    Raises:
      ValueError: a field is missing, unknown or of another type; the message names it.
    """
    decoded: T = _decode(kind, value, "")
    return decoded


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _fail(where: str, wanted: str, value: Any) -> ValueError:
    return ValueError(f'field "{where or "(the whole)"}": expected {wanted}, found {type(value).__name__}')


def _decode(kind: Any, value: Any, where: str) -> Any:
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        (inner,) = (option for option in get_args(kind) if option is not types.NoneType)
        return None if value is None else _decode(inner, value, where)
    if origin is tuple:
        if not isinstance(value, list):
            raise _fail(where, "a list", value)
        return tuple(_decode(get_args(kind)[0], item, f"{where}[{at}]") for at, item in enumerate(value))
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, dict):
            raise _fail(where, "an object", value)
        return {key: _decode(get_args(kind)[1], item, f"{where}.{key}") for key, item in value.items()}
    if is_dataclass(kind):
        return _decode_dataclass(kind, value, where)
    if issubclass(kind, Enum):
        try:
            return kind(value)
        except ValueError:
            options = ", ".join(str(option.value) for option in kind)
            raise ValueError(f'field "{where}": {value!r} is none of {options}') from None
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise ValueError(f'field "{where}": the number is too large') from None
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise _fail(where, kind.__name__, value)
    return value


def _decode_dataclass(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise _fail(where, "an object", value)
    prefix = f"{where}." if where else ""
    hints = _hints(kind)
    for name in hints.keys() - value.keys():
        raise ValueError(f'field "{prefix}{name}" is missing')
    for name in value.keys() - hints.keys():
        raise ValueError(f'field "{prefix}{name}" is unknown')
    try:
        return kind(**{name: _decode(hint, value[name], prefix + name) for name, hint in hints.items()})
    except ValueError as error:
        if 'field "' in str(error):
            raise
        raise ValueError(f'field "{where or "(the whole)"}": {error}') from None
