"""The paper's main line in minutes, on TinyWeb: behaviour cloning, a reward model, best of 16, figures 5 and 8.

    make demo                                          # installs what it takes first
    python -m experiments.demo --workdir=runs/demo     # 714 s on 2 busy cores, 1.7 GB of memory, no network

The smallest model of the family (0.3 million parameters) learns to browse from scripted people's demonstrations. A
reward model learns from simulated labelers which of its answers are better, and picks one of 16 to each held-out
question. At last there are a table of what was measured beside what it should reach, and a page with all questions,
answers and browsing, whose path is the last line. Everything is synthetic.

Interrupted anywhere, the same command goes on from there; what is done is kept in the folder. Exit status: 0, also
where a target is missed; 1 where it failed; 2 for wrong usage; 75 where it was told to leave amid a training.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import logging
import resource
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments import fig05_best_of_n, fig08_compute_frontier
from experiments.demo_parts.page import contents
from experiments.demo_parts.stages import Stages
from experiments.demo_parts.targets import Check, checks, table
from experiments.fig05_best_of_n import BestOfNFlags, BestOfNPoint
from experiments.fig08_compute_frontier import FrontierFlags
from experiments.studies.points import Points
from experiments.studies.samples import sample, scores_of, test_questions
from experiments.studies.study import Result, Study, open_study
from experiments.tinyweb_lab.answers import open_scorer, outcomes
from experiments.tinyweb_lab.family import (
    FAMILY,
    SIZES,
    SMALL,
    Plan,
    Say,
    demonstrations_of,
    policy_of,
    reward_model_of,
    validation_reward_model_of,
)
from experiments.training_flags import FAILURES, MISUSES, RunError
from webgpt_jax.cli import CommandError
from webgpt_jax.env import EpisodeError, WebError
from webgpt_jax.feedback import write_page
from webgpt_jax.flags import UsageError, describe, option, parse
from webgpt_jax.models import read_settings
from webgpt_jax.tinyweb.questions import TinyQuestion
from webgpt_jax.training.preemption import PREEMPTED

PRETRAINED = Path(__file__).resolve().parents[1] / FAMILY / SIZES[0]


@dataclass(frozen=True)
class Counts:
    """How much of everything; all of it should take 10 minutes at most on 2 cores."""

    plan: Plan = SMALL
    asked: int = 48  # held-out questions
    n: int = 16  # answers that the reward model picks from; one more is the single answer


@dataclass(frozen=True)
class DemoFlags:
    """The flags of the demo."""

    workdir: str = option("runs/demo", "where all is kept; what is there is not made again")
    model: str | None = option(None, f"folder of the pre-trained model to begin with (default: {FAMILY / SIZES[0]})")


def run(flags: DemoFlags, counts: Counts | None = None) -> Path:
    """The demo; returns its page.

    Raises:
      What `MISUSES` and `FAILURES` in `training_flags.py` list, and what the web and the browser raise.
      SystemExit: with 75, when it was told to leave: the same flags go on.
    """
    counts = Counts() if counts is None else counts
    begin = time.monotonic()
    workdir, plan, n = Path(flags.workdir), counts.plan, counts.n
    start = Path(flags.model) if flags.model else PRETRAINED
    _check(start)
    figure5 = BestOfNFlags(models=str(start), workdir=str(workdir), test_questions=counts.asked, n=n)
    figure8 = FrontierFlags(models=str(start), workdir=str(workdir), test_questions=counts.asked, n=n)
    settings = {"questions": counts.asked, "n": n, "weights": _digest(start)}

    with open_study("demo", figure5, {}, plan=plan, say=_silent) as study:
        (model,) = study.models
        folder, size = study.folder(model), model.name
        stages = Stages(workdir, settings)
        print(f"TinyWeb, which is synthetic; a model of {model.parameters:,} parameters; all is kept in {workdir}")

        # ---- policy
        stages.run("demonstrations", lambda: _demonstrate(workdir, start, plan), workdir / "demonstrations.jsonl")
        policy = folder / "bc" / "final"
        stages.run("behaviour cloning", _last_word(lambda say: policy_of(size, start, folder, plan, say)), policy)

        # ---- reward models
        picker, judge = folder / "rm" / "final", folder / "validation_rm" / "final"
        stages.run("reward model", _last_word(lambda say: reward_model_of(size, policy, folder, plan, say)), picker)
        stages.run(
            "validation reward model",
            _last_word(lambda say: validation_reward_model_of(size, policy, folder, plan, say)),
            judge,
        )

        # ---- answers to held-out questions
        asked = test_questions(study, counts.asked)
        stages.run("answers", lambda: _answer(study, policy, asked, n, folder), folder)
        answers = sample(study, policy, asked, n + 1, folder)

    # ---- figures
    curve, frontier = workdir / "fig05.png", workdir / "fig08.png"
    stages.run("figure 5", lambda: _lines(fig05_best_of_n.run(figure5, plan=plan, say=_silent)), curve)
    stages.run("figure 8", lambda: _lines(fig08_compute_frontier.run(figure8, plan=plan, say=_silent)), frontier)

    # ---- table and page
    page, summary = workdir / "demo.html", workdir / "summary.json"

    def write() -> str:
        scores = scores_of(open_scorer(picker), answers)
        rows = checks(study.world, asked, answers, scores, Points(workdir / "fig05.csv", BestOfNPoint).rows)
        summary.write_text(json.dumps([dataclasses.asdict(row) for row in rows], indent=2) + "\n", encoding="utf-8")
        figures = [
            (
                "Figure 5: best of n against a single answer",
                curve,
                f"Preference against n. {stages.result('figure 5')}",
            ),
            ("Figure 8: what operations buy", frontier, f"Score against operations. {stages.result('figure 8')}"),
        ]
        write_page(page, contents(study.world, asked, answers, scores, rows, figures))
        return f"{len(asked)} questions with {n + 1} answers each, {page.stat().st_size / 1e6:.1f} MB"

    stages.run("page", write, page)
    print(f"\n{table([Check(**row) for row in json.loads(summary.read_text(encoding='utf-8'))])}")
    print(f"\n{time.monotonic() - begin:.0f} s, {_peak_gib():.1f} GiB of memory at most")
    print(f"Ask the model yourself: {_ask(policy, asked[0].text)}\n\n{page}")
    return page


def _check(start: Path) -> None:
    """Raises RunError where there is no model to begin with."""
    if not (start / "config.json").is_file():
        raise RunError(
            f"{start} holds no model: python -m experiments.pretrain_tinyweb --size={SIZES[0]} --keep makes one, or"
            " give --model=FOLDER"
        )
    if read_settings(start) is None:
        raise RunError(f"{start} has no webgpt.json: give a --model that was pre-trained for TinyWeb")


def _digest(start: Path) -> str:
    """Of the weights, so that another model of the same name is not taken for the one that was begun with."""
    digest = hashlib.sha256()
    for path in sorted(start.glob("*.safetensors")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _silent(_line: str) -> None:
    """Stages say themselves what they came to."""


def _last_word(work: Callable[[Say], Path]) -> Callable[[], str]:
    """A stage whose result is the last line that the work says, without the model's name."""

    def stage() -> str:
        said: list[str] = []
        work(said.append)
        return said[-1].partition(": ")[2]

    return stage


