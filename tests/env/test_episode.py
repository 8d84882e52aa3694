"""Whole episodes, their deadlines and failures, and episodes as JSON lines."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.env.webs import Line, MemoryWeb, ScriptedPolicy, linked_page, run
from webgpt_jax.env import (
    Action,
    Browser,
    BrowserConfig,
    BrowserState,
    Episode,
    EpisodeEnd,
    EpisodeError,
    Quote,
    SearchResult,
    Step,
    episode_from_json,
    episode_to_json,
    is_observation,
    parse_observation,
    read_episodes,
    render_answer_prompt,
    run_episode,
)

QUESTION = "Why do crows bring gifts?"
PAGE = linked_page(
    "https://birds.test/", "Crows", "Crows bring gifts\nto people who feed them. {zoo}", {"zoo": "http://z.test"}
)
FOUND = [SearchResult("Crows", PAGE.url, "About crows.")]
QUOTED = ["Search crows", "Clicked on link 0", "bogus", "Quote: crows━them."]


def _web() -> MemoryWeb:
    return MemoryWeb({PAGE.url: PAGE}, {None: FOUND})


# ---- episodes


def test_question_to_cited_answer() -> None:
    policy = ScriptedPolicy([*QUOTED, "End: Answer", Action("They are thankful [1].", (5, 6), (-0.5, -0.25))])
    seen: list[tuple[Step, BrowserState]] = []
    episode = run(
        run_episode(
            Browser(_web()),
            policy,
            f" {QUESTION}\n",
            "A reference answer.",
            info={"web": "memory"},
            on_step=lambda step, state: seen.append((step, state)),
        )
    )
    quote = Quote("Crows bring gifts\nto people who feed them.", "Crows", "birds.test", "https://birds.test/", 0, 42)
    assert episode.question == QUESTION
    assert episode.quotes == (quote,)
    assert quote.stands_on(PAGE)
    assert episode.end is EpisodeEnd.ANSWER
    assert episode.answer == Action("They are thankful [1].", (5, 6), (-0.5, -0.25))
    assert episode.answer_prompt == (
        "Why do crows bring gifts?■\n[1] Crows (birds.test)\n\nCrows bring gifts\nto people who feed them.■\n"
    )
    assert (episode.reference_answer, episode.info, episode.error) == ("A reference answer.", {"web": "memory"}, None)
    assert [step.action.text for step in episode.steps] == [*QUOTED, "End: Answer"]
    assert [step.valid for step in episode.steps] == [True, True, False, True, True]
    assert [step.observation for step in episode.steps] == policy.prompts[:-1]
    assert policy.prompts[-1] == episode.answer_prompt
    assert [is_observation(prompt) for prompt in policy.prompts] == [True] * 5 + [False]
    left = [parse_observation(step.observation).actions_left for step in episode.steps]
    assert left == [100, 99, 98, 97, 96]
    assert [step for step, _ in seen] == list(episode.steps)
    assert [state.actions_left for _, state in seen] == [99, 98, 97, 96, 95]
    assert seen[-1][1].end is EpisodeEnd.ANSWER


@pytest.mark.parametrize(
    ("actions", "end", "answered"),
    [
        ([*QUOTED, "End: Answer"], EpisodeEnd.ANSWER, True),
        ([*QUOTED, "x", "x"], EpisodeEnd.ACTION_LIMIT, True),
        ([*QUOTED[:3], "Quote: About", "Quote: crows bring━people who"], EpisodeEnd.REFERENCE_LIMIT, True),
        ([*QUOTED, "End: Nonsense"], EpisodeEnd.NONSENSE, False),
        ([*QUOTED, "End: Controversial"], EpisodeEnd.CONTROVERSIAL, False),
        (["End: Answer"], EpisodeEnd.NO_REFERENCES, False),
        (["x"] * 6, EpisodeEnd.ACTION_LIMIT, False),
    ],
)
def test_only_an_ending_with_references_is_answered(actions: list[str], end: EpisodeEnd, answered: bool) -> None:
    policy = ScriptedPolicy([*actions, "The answer."])
    limit = len("Crows (birds.test)") + (30 if end is EpisodeEnd.REFERENCE_LIMIT else 43)
    browser = Browser(_web(), BrowserConfig(max_reference_tokens=limit))
    episode = run(run_episode(browser, policy, QUESTION, max_actions=6))
    assert episode.end is end
    assert len(episode.steps) == len(actions)
    assert episode.answer == (Action("The answer.") if answered else None)
    assert (episode.answer_prompt is not None) is answered


def test_an_empty_question_is_refused_before_the_policy_is_asked() -> None:
    policy = ScriptedPolicy([])
    with pytest.raises(ValueError, match="the question is empty"):
        run(run_episode(Browser(_web()), policy, " \u200b"))
    assert policy.prompts == []


# ---- failures


@pytest.mark.parametrize("at", [0, 2, len(QUOTED)])
def test_a_policy_that_cannot_go_on(at: int) -> None:
    lines: list[Line] = [*QUOTED[:at], EpisodeError("the model is gone"), "Top"]
    episode = run(run_episode(Browser(_web()), ScriptedPolicy(lines), QUESTION))
    assert (episode.end, episode.error, episode.answer) == (EpisodeEnd.FAILURE, "the model is gone", None)
    assert [step.action.text for step in episode.steps] == QUOTED[:at]
    assert len(episode.quotes) == (at == len(QUOTED))


def test_a_policy_that_fails_at_the_answer() -> None:
    lines: list[Line] = [*QUOTED, "End: Answer", EpisodeError("the model is gone")]
    episode = run(run_episode(Browser(_web()), ScriptedPolicy(lines), QUESTION))
    assert (episode.end, episode.error, episode.answer) == (EpisodeEnd.FAILURE, "the model is gone", None)
    assert episode.answer_prompt == render_answer_prompt(QUESTION, episode.quotes)
    assert len(episode.steps) == 5


def test_a_web_that_cannot_go_on() -> None:
    web = MemoryWeb({PAGE.url: EpisodeError("not in the recording: https://birds.test/")}, {None: FOUND})
    episode = run(run_episode(Browser(web), ScriptedPolicy(QUOTED), QUESTION))
    assert (episode.end, episode.error) == (EpisodeEnd.FAILURE, "not in the recording: https://birds.test/")
    assert [step.action.text for step in episode.steps] == QUOTED[:2]


def test_a_fault_of_the_program_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        run(run_episode(Browser(_web()), ScriptedPolicy([lambda _: str(1 // 0)]), QUESTION))
    policy = ScriptedPolicy([TimeoutError("of the policy's own")])
    with pytest.raises(TimeoutError, match="of the policy's own"):
        run(run_episode(Browser(_web()), policy, QUESTION, deadline_s=600.0))


# ---- deadlines


class StuckPolicy:
    """Says its lines, and then nothing for ever."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = iter(lines)

    async def act(self, prompt: str) -> Action:
        for line in self._lines:
            return Action(line)
        await asyncio.Event().wait()
        raise AssertionError("an event that nobody sets was set")


