"""Folders opened and used in one call, with a converter that counts."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

from webgpt_jax.env.page import Page, PageWriter
from webgpt_jax.env.protocol import WebError
from webgpt_jax.env.urls import resolve
from webgpt_jax.web.folder import FolderSettings, FolderWeb

TITLE = re.compile(r"<title>(.*?)</title>")
LINK = re.compile(r'<a href="([^"]*)">([^<]*)</a>')


class SimpleConverter:
    """Knows just enough HTML for these tests, and counts what it is asked for."""

    def __init__(self) -> None:
        self.urls: list[str] = []
        self.types: dict[str, str | None] = {}

    async def convert(self, body: bytes, url: str, content_type: str | None) -> Page:
        self.urls.append(url)
        self.types[url] = content_type
        await asyncio.sleep(0)
        if content_type == "application/pdf" and body.startswith(b"%PDF-locked"):
            raise WebError("encrypted", "The PDF is encrypted.")
        if content_type == "application/octet-stream":
            raise WebError("type", "Nothing that can be read.")
        text = body.decode(errors="replace")
        writer = PageWriter(url)
        title = TITLE.search(text)
        text = LINK.sub(lambda found: writer.link(found[2], resolve(url, found[1])), TITLE.sub("", text))
        return writer.page(title[1] if title else "", re.sub(r"<[^>]*>", "", text))


def run(
    folder: Path,
    use: Callable[[FolderWeb], Awaitable[object]],
    *,
    converter: SimpleConverter | None = None,
    settings: FolderSettings | None = None,
    index_path: Path | None = None,
) -> object:
    """Opens the folder, hands it to `use` and closes it."""

    async def go() -> object:
        async with await FolderWeb.open_folder(
            folder, converter or SimpleConverter(), settings=settings, index_path=index_path
        ) as web:
            return await use(web)

    return asyncio.run(go())


def report(folder: Path, **options: SimpleConverter) -> str:
    async def use(web: FolderWeb) -> str:
        return str(web.report)

    return str(run(folder, use, converter=options.get("converter")))


def search(folder: Path, query: str) -> list[str]:
    async def use(web: FolderWeb) -> list[str]:
        return [result.url for result in await web.search(query)]

    result = run(folder, use)
    assert isinstance(result, list)
    return result


def kind_of(folder: Path, url: str, settings: FolderSettings | None = None) -> str:
    async def use(web: FolderWeb) -> str:
        try:
            page = await web.open(url)
        except WebError as error:
            return error.kind if error.message else "no message"
        return f"page {page.url}"

    return str(run(folder, use, settings=settings))


def manifest(folder: Path, text: str) -> Path:
    (folder / "webgpt-folder.json").write_text(text)
    return folder
