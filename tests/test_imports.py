"""Who may import whom: the arrows of the design, checked over the source."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "webgpt_jax"

# What each part may import of ours, itself apart. `cli` and the experiments may import all of it; nothing imports them.
MAY_IMPORT: dict[str, set[str]] = {
    "env": set(),
    "web": {"env"},
    "tinyweb": {"env", "web"},
    "baselines": {"env", "web"},
    "corpus": {"env", "web"},
    "models": set(),
    "sampling": {"models"},
    "training": {"models"},
    "datasets": {"env"},
    "algorithms": {"models", "training"},
    "preflight": {"models", "training", "algorithms"},
    "rollout": {"env", "web", "models", "sampling", "algorithms"},
    "evaluation": {"algorithms", "models"},
    "feedback": {"env", "web", "datasets"},
    "flags": set(),
}
EVERYTHING = "cli"

# Never imported by these, at the top of a file or anywhere in it. `cli` imports them only inside its functions.
HEAVY = {"jax", "jaxlib", "flax", "optax", "orbax", "tensorflow", "seqio", "clu"}
WITHOUT_HEAVY = {"env", "web", "tinyweb", "baselines", "corpus", "feedback", "flags"}

# `import webgpt_jax.env` takes none of these with it.
NOT_WITH_ENV = HEAVY | {"numpy", "aiohttp", "yarl", "requests", "httpx", "urllib3", "http.client", "urllib.request"}
NOT_WITH_ENV |= {"bs4", "lxml", "pdfminer", "resiliparse", "selectolax", "sqlite3", "multiprocessing"}


def _parts() -> dict[str, list[Path]]:
    """The package's files by part: a folder, or a file at its top."""
    parts: dict[str, list[Path]] = {}
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        part = path.relative_to(ROOT / PACKAGE).parts[0].removesuffix(".py")
        parts.setdefault(part, []).append(path)
    return parts


PARTS = _parts()


def _imports(path: Path, tree: ast.AST) -> Iterator[str]:
    """The full names of all modules that a piece of a file imports; `from a import b` gives `a` and `a.b`."""
    package = list(path.relative_to(ROOT).with_suffix("").parts[:-1])
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*parents, *([node.module] if node.module else [])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def _at_the_top(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements that run when a file is imported: all but the bodies of functions and type checking."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node


def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def _ours(names: Iterator[str]) -> set[str]:
    return {name.split(".")[1] for name in names if name.startswith(f"{PACKAGE}.")} & PARTS.keys()


def _tops(names: Iterator[str]) -> set[str]:
    return {name.split(".")[0] for name in names}


def test_every_part_has_its_row() -> None:
    unknown = PARTS.keys() - MAY_IMPORT.keys() - {EVERYTHING, "__init__"}
    assert not unknown, f"say in MAY_IMPORT what {sorted(unknown)} may import"


@pytest.mark.parametrize("part", sorted(PARTS.keys() & MAY_IMPORT.keys()))
def test_a_part_imports_only_what_it_may(part: str) -> None:
    allowed = MAY_IMPORT[part] | {part}
    for path in PARTS[part]:
        wrong = _ours(_imports(path, _parse(path))) - allowed
        assert not wrong, f"{path.relative_to(ROOT)} imports {sorted(wrong)}"


def test_the_package_itself_imports_nothing() -> None:
    (path,) = PARTS["__init__"]
    assert _ours(_imports(path, _parse(path))) == set()


def test_nothing_imports_the_command_line_or_the_experiments() -> None:
    files = [path for part, paths in PARTS.items() if part != EVERYTHING for path in paths]
    for path in files:
        names = list(_imports(path, _parse(path)))
        assert EVERYTHING not in _ours(iter(names)), f"{path.relative_to(ROOT)} imports {EVERYTHING}"
    for path in [*files, *PARTS.get(EVERYTHING, [])]:
        assert "experiments" not in _tops(_imports(path, _parse(path))), f"{path.relative_to(ROOT)}"
        assert "tests" not in _tops(_imports(path, _parse(path))), f"{path.relative_to(ROOT)}"


@pytest.mark.parametrize("part", sorted(PARTS.keys() & WITHOUT_HEAVY))
def test_the_browser_and_the_web_know_no_heavy_library(part: str) -> None:
    for path in PARTS[part]:
        wrong = _tops(_imports(path, _parse(path))) & HEAVY
        assert not wrong, f"{path.relative_to(ROOT)} imports {sorted(wrong)}"


def test_the_command_line_loads_no_heavy_library_at_its_top() -> None:
    for path in PARTS.get(EVERYTHING, []):
        for statement in _at_the_top(_parse(path)):
            wrong = _tops(_imports(path, statement)) & HEAVY
            assert not wrong, f"{path.relative_to(ROOT)} imports {sorted(wrong)} at line {statement.lineno}"


def test_env_uses_the_standard_library_and_idna_alone() -> None:
    for path in PARTS["env"]:
        foreign = _tops(_imports(path, _parse(path))) - set(sys.stdlib_module_names) - {PACKAGE, "idna"}
        assert not foreign, f"{path.relative_to(ROOT)} imports {sorted(foreign)}"
        assert not _tops(_imports(path, _parse(path))) & {"socket", "ssl", "http", "subprocess", "threading"}


def test_importing_env_takes_nothing_heavy_with_it() -> None:
    program = f"import json, sys; import {PACKAGE}.env; print(json.dumps(sorted(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    modules = json.loads(found.stdout)
    assert f"{PACKAGE}.env.browser" in modules
    assert not set(modules) & NOT_WITH_ENV
    assert {name for name in modules if name.startswith(f"{PACKAGE}.")} == {
        name for name in modules if name.startswith(f"{PACKAGE}.env")
    }


def test_the_checks_see_what_they_look_for(tmp_path: Path) -> None:
    source = "import a.b\nfrom c import d\nfrom webgpt_jax.web import pages\ndef f():\n    import e\nfrom .x import y\n"
    path = ROOT / PACKAGE / "env" / "example.py"
    tree = ast.parse(source)
    names = list(_imports(path, tree))
    assert _tops(iter(names)) == {"a", "c", "webgpt_jax", "e"}
    assert "webgpt_jax.env.x.y" in names
    assert _ours(iter(names)) == {"web", "env"}
    top = [name for statement in _at_the_top(tree) for name in _imports(path, statement)]
    assert _tops(iter(top)) == {"a", "c", "webgpt_jax"}