def test_a_deadline_while_the_policy_thinks() -> None:
    episode = run(run_episode(Browser(_web()), StuckPolicy(QUOTED), QUESTION, deadline_s=0.2))
    assert (episode.end, episode.answer_prompt, episode.answer, episode.error) == (
        EpisodeEnd.DEADLINE,
        None,
        None,
        None,
    )
    assert [step.action.text for step in episode.steps] == QUOTED
    assert len(episode.quotes) == 1


def test_a_deadline_while_the_web_is_slow() -> None:
    web = _web()
    web.delay_s = 600.0
    episode = run(run_episode(Browser(web), ScriptedPolicy(QUOTED), QUESTION, deadline_s=0.2))
    assert episode.end is EpisodeEnd.DEADLINE
    assert [step.action.text for step in episode.steps] == QUOTED[:1]


def test_a_deadline_while_the_answer_is_written() -> None:
    episode = run(run_episode(Browser(_web()), StuckPolicy([*QUOTED, "End: Answer"]), QUESTION, deadline_s=0.2))
    assert (episode.end, episode.answer) == (EpisodeEnd.DEADLINE, None)
    assert episode.answer_prompt == render_answer_prompt(QUESTION, episode.quotes)


def test_a_policy_that_never_waits_does_not_hold_up_the_deadline() -> None:
    class BusyPolicy:
        """Computes without ever giving way."""

        async def act(self, prompt: str) -> Action:
            time.sleep(0.02)  # noqa: ASYNC251
            return Action("Top")

    episode = run(run_episode(Browser(_web()), BusyPolicy(), QUESTION, max_actions=300, deadline_s=0.1))
    assert episode.end is EpisodeEnd.DEADLINE


