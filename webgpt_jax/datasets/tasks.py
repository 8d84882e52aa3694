"""Demonstrations, comparisons and questions as seqio tasks and mixtures over TFDS-style sources.

For trainers that take seqio's, and for its Apache Beam jobs, which cut large data into tokens once
(`seqio_cache_tasks`). The examples are those of `webgpt_jax.datasets.batches`, token for token; what our own trainers
take is those batches, whose order is the same on any number of hosts and after resuming.

TensorFlow is imported by the functions alone, sees no accelerator, and does not log what it did not find.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from webgpt_jax.datasets.comparisons import read_comparisons
from webgpt_jax.datasets.demonstrations import read_demonstrations
from webgpt_jax.datasets.questions import read_questions
from webgpt_jax.datasets.records import DataError
from webgpt_jax.datasets.splits import SPLITS, Split, is_in_split
from webgpt_jax.datasets.tokenization import Tokenizer, check_gpt2, end_token, tokenize_example, tokenize_side

# How many of each the paper's models were trained on (Table 4): rates for mixtures of such sources.
PAPER_DEMONSTRATIONS = {
    "eli5": 5711,
    "eli5_fact_check": 67,
    "triviaqa": 143,
    "arc_challenge": 43,
    "arc_easy": 83,
    "hand_written": 162,
}
PAPER_COMPARISONS = {"eli5": 21068, "eli5_fact_check": 185, "triviaqa": 134, "arc_challenge": 84, "arc_easy": 77}
PAPER_RL_QUESTIONS = {"eli5": 0.9, "triviaqa": 0.1}  # section 3.2

Record = dict[str, Any]


def add_demonstrations(
    name: str,
    paths: Sequence[Path],
    tokenizer: Tokenizer,
    *,
    held_out: float = 0.04,
    skip_bad_records: bool = False,
) -> Any:
    """Registers a seqio task of demonstrations and returns it.

    Its splits are "train" and "validation". An example has the features `inputs`, the prompt's tokens, and `targets`,
    the completion's and the end token: what `seqio.PrefixLMFeatureConverter` takes, with its loss on targets only.
    Examples with a feature longer than asked for are dropped, never cut.

    Args:
      name: of the task, such as "webgpt_demonstrations"; seqio takes a name once in a process.
      paths, held_out, skip_bad_records: see `read_demonstrations`.
      tokenizer: the model's.

    Raises:
      DataError: seqio is not installed, or the tokenizer has no end token.
      ValueError: the name is taken.
    """

    def records(split: Split) -> Iterator[Record]:
        for found in read_demonstrations(paths, split=split, held_out=held_out, skip_bad_records=skip_bad_records):
            for example in found.examples:
                cut = tokenize_example(example, tokenizer)
                yield {"inputs": cut.prompt, "targets": cut.completion}

    return _add_task(name, records, tokenizer, ("inputs", "targets"), [_drop_too_long])


def add_comparisons(
    name: str,
    paths: Sequence[Path],
    tokenizer: Tokenizer,
    *,
    held_out: float = 0.25,
    released_tokens: bool = False,
    skip_bad_records: bool = False,
) -> Any:
    """Registers a seqio task of comparisons and returns it.

    Its splits are "train" and "validation". An example has the features `tokens_a` and `tokens_b`, each side's prompt,
    answer and end token, which lose their front where they are longer than asked for, and `label`, float32: 1, 0.5 or
    0. Examples with a longer answer are dropped.

    Args:
      name: of the task, such as "webgpt_comparisons"; seqio takes a name once in a process.
      paths, held_out, skip_bad_records: see `read_comparisons`.
      tokenizer: the reward model's.
      released_tokens: see `comparison_batches`.

    Raises:
      DataError: seqio is not installed, the tokenizer has no end token, or is not GPT-2's for released tokens.
      ValueError: the name is taken.
    """
    if released_tokens:
        check_gpt2(tokenizer)

    def records(split: Split) -> Iterator[Record]:
        for found in read_comparisons(paths, split=split, held_out=held_out, skip_bad_records=skip_bad_records):
            record: Record = {"label": found.label}
            for letter, side in (("a", found.a), ("b", found.b)):
                cut = tokenize_side(found, side, tokenizer, released_tokens=released_tokens)
                record[f"tokens_{letter}"] = cut.prompt + cut.completion
                record[f"answer_{letter}_length"] = len(cut.completion)
            yield record

    return _add_task(name, records, tokenizer, ("tokens_a", "tokens_b", "label"), [_keep_answers])


def add_questions(
    name: str,
    paths: Sequence[Path],
    tokenizer: Tokenizer,
    *,
    held_out: float = 0.04,
    skip_bad_records: bool = False,
) -> Any:
    """Registers a seqio task of questions and returns it.

    Its splits are "train" and "validation", of the same questions as those of demonstrations. An example has the
    feature `inputs`, the question's tokens, and carries its text as `question`.

    Args:
      name: of the task, such as "webgpt_questions"; seqio takes a name once in a process.
      paths, skip_bad_records: see `read_questions`.
      tokenizer: the model's.
      held_out: the share of questions in "validation".

    Raises:
      DataError: seqio is not installed, or the tokenizer has no end token.
      ValueError: the name is taken.
    """

    def records(split: Split) -> Iterator[Record]:
        for path in paths:
            for found in read_questions(path, skip_bad_records=skip_bad_records):
                if is_in_split(found.question, split, held_out):
                    yield {"inputs": tokenizer.encode(found.question), "question": found.question}

    return _add_task(name, records, tokenizer, ("inputs",), [_drop_too_long], texts=("question",))


def add_mixture(name: str, rates: Mapping[str, float]) -> Any:
    """Registers a seqio mixture of tasks and returns it.

    Args:
      name: of the mixture; seqio takes a name once in a process.
      rates: by the tasks' names, in proportion to which their examples are drawn: where the sources are the paper's,
        its counts, such as {"webgpt_eli5": PAPER_DEMONSTRATIONS["eli5"], …}.

    Raises:
      DataError: seqio is not installed, or there is no rate above 0.
      ValueError: the name is taken, or a task is not registered.
    """
    if not rates or not all(rate > 0 for rate in rates.values()):
        raise DataError(f"a mixture takes rates above 0, by the tasks' names, not {dict(rates)}")
    seqio, _ = _libraries()
    return seqio.MixtureRegistry.add(name, list(rates.items()))


def _libraries() -> tuple[Any, Any]:
    """seqio and TensorFlow, which is kept from the accelerators: they are JAX's."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        import seqio
        import tensorflow
    except ImportError as error:
        raise DataError(f"seqio tasks need the extra data: pip install -e '.[data]' ({error})") from error
    for kind in ("GPU", "TPU"):
        try:
            tensorflow.config.set_visible_devices([], kind)
        except RuntimeError:  # whoever used TensorFlow before has chosen its devices
            break
    return seqio, tensorflow


