"""A study as a program: its flags, the models it is about, and the folder in which all is kept.

runs/studies/
  config.json              the resolved settings of each study
  fig05.csv, fig05.png …   its points and its figure
  demonstrations.jsonl     of all models
  0.3m/                    a model's policy (bc/), reward models (rm/, validation_rm/) and answers: see `tinyweb_lab`

Studies of one folder share its models and answers, so that each is trained and sampled once.
"""

from __future__ import annotations

import dataclasses
import fcntl
import json
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import jax

from experiments.studies.figures import check_matplotlib
from experiments.tinyweb_lab.family import FAMILY, SIZES, SMALL, Plan, Say, models_are_there, policy_of
from experiments.training_flags import FAILURES, MISUSES, RunError
from webgpt_jax.cli import CommandError
from webgpt_jax.env import EpisodeError, WebError
from webgpt_jax.flags import UsageError, describe, option, parse
from webgpt_jax.models import load_pretrained
from webgpt_jax.models.flops import parameter_count
from webgpt_jax.sampling import use_compilation_cache
from webgpt_jax.tinyweb.world import World, make_world

Flags = TypeVar("Flags", bound="StudyFlags")
R = TypeVar("R")


@dataclass(frozen=True)
class StudyFlags:
    """The flags that every study has. Counts that are None are the plan's, or the small plan's."""

    sizes: str | None = option(None, f"of TinyWeb's family, of {', '.join(SIZES)} (default: those in {FAMILY})")
    models: str | None = option(None, "in their place: folders of pre-trained models, with commas between them")
    workdir: str = option("runs/studies", "where all is kept; what is there is not made again")
    small: bool = option(False, "the smallest size and few of everything, as the demo has")
    test_questions: int | None = option(None, "that are measured on (default: 300; small: 48)")
    demonstrations: int | None = option(None, "episodes of behaviour cloning")
    questions: int | None = option(None, "that the reward model's comparisons are about")
    validation_questions: int | None = option(None, "that the validation reward model's comparisons are about")
    answers: int | None = option(None, "sampled for each of these questions")
    comparisons: int | None = option(None, "of each of these questions")
    bc_batch: int | None = option(None, "rows of packed examples in a minibatch of behaviour cloning")
    bc_multiplier: float | None = option(None, "step size ÷ base step size, of behaviour cloning")
    bc_epochs: int | None = option(None, "of behaviour cloning")
    rm_batch: int | None = option(None, "comparisons in a minibatch")
    rm_multiplier: float | None = option(None, "step size ÷ base step size, of reward models")
    rm_epochs: int | None = option(None, "of reward models")
    world: int = option(0, "the seed of the TinyWeb")
    seed: int = option(0, "of all that is drawn")

    def check(self) -> None:
        """Raises `UsageError` for flags that cannot work."""
        if self.sizes and self.models:
            raise UsageError("give --sizes or --models, not both")
        unknown = [size for size in _listed(self.sizes) if size not in SIZES]
        if unknown:
            raise UsageError(f"--sizes={unknown[0]} is none of {', '.join(SIZES)}; other models go into --models")
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            least = 0 if field.name in ("world", "seed") else 1
            if isinstance(value, int) and not isinstance(value, bool) and value < least:
                raise UsageError(f"--{field.name} must be at least {least}, not {value}")

    @property
    def asked(self) -> int:
        """How many questions of the set "test"."""
        return self.test_questions or (48 if self.small else 300)

    @property
    def plan(self) -> Plan:
        """How much of everything else."""
        given = {field.name: getattr(self, field.name, None) for field in dataclasses.fields(Plan)}
        return replace(SMALL if self.small else Plan(), **{name: it for name, it in given.items() if it is not None})


@dataclass(frozen=True)
class Model:
    """A pre-trained model, which a study follows."""

    name: str
    pretrained: Path
    parameters: int


@dataclass(frozen=True)
class Study:
    """What a study works with.

    Attributes:
      workdir: of all.
      plan: how much.
      world: the TinyWeb.
      models: from the smallest to the largest.
      say: told what each step came to.
    """

    workdir: Path
    plan: Plan
    world: World
    models: tuple[Model, ...]
    say: Say

    def folder(self, model: Model) -> Path:
        """What is kept of a model."""
        return self.workdir / model.name

    def policy(self, model: Model) -> Path:
        """Its policy's folder, trained where it is not there."""
        return policy_of(model.name, model.pretrained, self.folder(model), self.plan, self.say)

    @property
    def largest(self) -> Model:
        """The model whose validation reward model judges all: a common scale (our reading: the paper's figures 6 and 8
        compare sizes on one axis)."""
        return self.models[-1]


