"""`--web=…`: which web a command works on, opened and closed around it."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from webgpt_jax.cli import CommandError
from webgpt_jax.env import BrowserConfig, EpisodeError, Web, WebError
from webgpt_jax.flags import UsageError, option

BUNDLED = ("factbook", "wordnet", "vital-articles")

WEB_HELP = """\
The web, --web=…
  factbook             the CIA World Factbook, rendered on this machine (wordnet, vital-articles: see webgpt corpus)
  tinyweb              a synthetic web of made-up animals with known facts; tinyweb:SEED for another than that of seed 0
  folder:PATH          the HTML, text and PDF files of a folder
  wiki:FILE.zim        an offline wiki; needs libzim: pip install libzim
  live:NAME            the live web through a search engine: brave, searxng, serper, tavily, mojeek, bing (retired);
                       the key is read from BRAVE_API_KEY, SERPER_API_KEY, TAVILY_API_KEY, MOJEEK_API_KEY, BING_API_KEY,
                       the address of a SearXNG from SEARXNG_URL
  replay:FILE          what was recorded with --record=FILE, and nothing else"""

_TINYWEB = re.compile(r"tinyweb(?::[0-9]{1,9})?", re.ASCII)

# Less than what the browser waits for a page, so that a recording holds a timeout where the episode saw one.
RECORD_TIMEOUT_S = 50.0


@dataclass(frozen=True)
class WebFlags:
    """The flags of every command that needs a web."""

    web: str = option("factbook", "where pages come from")
    record: str | None = option(None, "record what the web answers in this file; what it holds is not asked again")
    robots: bool = option(True, "leave unread what a live site's robots.txt asks programs to leave")
    searches_per_second: float | None = option(None, "no more searches of the live web than that, as your plan allows")
    contact: str = option("", "a URL or e-mail address that live sites see in the User-Agent")
    allow_private_hosts: bool = option(False, "let the live web reach private addresses and other ports; for tests")


def _progress(what: str) -> Callable[[str], None]:
    """Shows a line that is written over and over on a terminal; elsewhere one line, once there is something to do."""
    begun = False

    def show(text: str) -> None:
        nonlocal begun
        if sys.stderr.isatty():
            print(f"\r\x1b[K{what}: {text}", end="", file=sys.stderr, flush=True)
        elif not begun:
            print(f"{what} …", file=sys.stderr, flush=True)
        begun = True

    return show


def _end_progress() -> None:
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def web_name(flags: WebFlags) -> str:
    """What an episode says of its web: a recording's name also while it is made, so that its replay is the same."""
    kind, _, name = flags.web.partition(":")
    recording = name if kind == "replay" else flags.record
    return flags.web if recording is None else f"recording:{Path(recording).name}"


def web_browser(flags: WebFlags) -> BrowserConfig:
    """How a web is shown to those who do not say themselves how much of it they can read."""
    if flags.web.partition(":")[0] != "tinyweb":
        return BrowserConfig()
    from webgpt_jax.tinyweb.web import TINYWEB_BROWSER

    return TINYWEB_BROWSER


@asynccontextmanager
async def open_web(flags: WebFlags) -> AsyncIterator[Web]:
    """The web that the flags name.

    Raises:
      UsageError: no such kind of web.
      CommandError: it cannot be opened; the message says why and what to do.
    """
    kind, _, name = flags.web.partition(":")
    known = kind in BUNDLED if not name else kind in ("folder", "wiki", "live", "replay")
    if not known and not _TINYWEB.fullmatch(flags.web):
        raise UsageError(
            f"--web={flags.web} is no web: factbook, tinyweb, tinyweb:SEED, folder:PATH, wiki:FILE.zim, live:NAME or"
            " replay:FILE"
        )
    if flags.record is not None and kind == "replay":
        raise UsageError("--record needs a web to record, not a replay")
    async with AsyncExitStack() as stack:
        try:
            web = await _open(kind, name, flags, stack)
        except WebError as error:
            raise CommandError(error.message) from None
        except EpisodeError as error:  # a recording that cannot be opened
            raise CommandError(str(error)) from None
        finally:
            _end_progress()
        yield web