def test_an_episode_without_a_wait_lets_others_play() -> None:
    async def race() -> list[str]:
        order: list[str] = []

        async def play(name: str) -> None:
            policy = ScriptedPolicy(["Top"] * 5)
            await run_episode(
                Browser(_web()), policy, QUESTION, max_actions=5, on_step=lambda step, state: order.append(name)
            )

        await asyncio.gather(play("a"), play("b"))
        return order

    assert run(race()) == ["a", "b"] * 5


def test_cancelling_an_episode_cancels_it() -> None:
    async def cancel() -> None:
        task = asyncio.create_task(run_episode(Browser(_web()), StuckPolicy(QUOTED), QUESTION, deadline_s=600.0))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(cancel())


# ---- JSON lines


def _episode() -> Episode:
    lines: list[Line] = [*QUOTED, "End: Answer", Action("Thanks [1].", (5, 6), (-0.5, -0.25))]
    return run(run_episode(Browser(_web()), ScriptedPolicy(lines), QUESTION, info={"policy": "script"}))


def test_the_same_episode_gives_the_same_bytes() -> None:
    assert episode_to_json(_episode()) == episode_to_json(_episode())


def test_an_episode_as_a_literal() -> None:
    episode = Episode(
        question="Why?",
        steps=(Step("♦…", Action("End: Answer", (1,), (-0.5,))),),
        quotes=(Quote("t", "T", "d", "u", 0, 1),),
        end=EpisodeEnd.ANSWER,
        answer_prompt="p",
        answer=Action("a"),
        info={"k": "v"},
    )
    line = (
        '{"format":"webgpt-episode-1","question":"Why?","steps":[{"observation":"\\u2666\\u2026","action":'
        '{"text":"End: Answer","tokens":[1],"logprobs":[-0.5]}}],"quotes":[{"text":"t","title":"T","domain":"d",'
        '"url":"u","start":0,"end":1}],"end":"answer","answer_prompt":"p","answer":{"text":"a","tokens":null,'
        '"logprobs":null},"error":null,"reference_answer":null,"info":{"k":"v"}}'
    )
    assert episode_to_json(episode) == line
    assert episode_from_json(line) == episode


TEXT = st.text(st.characters(codec=None, categories=None), max_size=20)
FLOATS = st.floats(allow_nan=False)


@st.composite
def actions(draw: st.DrawFn) -> Action:
    tokens = draw(st.none() | st.lists(st.integers(0, 2**40), max_size=4).map(tuple))
    if tokens is None or draw(st.booleans()):
        return Action(draw(TEXT), tokens)
    return Action(draw(TEXT), tokens, tuple(draw(FLOATS) for _ in tokens))


EPISODES = st.builds(
    Episode,
    question=TEXT,
    steps=st.lists(st.builds(Step, TEXT, actions()), max_size=3).map(tuple),
    quotes=st.lists(
        st.builds(Quote, TEXT, TEXT, TEXT, TEXT, st.integers(0, 10**6), st.integers(0, 10**6)), max_size=3
    ).map(tuple),
    end=st.sampled_from(EpisodeEnd),
    answer_prompt=st.none() | TEXT,
    answer=st.none() | actions(),
    error=st.none() | TEXT,
    reference_answer=st.none() | TEXT,
    info=st.dictionaries(TEXT, TEXT, max_size=3),
)


@given(EPISODES)
def test_any_episode_comes_back_from_its_line(episode: Episode) -> None:
    line = episode_to_json(episode)
    assert line.isascii()
    assert len(line.splitlines()) == 1
    assert episode_from_json(line) == episode
    assert episode_to_json(episode_from_json(line)) == line


GOOD = json.loads(episode_to_json(_episode()))


