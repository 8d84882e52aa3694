"""Comparisons of a model's answers on TinyWeb by simulated labelers: what reward models are trained on. Synthetic.

    python -m experiments.make_comparisons --model=runs/bc/final --split=rm --count=1500 --output=comparisons.jsonl

A comparison a line, each with all ratings of the labeler's form. The answers are sampled first and kept beside the
output (here comparisons.answers.jsonl). Interrupted, the same command goes on where it stopped, and the files become
the same. Labelers flag nonsense and compare nothing to a missing answer, so some questions have fewer comparisons.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import get_args

from experiments.tinyweb_lab.answers import make_comparisons, sample_answers
from experiments.training_flags import FAILURES, MISUSES, RunError
from webgpt_jax.cli import CommandError
from webgpt_jax.datasets import Comparison, write_comparisons
from webgpt_jax.env import EpisodeError, WebError
from webgpt_jax.env.episode import parse_episodes
from webgpt_jax.flags import UsageError, describe, option, parse
from webgpt_jax.models import read_settings
from webgpt_jax.tinyweb.questions import Split, questions
from webgpt_jax.tinyweb.world import make_world


@dataclass(frozen=True)
class ComparisonFlags:
    """What is made."""

    model: str | None = option(None, "folder of the policy that answers, as train_bc leaves it")
    output: str | None = option(None, "the file of comparisons; answers that are kept beside it are not sampled again")
    count: int = option(1500, "questions")
    split: str = option("rm", f"whose questions: {', '.join(get_args(Split))}")
    answers: int = option(4, "sampled for each question")
    per_question: int = option(3, "comparisons of each question at most")
    seed: int = option(0, "of the questions' order, what is sampled and the labelers")
    world: int = option(0, "the seed of the TinyWeb")

    def check(self) -> None:
        """Raises UsageError, naming the flag."""
        for name in ("model", "output"):
            if getattr(self, name) is None:
                raise UsageError(f"give --{name}=…")
        for name, least in (("count", 1), ("answers", 2), ("per_question", 1)):
            if getattr(self, name) < least:
                raise UsageError(f"--{name}={getattr(self, name)} must be at least {least}")
        if self.split not in get_args(Split):
            raise UsageError(f"--split={self.split} is none of {', '.join(get_args(Split))}")


def write(flags: ComparisonFlags) -> list[Comparison]:
    """Fills the file, and returns what it holds.

    Raises:
      RunError: there are not so many questions, the model cannot browse, the files hold something else, or too little
        is answered to compare anything.
      PretrainedError, EpisodeError, WebError, OSError: a file cannot be used.
    """
    output, model = Path(flags.output or ""), Path(flags.model or "")
    kept = output.with_suffix(".answers.jsonl")
    (split,) = (name for name in get_args(Split) if name == flags.split)
    world = make_world(flags.world)
    asked = list(islice(questions(world, split, flags.seed), flags.count))
    if len(asked) < flags.count:
        raise RunError(f"the set {split} has {len(asked):,} questions: give --count={len(asked)} at most")
    if output.exists() and not kept.exists():
        raise RunError(f"{output} was not made by this command, or {kept} is gone: give another --output")
    if kept.exists():
        _check_kept(kept, [question.text for question in asked for _ in range(flags.answers)])
    if read_settings(model) is None:
        raise RunError(f"{model} has no webgpt.json, so it was not trained to browse: give train_bc's final folder")
    answers = sample_answers(model, world, asked, flags.answers, kept, seed=flags.seed)
    found = make_comparisons(world, asked, answers, per_question=flags.per_question, seed=flags.seed)
    if not found:
        raise RunError(f"{model} answers no question twice, so there is nothing to compare: train it longer")
    partial = output.with_suffix(".partial")
    write_comparisons(partial, found)
    partial.replace(output)
    return found


def _check_kept(path: Path, texts: Sequence[str]) -> None:
    """Raises RunError where kept answers are to other questions. They may be more or fewer."""
    try:
        with path.open("rb") as lines:  # a killed run may have begun a line
            kept = list(parse_episodes((line for line in lines if line.endswith(b"\n")), str(path)))
    except ValueError as error:
        raise RunError(f"{error}: give another --output, or delete the file") from None
    for number, (episode, text) in enumerate(zip(kept, texts, strict=False), start=1):
        if episode.question != text:
            raise RunError(
                f"{path}, line {number} answers another question: give another --output, or the --split, --answers,"
                " --seed and --world that it was made with"
            )


def summary(found: Sequence[Comparison]) -> str:
    """One line of what a file holds; `found` is not empty."""
    ties = sum(comparison.label == 0.5 for comparison in found)
    about = len({comparison.question for comparison in found})
    return f"{len(found):,} comparisons of answers to {about:,} questions, {ties / len(found):.1%} ties"


def main() -> int:
    arguments = sys.argv[1:]
    if {"-h", "--help"} & set(arguments):
        print(f"{__doc__}\n{describe(ComparisonFlags)}")
        return 0
    try:
        flags, rest = parse(ComparisonFlags, arguments)
        if rest:
            raise UsageError(f"no argument {rest[0]!r} is known")
        flags.check()
        print(summary(write(flags)))
    except MISUSES as error:
        print(f"make_comparisons: {error} (--help)", file=sys.stderr)
        return 2
    except (*FAILURES, CommandError, EpisodeError, WebError, OSError) as error:
        print(f"make_comparisons: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("make_comparisons: interrupted; the same command goes on from here", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
