"""The fields of a `config.json`, each read by name and type, so that none that changes the logits goes unread."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from webgpt_jax.models.tensors import PretrainedError

MAX_INTEGER = 1 << 40  # no dimension of any model is larger

# Fields that say where a model came from, how it was trained, which tokens end a text or how it is sampled.
_HARMLESS = """_name_or_path activation_dropout architectures attention_dropout attn_implementation attn_pdrop auto_map
bos_token_id chunk_size_feed_forward classifier_dropout dropout dtype embd_pdrop eos_token_id hidden_dropout id2label
init_std
initializer_range is_decoder is_encoder_decoder is_llama_config label2id layerdrop max_length model_type n_ctx
output_attentions output_hidden_states pad_token_id prefix pretraining_tp problem_type reorder_and_upcast_attn
resid_pdrop return_dict summary_activation summary_first_dropout summary_proj_to_labels summary_type summary_use_proj
task_specific_params tokenizer_class torch_dtype torchscript transformers.js_config transformers_version use_cache"""
HARMLESS = frozenset(_HARMLESS.split())


class Fields:
    """A mapping read field by field. Errors name the file and the field; `unread()` is what nothing asked for."""

    def __init__(self, values: Mapping[str, Any], path: Path) -> None:
        self._values, self._path = values, path
        self._read: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        """The field's value; `default` where it is missing or null."""
        self._read.add(name)
        value = self._values.get(name)
        return default if value is None else value

    def has(self, name: str) -> bool:
        """Whether the field stands there, null or not."""
        return name in self._values

    def integer(self, name: str, default: int | None = None) -> int:
        """A whole number above 0."""
        value = self.get(name, default)
        if value is None:
            raise self.error(name, "is missing")
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < MAX_INTEGER:
            raise self.error(name, f"must be a whole number above 0, not {value!r}")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """A finite number above 0."""
        value = self.get(name, default)
        if value is None:
            raise self.error(name, "is missing")
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
            raise self.error(name, f"must be a number above 0, not {value!r}")
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        """True or false."""
        value = self.get(name, default)
        if not isinstance(value, bool):
            raise self.error(name, f"must be true or false, not {value!r}")
        return value

    def choice(self, name: str, choices: Mapping[str, Any], default: str) -> Any:
        """What the text stands for among `choices`."""
        value = self.get(name, default)
        if not isinstance(value, str) or value not in choices:
            raise self.error(name, f"{value!r} is not supported, only {', '.join(sorted(choices))}")
        return choices[value]

    def expect(self, name: str, wanted: Any) -> None:
        """The field must be missing, null or `wanted`: our model has no other."""
        value = self.get(name, wanted)
        if value != wanted:
            raise self.error(name, f"{value!r} is not supported, only {wanted!r}")

    def divided(self, name: str, by: str, default: int | None = None, by_default: int | None = None) -> int:
        """One whole-number field over another, which must go evenly."""
        value, divisor = self.integer(name, default), self.integer(by, by_default)
        if value % divisor:
            raise self.error(name, f"{value} is not a multiple of {by} {divisor}")
        return value // divisor

    def unread(self) -> list[str]:
        """Fields that nothing asked for and that are not known to be harmless: transformers might read them."""
        return sorted(name for name in self._values if name not in self._read and name not in HARMLESS)

    def inside(self, name: str, known: Collection[str]) -> Fields | None:
        """The object in a field, with no entry but the known ones; None where it is missing or empty."""
        value = self.get(name, {})
        if not isinstance(value, dict):
            raise self.error(name, f"must be an object, not {value!r}")
        for entry in value:
            if entry not in known:
                raise self.error(f"{name}.{entry}", f"{value[entry]!r} is not supported")
        return Fields({f"{name}.{entry}": value[entry] for entry in value}, self._path) if value else None

    def error(self, name: str, problem: str) -> PretrainedError:
        """An error about one field."""
        return PretrainedError(f"{self._path}: the field {name} {problem}")
