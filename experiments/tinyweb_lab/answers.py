"""Answers sampled from a model on TinyWeb, and what the simulated labelers say of them.

A file of sampled answers has an episode a line, in the order of the questions, n after one another for each.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from pathlib import Path

import jax

from webgpt_jax.datasets import Comparison, Side
from webgpt_jax.env import Episode, episode_to_json
from webgpt_jax.env.episode import parse_episodes
from webgpt_jax.models import FolderSettings, load_pretrained, load_reward_model, read_settings
from webgpt_jax.rollout import Scorer, Task, open_player
from webgpt_jax.tinyweb.labeler import Judgement, judge
from webgpt_jax.tinyweb.labeler import Side as JudgedSide
from webgpt_jax.tinyweb.preferences import LabelerConfig, Ratings, compare, preference_probability
from webgpt_jax.tinyweb.questions import Split, TinyQuestion, questions
from webgpt_jax.tinyweb.web import open_tinyweb
from webgpt_jax.tinyweb.world import World
from webgpt_jax.training.metrics import Progress

SLOTS = 32
PLAYED_AT_ONCE = 48  # more than there are slots: some are always reading a page


def some_questions(world: World, split: Split, count: int, seed: int = 0) -> list[TinyQuestion]:
    """The first questions of a set, in an order drawn from the seed.

    Raises:
      ValueError: there are not as many.
    """
    found = list(islice(questions(world, split, seed), count))
    if len(found) < count:
        raise ValueError(f"the set {split!r} has {len(found)} questions, not {count}")
    return found


def sample_answers(
    model: Path,
    world: World,
    asked: Sequence[TinyQuestion],
    n: int,
    output: Path,
    *,
    seed: int = 0,
    temperature: float = 0.8,
) -> list[list[Episode]]:
    """n episodes for each question, [Q][n], from the file where it has them, played and written to it where not.

    The file is written as episodes end, in order, so that an interrupted run goes on; the same seed gives the same. How
    many are written is told on standard error.
    """
    done = list(_whole_lines(output)) if output.exists() else []
    wanted = len(asked) * n
    if len(done) < wanted:
        output.parent.mkdir(parents=True, exist_ok=True)
        _write(output, done)
        with Progress(wanted) as progress:
            done += asyncio.run(_play(model, world, asked, n, output, len(done), seed, temperature, progress))
    return [done[at * n : (at + 1) * n] for at in range(len(asked))]


def _whole_lines(path: Path) -> Iterator[Episode]:
    """Leaves out what a killed run may have begun to write."""
    with path.open("rb") as lines:
        yield from parse_episodes((line for line in lines if line.endswith(b"\n")), str(path))


def _write(path: Path, episodes: Sequence[Episode]) -> None:
    partial = path.with_suffix(".partial")
    partial.write_text("".join(f"{episode_to_json(episode)}\n" for episode in episodes), encoding="utf-8")
    partial.replace(path)


async def _play(
    folder: Path,
    world: World,
    asked: Sequence[TinyQuestion],
    n: int,
    output: Path,
    start: int,
    seed: int,
    temperature: float,
    progress: Progress,
) -> list[Episode]:
    model, tokenizer = load_pretrained(folder)
    settings = read_settings(folder)
    if tokenizer is None or settings is None:
        raise ValueError(f"{folder} has no tokenizer or no webgpt.json: it was not trained to browse")
    key = jax.random.key(seed)
    jobs = [(at, sample) for at in range(len(asked)) for sample in range(n)][start:]
    tasks = [Task(asked[at].text, jax.random.fold_in(jax.random.fold_in(key, at), sample)) for at, sample in jobs]
    waiting: dict[int, Episode] = {}
    written = 0
    with (
        output.open("a", encoding="utf-8") as lines,
        open_player(model, tokenizer, settings, slots=SLOTS, temperature=temperature, name=folder.name) as player,
    ):

        def keep(number: int, episode: Episode) -> None:
            nonlocal written
            waiting[number] = episode
            while written in waiting:  # in the order of the questions
                lines.write(f"{episode_to_json(waiting.pop(written))}\n")
                written += 1
            progress.update(start + written, {})

        async with open_tinyweb(world.seed, animals=len(world.animals)) as web:
            return await player.play_all(web, tasks, concurrency=PLAYED_AT_ONCE, on_end=keep)


def side_of(episode: Episode) -> JudgedSide:
    """What the labeler sees of an episode."""
    return JudgedSide(episode.quotes, None if episode.answer is None else episode.answer.text, episode.end)


def judgement(world: World, question: TinyQuestion, episode: Episode) -> Judgement:
    """What the labeler finds in it."""
    return judge(world, question, side_of(episode))


def preference(world: World, question: TinyQuestion, a: Episode, b: Episode, labeler: LabelerConfig) -> float:
    """How probable it is that a labeler prefers the first, a tie counting half."""
    return preference_probability(judgement(world, question, a), judgement(world, question, b), labeler)


def make_comparisons(
    world: World,
    asked: Sequence[TinyQuestion],
    answers: Sequence[Sequence[Episode]],
    *,
    per_question: int = 1,
    labeler: LabelerConfig | None = None,
    seed: int = 0,
) -> list[Comparison]:
    """Labelers' comparisons of answers to the same question. Flagged questions and missing answers have none.

    Args:
      answers: [Q][n], n at least 2.
      per_question: pairs of each question, drawn without repetition.
      labeler: its settings.
      seed: of the labelers and of which pairs they see, and on which side.
    """
    labeler = LabelerConfig() if labeler is None else labeler
    draw = random.Random(f"tinyweb comparisons {world.seed} {seed}")
    found = []
    for number, (question, episodes) in enumerate(zip(asked, answers, strict=True)):
        answered = [episode for episode in episodes if episode.answer is not None and episode.answer.text.strip()]
        pairs = list(combinations(answered, 2))
        for at, pair in enumerate(draw.sample(pairs, min(per_question, len(pairs)))):
            first, second = pair if draw.random() < 0.5 else pair[::-1]
            form = compare(world, question, side_of(first), side_of(second), labeler, draw.randrange(1 << 30))
            if form.label is None or form.ratings is None:
                continue
            found.append(
                Comparison(
                    id=f"tinyweb-{world.seed}-{seed}-{number}-{at}",
                    question=question.text,
                    a=_answer_of(first),
                    b=_answer_of(second),
                    label=form.label,
                    rating=form.ratings.overall / 2,
                    labeler="simulated",
                    info=_rated(form.ratings),
                )
            )
    return found


def _rated(ratings: Ratings) -> dict[str, str]:
    """The form's ratings by name, as words: "coherence": "a much better"."""
    by_name = {
        "unsupported": ratings.unsupported,
        "irrelevant": ratings.irrelevant,
        **{f"usefulness {level.value}": rating for level, rating in ratings.usefulness.items()},
        "coherence": ratings.coherence,
        "overall": ratings.overall,
    }
    return {name: rating.name.lower().replace("_", " ") for name, rating in by_name.items()}