def _add_task(
    name: str,
    records: Callable[[Split], Iterator[Record]],
    tokenizer: Tokenizer,
    features: Sequence[str],
    preprocessors: Sequence[Callable[..., Any]],
    texts: Sequence[str] = (),
) -> Any:
    seqio, tensorflow = _libraries()
    vocabulary = seqio.PassThroughVocabulary(tokenizer.vocab_size, end_token(tokenizer))
    label = seqio.Feature(vocabulary, add_eos=False, dtype=tensorflow.float32, rank=0)
    tokens = seqio.Feature(vocabulary, add_eos=False)
    outputs = {feature: label if feature == "label" else tokens for feature in features}
    signature = {feature: tensorflow.TensorSpec([None] * of.rank, of.dtype) for feature, of in outputs.items()}
    signature |= {text: tensorflow.TensorSpec([], tensorflow.string) for text in texts}
    for feature in features:
        if feature.startswith("tokens_"):
            signature[f"answer_{feature[-1]}_length"] = tensorflow.TensorSpec([], tensorflow.int32)

    def dataset(split: str, shuffle_files: bool, seed: int | None = None) -> Any:
        del shuffle_files, seed  # seqio shuffles the examples
        return tensorflow.data.Dataset.from_generator(lambda: records(split), output_signature=signature)  # type: ignore[arg-type]

    return seqio.TaskRegistry.add(
        name,
        source=seqio.FunctionDataSource(dataset, splits=SPLITS),
        preprocessors=[seqio.CacheDatasetPlaceholder(), *preprocessors],
        output_features=outputs,
    )


def _drop_too_long(dataset: Any, sequence_length: Mapping[str, int] | None) -> Any:
    """Without the examples of which a feature is longer than asked for: seqio would cut them at their end."""
    _, tensorflow = _libraries()
    most = dict(sequence_length or {})

    def fits(record: Record) -> Any:
        found = [tensorflow.size(record[name]) <= length for name, length in most.items() if name in record]
        return tensorflow.reduce_all(tensorflow.stack([True, *found]))

    return dataset.filter(fits)


def _keep_answers(dataset: Any, sequence_length: Mapping[str, int] | None) -> Any:
    """Sides cut at their front to the length asked for, without the examples whose answer is longer."""
    _, tensorflow = _libraries()
    most = {letter: (sequence_length or {}).get(f"tokens_{letter}") for letter in "ab"}

    def fits(record: Record) -> Any:
        found = [record[f"answer_{at}_length"] <= length for at, length in most.items() if length is not None]
        return tensorflow.reduce_all(tensorflow.stack([True, *found]))

    def cut(record: Record) -> Record:
        sides = {f"tokens_{at}": record[f"tokens_{at}"][-length:] for at, length in most.items() if length is not None}
        return {name: value for name, value in (record | sides).items() if not name.startswith("answer_")}

    return dataset.filter(fits).map(cut)
