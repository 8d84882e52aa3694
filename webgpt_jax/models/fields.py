"""The fields of a `config.json`, each read by name and type, so that none that changes the logits goes unread."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from webgpt_jax.models.tensors import PretrainedError

MAX_INTEGER = 1 << 40  # no dimension of any model is larger

# Fields that say where a model came from, how it was trained, which tokens end a text, how it is sampled or served.
_HARMLESS = """_attn_implementation _attn_implementation_autoset _flash_attn_2_enabled _name_or_path _num_labels
activation_dropout architectures attention_dropout attention_probs_dropout_prob attn_implementation attn_pdrop auto_map
bad_words_ids begin_suppress_tokens bos_token_id chunk_size_feed_forward classifier_dropout custom_pipelines
decoder_start_token_id diversity_penalty do_sample dropout dtype early_stopping embd_pdrop encoder_no_repeat_ngram_size
eos_token_id exponential_decay_length_penalty finetuning_task forced_bos_token_id forced_eos_token_id
gradient_checkpointing hidden_dropout hidden_dropout_prob id2label init_std initializer_range is_decoder
is_encoder_decoder is_llama_config label2id layerdrop length_penalty mask_token_id max_length max_sequence_length
min_length model_type n_ctx n_special no_repeat_ngram_size num_beam_groups num_beams num_labels num_return_sequences
output_attentions output_hidden_states output_past output_scores pad_token_id predict_special_tokens prefix
pretraining_tp problem_type remove_invalid_values reorder_and_upcast_attn repetition_penalty resid_pdrop return_dict
return_dict_in_generate sep_token_id summary_activation summary_first_dropout summary_proj_to_labels summary_type
summary_use_proj suppress_tokens task_specific_params temperature tf_legacy_loss tie_encoder_decoder tokenizer_class
top_k top_p torch_dtype torchscript transformers.js_config transformers_version typical_p unk_token_id unsloth_fixed
unsloth_version use_bfloat16 use_cache"""
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
        """Fields that say something, that nothing asked for and that are not known to be harmless."""
        known = self._read | HARMLESS
        return sorted(name for name, value in self._values.items() if name not in known and value is not None)

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