async def _open(kind: str, name: str, flags: WebFlags, stack: AsyncExitStack) -> Web:
    from webgpt_jax.web.recording import Recording, RecordingFetcher, RecordingWeb, ReplayWeb

    if kind == "replay":
        return ReplayWeb(stack.enter_context(Recording(Path(name), write=False)))
    recording = stack.enter_context(Recording(Path(flags.record))) if flags.record is not None else None
    web: Web
    if kind == "live":
        from webgpt_jax.web.fetch import FetchConfig
        from webgpt_jax.web.pages import live_web
        from webgpt_jax.web.search import BACKEND_NAMES
        from webgpt_jax.web.search.client import HttpLimits

        if name not in BACKEND_NAMES:
            raise UsageError(f"no search engine {name!r}; there are {', '.join(BACKEND_NAMES)}")
        if flags.searches_per_second is not None and not flags.searches_per_second > 0:
            raise UsageError("--searches_per_second must be more than 0")
        try:
            config = FetchConfig(
                allow_private_hosts=flags.allow_private_hosts, respect_robots=flags.robots, contact=flags.contact
            )
        except ValueError as error:
            raise UsageError(str(error)) from None
        live = live_web(
            name,
            search_limits=HttpLimits(per_second=flags.searches_per_second),
            fetch_config=config,
            wrap_fetcher=None if recording is None else lambda fetcher: RecordingFetcher(fetcher, recording),
        )
        live.check()
        web = await stack.enter_async_context(live)
    elif kind == "tinyweb":
        from webgpt_jax.tinyweb.web import open_tinyweb

        show = _progress("converting pages")
        tiny = open_tinyweb(int(name or 0), progress=lambda done, total: show(f"{done:,} of {total:,}"))
        _end_progress()
        print(f"{tiny.title}: what its pages say is made up", file=sys.stderr)
        web = await stack.enter_async_context(tiny)
    else:
        web = await _open_offline(kind, name, stack)
    return web if recording is None else RecordingWeb(web, recording, RECORD_TIMEOUT_S)


async def _open_offline(kind: str, name: str, stack: AsyncExitStack) -> Web:
    from webgpt_jax.web.folder import FolderWeb
    from webgpt_jax.web.workers import Converter

    converter = await stack.enter_async_context(Converter())
    if kind == "wiki":
        from webgpt_jax.web.wiki import WikiWeb

        return await stack.enter_async_context(WikiWeb.open_wiki(Path(name), converter))
    show = _progress("index")
    if kind == "folder":
        folder = await FolderWeb.open_folder(
            Path(name), converter, progress=lambda done, total: show(f"{done:,} of {total:,} files")
        )
        if folder.report.read:
            print(f"{name}: {folder.report}", file=sys.stderr)
    else:
        from webgpt_jax.web.convert import convert

        # Our own rendering: it needs no guarding from a worker.
        folder = await FolderWeb.open_folder(_bundled(kind), converter, trusted_convert=convert)
    return await stack.enter_async_context(folder)


def _bundled(name: str) -> Path:
    """The folder of a bundled web. What was rendered from a source of the user's is taken as it is."""
    from webgpt_jax.corpus import CorpusError, find

    try:
        built = None if name == "factbook" else find(name)
    except CorpusError as error:
        raise CommandError(str(error)) from None
    return build_corpus(name) if built is None else built


def build_corpus(name: str, destination: Path | None = None, source: Path | None = None) -> Path:
    """The folder of a bundled web, rendered first where it is not there yet.

    Raises:
      CommandError: it cannot be rendered; the message says why and what to do.
    """
    from webgpt_jax.corpus import CorpusError, build

    show = _progress(f"rendering {name}")
    try:
        return build(name, destination, lambda stage, count: show(f"{count:,} {stage}"), source)
    except CorpusError as error:
        raise CommandError(str(error)) from None
    finally:
        _end_progress()
