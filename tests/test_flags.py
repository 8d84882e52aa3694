"""Flags made from a dataclass of settings."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from webgpt_jax.flags import UsageError, describe, option, parse


@dataclass(frozen=True)
class Settings:
    name: str = option("x", "a name")
    limit: int | None = option(None, "a limit")
    rate: float = option(0.5, "a rate")
    json: bool = option(False, "as JSON")


def test_flags_may_stand_anywhere() -> None:
    settings, rest = parse(Settings, ["first", "--name=y", "second", "--limit", "3", "--json"])
    assert settings == Settings(name="y", limit=3, rate=0.5, json=True)
    assert rest == ["first", "second"]


def test_nothing_after_two_dashes_is_a_flag() -> None:
    assert parse(Settings, ["--", "--json", "what?"])[1] == ["--json", "what?"]


def test_a_boolean_can_be_switched_off() -> None:
    assert parse(Settings, ["--nojson"])[0].json is False


@pytest.mark.parametrize("arguments", [["--limit=three"], ["--rate=fast"], ["--nam=x"], ["--json=perhaps"]])
def test_a_wrong_flag_is_one_line(arguments: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        parse(Settings, arguments)
    assert "\n" not in str(caught.value)
    assert arguments[0].partition("=")[0].lstrip("-")[:3] in str(caught.value)


def test_help_names_every_flag_and_default() -> None:
    assert describe(Settings) == (
        "  --name=…\n      a name (default: x)\n"
        "  --limit=…\n      a limit\n"
        "  --rate=…\n      a rate (default: 0.5)\n"
        "  --[no]json\n      as JSON"
    )
