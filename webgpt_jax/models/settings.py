"""`webgpt.json`: what a model's folder says beside the weights that a config.json has no place for: what the model was
trained to be, the step size that its trainings are fractions of, and how it browses.

    {"format": 1, "kind": "policy", "base_step_size": 0.001, "prompts": "plain", "window_chars": 900, …}
"""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from webgpt_jax.models.tensors import PretrainedError, read_json

SETTINGS_FILE = "webgpt.json"
FORMAT = 1

Kind: TypeAlias = Literal["pretrained", "policy", "reward_model"]
PromptStyle: TypeAlias = Literal["plain"]


@dataclass(frozen=True)
class FolderSettings:
    """What a folder of ours says. The defaults are the paper's, where it says something."""

    kind: Kind  # a language model, one that was trained to browse and answer, or one that scores answers
    base_step_size: float | None = None  # Adam's in pre-training; BC's, the reward model's and PPO's are parts of it
    prompts: PromptStyle = "plain"  # an observation or an answering prompt stands alone, in no chat template
    window_chars: int = 3000  # of a page in an observation
    context_tokens: int = 2048  # of an observation with its command, or an answering prompt with its answer
    max_command_tokens: int = 64  # the paper's Table 5: tokens per action
    max_answer_tokens: int = 256
    max_actions: int = 100  # of an episode (paper, at evaluation)

    def validate(self) -> None:
        """Raises `ValueError` naming the field that means nothing."""
        for name, choices in (("kind", get_args(Kind)), ("prompts", get_args(PromptStyle))):
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} {getattr(self, name)!r} is none of {', '.join(choices)}")
        size = self.base_step_size
        if size is not None and not (_is_number(size) and math.isfinite(size) and size > 0):
            raise ValueError(f"base_step_size must be a number above 0, or null, not {size!r}")
        for name in ("window_chars", "context_tokens", "max_command_tokens", "max_answer_tokens", "max_actions"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name} must be a whole number above 0, not {value!r}")
        longest = max(self.max_command_tokens, self.max_answer_tokens)
        if longest >= self.context_tokens:
            raise ValueError(f"context_tokens {self.context_tokens} has no room for a completion of {longest}")


def read_settings(folder: str | Path) -> FolderSettings | None:
    """What the folder says; None where it has no webgpt.json, or is none.

    Raises:
      PretrainedError: it cannot be read, is of another format, or has a field that is unknown or means nothing.
    """
    path = Path(folder) / SETTINGS_FILE
    if not path.is_file():
        return None
    values = read_json(path)
    if values.pop("format", None) != FORMAT:
        raise PretrainedError(f"{path} is of another format, this program reads {FORMAT}")
    known = {field.name for field in dataclasses.fields(FolderSettings)}
    unknown = sorted(values.keys() - known)
    if unknown:
        raise PretrainedError(f"{path}: the field {unknown[0]} is unknown")
    try:
        settings = FolderSettings(**values)
        settings.validate()
    except (TypeError, ValueError) as error:
        raise PretrainedError(f"{path}: {error}") from error
    return settings


def write_settings(folder: str | Path, settings: FolderSettings) -> None:
    """Writes webgpt.json into a folder that is there. Raises `ValueError` for settings that mean nothing."""
    settings.validate()
    text = json.dumps({"format": FORMAT, **dataclasses.asdict(settings)}, indent=2)
    (Path(folder) / SETTINGS_FILE).write_text(f"{text}\n", encoding="utf-8")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