def _answer_of(episode: Episode) -> Side:
    assert episode.answer is not None
    return Side(episode.quotes, episode.answer.text)


def open_scorer(folder: Path) -> Scorer:
    """The reward model in a folder."""
    model, tokenizer = load_reward_model(folder)
    settings = read_settings(folder) or FolderSettings("reward_model")
    if tokenizer is None:
        raise ValueError(f"{folder} has no tokenizer")
    return Scorer(model, tokenizer, settings.context_tokens)


@dataclass(frozen=True)
class Outcomes:
    """What a set of episodes came to."""

    episodes: int
    valid: float  # share of actions that are commands
    answered: float  # share of answerable questions answered with at least one reference
    nonsense: float | None  # share of nonsense questions that were called so
    actions: float  # mean of an episode
    utility: float  # mean, the labeler's


def outcomes(world: World, asked: Sequence[TinyQuestion], answers: Sequence[Sequence[Episode]]) -> Outcomes:
    """Counts of episodes [Q][n]."""
    pairs = [(question, episode) for question, episodes in zip(asked, answers, strict=True) for episode in episodes]
    steps = [step for _, episode in pairs for step in episode.steps]
    answerable = [episode for question, episode in pairs if question.needs]
    nonsense = [episode for question, episode in pairs if not question.needs]
    return Outcomes(
        episodes=len(pairs),
        valid=sum(step.valid for step in steps) / max(len(steps), 1),
        answered=sum(_answered(episode) for episode in answerable) / max(len(answerable), 1),
        nonsense=sum(episode.end.value == "nonsense" for episode in nonsense) / len(nonsense) if nonsense else None,
        actions=len(steps) / max(len(pairs), 1),
        utility=sum(judgement(world, question, episode).utility for question, episode in pairs) / max(len(pairs), 1),
    )


def _answered(episode: Episode) -> bool:
    return bool(episode.quotes) and episode.answer is not None and bool(episode.answer.text.strip())