def _with(path: str, value: object) -> str:
    """The good line with the value at a path such as `steps.0.action` changed; the key taken out for `...`."""
    record = json.loads(json.dumps(GOOD))
    *parents, last = [int(key) if key.isdigit() else key for key in path.split(".")]
    at = record
    for key in parents:
        at = at[key]
    if value is ...:
        del at[last]
    else:
        at[last] = value
    return json.dumps(record)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ('{"format": }', "not JSON"),
        ("[" * 200_000, "not JSON"),
        ('{"a":' * 200_000, "not JSON"),
        ("1" * 10_000, "not JSON"),
        ("null", 'field "format": expected "webgpt-episode-1"'),
        ("[]", 'field "format"'),
        ("{}", 'field "format"'),
        (_with("format", "webgpt-episode-2"), 'field "format"'),
        (_with("question", ...), 'field "question" is missing'),
        (_with("question", None), 'field "question": expected str, found NoneType'),
        (_with("question", 5), 'field "question": expected str, found int'),
        (_with("quesiton", "x"), 'field "quesiton" is unknown'),
        (_with("steps", {}), 'field "steps": expected a list, found dict'),
        (_with("steps.1", []), r'field "steps\[1\]": expected an object, found list'),
        (_with("steps.1.observation", 1), r'field "steps\[1\]\.observation": expected str, found int'),
        (_with("steps.4.action.text", ...), r'field "steps\[4\]\.action\.text" is missing'),
        (_with("steps.0.action.tokens", "ab"), r'field "steps\[0\]\.action\.tokens": expected a list, found str'),
        (
            _with("steps.0.action.tokens", [1, True]),
            r'field "steps\[0\]\.action\.tokens\[1\]": expected int, found bool',
        ),
        (_with("steps.0.action.tokens", [1.5]), r'field "steps\[0\]\.action\.tokens\[0\]": expected int, found float'),
        (_with("steps.0.action.logprobs", [1.0]), r'field "steps\[0\]\.action": an Action with logprobs needs as many'),
        (_with("answer.logprobs", [0.0]), 'field "answer": an Action with logprobs needs as many tokens'),
        (_with("answer.logprobs", ["x", "y"]), r'field "answer\.logprobs\[0\]": expected float, found str'),
        (_with("answer.logprobs", [0, 10**400]), r'field "answer\.logprobs\[1\]": the number is too large'),
        (_with("quotes.0.start", "0"), r'field "quotes\[0\]\.start": expected int, found str'),
        (_with("quotes.0.extra", 1), r'field "quotes\[0\]\.extra" is unknown'),
        (_with("end", "gave up"), "field \"end\": 'gave up' is none of answer, nonsense, controversial, action_limit"),
        (_with("end", ["answer"]), 'field "end"'),
        (_with("end", None), 'field "end"'),
        (_with("info", []), 'field "info": expected an object, found list'),
        (_with("info", {"a": 1}), r'field "info\.a": expected str, found int'),
    ],
)
def test_a_faulty_line_is_refused_with_its_field(line: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        episode_from_json(line)


def test_whole_numbers_may_stand_for_logprobs() -> None:
    answer = episode_from_json(_with("answer.logprobs", [0, -1])).answer
    assert answer is not None
    assert answer.logprobs is not None
    assert [type(logprob) for logprob in answer.logprobs] == [float, float]


def test_a_file_of_episodes(tmp_path: Path) -> None:
    path = tmp_path / "episodes.jsonl"
    episode = _episode()
    line = episode_to_json(episode)
    path.write_text(f"{line}\n\n  \r\n{line}\r\n{line}", encoding="utf-8")
    assert list(read_episodes(path)) == [episode] * 3


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (
            _with("steps.0.action.text", 5).encode(),
            r'line 2: field "steps\[0\]\.action\.text": expected str, found int',
        ),
        (b"{", "line 2: not JSON"),
        (b'{"format":"\xff"}', "line 2: .*can't decode byte 0xff"),
        (b"[" * 200_000, "line 2: not JSON"),
        (b"\xff\xfe{\x00}\x00", "line 2: .*can't decode"),
    ],
)
def test_a_faulty_line_of_a_file_is_named(tmp_path: Path, second: bytes, message: str) -> None:
    path = tmp_path / "episodes.jsonl"
    path.write_bytes(episode_to_json(_episode()).encode() + b"\n" + second + b"\n")
    episodes = read_episodes(path)
    assert next(episodes) == _episode()
    with pytest.raises(ValueError, match=rf"episodes\.jsonl, {message}"):
        next(episodes)


def test_an_action_with_logprobs_needs_its_tokens() -> None:
    with pytest.raises(ValueError, match="as many tokens"):
        Action("x", None, (0.0,))
    with pytest.raises(ValueError, match="as many tokens"):
        Action("x", (1, 2), (0.0,))
    assert Action("x", (1, 2)).logprobs is None