@dataclass(frozen=True)
class Result(Generic[R]):
    """What a study came to.

    Attributes:
      rows: its points.
      csv: their file.
      png: the figure's.
      lines: what it says in words, slopes and their errors.
    """

    rows: list[R]
    csv: Path
    png: Path
    lines: tuple[str, ...]


@contextmanager
def open_study(
    name: str, flags: StudyFlags, settings: Mapping[str, Any], *, plan: Plan | None = None, say: Say = print
) -> Iterator[Study]:
    """The folder of a study, for this process alone.

    Args:
      name: of the study.
      flags: checked.
      settings: what its points depend on beside the plan and the models.
      plan: in place of the flags'.
      say: told what each step came to.

    Raises:
      RunError: a model is missing, matplotlib is, another study runs in the folder, or what is there was made with
        other settings.
    """
    check_matplotlib()
    models = find_models(flags)
    plan = flags.plan if plan is None else plan
    workdir = Path(flags.workdir)
    workdir.mkdir(parents=True, exist_ok=True)
    if jax.config.jax_compilation_cache_dir is None:  # type: ignore[attr-defined]
        use_compilation_cache(workdir / "compiled")
    with (workdir / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(f"another study runs in {workdir}: wait for it, or give another --workdir") from None
        _keep_settings(workdir, name, models, plan, settings)
        yield Study(workdir, plan, make_world(plan.world), models, say)


def find_models(flags: StudyFlags) -> tuple[Model, ...]:
    """The models of a study, from the smallest to the largest.

    Raises:
      RunError: one is not there, or two have one name.
    """
    if flags.models:
        folders = {Path(name).resolve().name: Path(name) for name in _listed(flags.models)}
        if len(folders) < len(_listed(flags.models)):
            raise RunError("--models has two folders of one name: models are kept by their folders' names")
    else:
        there = models_are_there(SIZES)
        sizes = _listed(flags.sizes) or there[: 1 if flags.small else None]
        for size in sizes or SIZES[:1]:
            if size not in there:
                raise RunError(
                    f"{FAMILY / size} holds no model: python -m experiments.pretrain_tinyweb --size={size} --keep"
                    " makes it, or give --models=FOLDER"
                )
        folders = {size: FAMILY / size for size in sizes}
    found = [Model(name, path, parameter_count(load_pretrained(path)[0].config)) for name, path in folders.items()]
    return tuple(sorted(found, key=lambda model: (model.parameters, model.name)))


def _listed(names: str | None) -> list[str]:
    return [name for name in (names or "").split(",") if name]


def _keep_settings(
    workdir: Path, name: str, models: tuple[Model, ...], plan: Plan, settings: Mapping[str, Any]
) -> None:
    """Writes config.json, or sees that what is there was made with the same settings. Models may be added."""
    path = workdir / "config.json"
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    asked = {
        "plan": dataclasses.asdict(plan),
        "models": {model.name: str(model.pretrained) for model in models},
        name: dict(settings),
    }
    if not (workdir / f"{name}.csv").exists():
        kept.pop(name, None)  # no points were made with them
    for part, values in asked.items():
        for field, value in values.items():
            before = kept.get(part, {}).get(field, value)
            if before != value:
                raise RunError(
                    f"{workdir} was made with {field} {before}, not {value}: give another --workdir, or the flags that"
                    f" it was made with{f', or move {name}.csv away' if part == name else ''}"
                )
    merged = {**kept, **{part: {**kept.get(part, {}), **values} for part, values in asked.items()}}
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(merged, indent=2) + "\n", encoding="utf-8")
    partial.replace(path)


def main(name: str, usage: str, flags: type[Flags], run: Callable[[Flags], Result[Any]]) -> int:
    """A study as a program: exit status 0, 1 (it failed), 2 (wrong usage) or 75 (told to leave: run it again)."""
    arguments = sys.argv[1:]
    if {"-h", "--help"} & set(arguments):
        print(f"{usage}\n\n{describe(flags)}")
        return 0
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        given, rest = parse(flags, arguments)
        if rest:
            raise UsageError(f"no argument {rest[0]!r} is known")
        given.check()
        result = run(given)
    except MISUSES as error:
        print(f"{name}: {error} (--help)", file=sys.stderr)
        return 2
    except (*FAILURES, CommandError, EpisodeError, WebError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{name}: interrupted; the same command goes on from here", file=sys.stderr)
        return 1
    print("\n".join([*result.lines, f"{result.csv}", f"{result.png}"]))
    return 0