def _lines(result: Result[Any]) -> str:
    return "; ".join(result.lines)


def _demonstrate(workdir: Path, start: Path, plan: Plan) -> str:
    demonstrations_of(workdir, start, plan)
    return f"{plan.demonstrations:,} episodes by scripted people"


def _answer(study: Study, policy: Path, asked: Sequence[TinyQuestion], n: int, folder: Path) -> str:
    found = outcomes(study.world, asked, sample(study, policy, asked, n + 1, folder))
    return f"{n + 1} to each of {len(asked)} held-out questions, {found.actions:.1f} actions an episode"


def _peak_gib() -> float:
    """Of this process, since it began."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**30 if sys.platform == "darwin" else 2**20)  # bytes there, KiB elsewhere


def _ask(policy: Path, question: str) -> str:
    """The command that asks a policy."""
    beside = Path(sys.executable).parent / "webgpt"
    command = beside if beside.exists() else Path("webgpt")
    with contextlib.suppress(ValueError):  # it lies elsewhere
        command = command.relative_to(Path.cwd())
    return shlex.join([str(command), "ask", "--web=tinyweb", "--policy=model", f"--model={policy}", question])


def main() -> int:
    arguments = sys.argv[1:]
    if {"-h", "--help"} & set(arguments):
        print(f"{__doc__}\n{describe(DemoFlags)}")
        return 0
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    goes_on = "demo: interrupted; the same command goes on from here"
    try:
        flags, rest = parse(DemoFlags, arguments)
        if rest:
            raise UsageError(f"no argument {rest[0]!r} is known")
        run(flags)
    except MISUSES as error:
        print(f"demo: {error} (--help)", file=sys.stderr)
        return 2
    except (*FAILURES, CommandError, EpisodeError, WebError, OSError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(goes_on, file=sys.stderr)
        return 1
    except SystemExit as leaving:
        if leaving.code == PREEMPTED:
            print(goes_on, file=sys.stderr)
        raise
    return 0


if __name__ == "__main__":
    sys.exit(main())
