"""Everything that the documentation shows is run: Python blocks, commands and their output."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import elastic_sampler

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(text: str, language: str) -> list[str]:
    return [body for kind, body in BLOCK.findall(text) if kind == language]


def run(arguments: list[str], directory: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(
        arguments,
        cwd=directory,
        env={**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", "COLUMNS": "80"},
        capture_output=True,
        text=True,
        timeout=180,
    )


def run_python(code: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run the blocks of a page in one namespace, with warnings as errors."""
    (directory / "page.py").write_text(code)
    return run([sys.executable, "-W", "error", "page.py"], directory)


def missing(code: str) -> list[str]:
    """The modules that some code imports and that are not installed here."""
    names = set(re.findall(r"^\s*(?:import|from) (\w+)", code, re.MULTILINE))
    return sorted(name for name in names if importlib.util.find_spec(name) is None)


def with_blocks(language: str) -> list[Path]:
    return [page for page in PAGES if blocks(page.read_text(), language)]


@pytest.mark.parametrize("page", with_blocks("python"), ids=lambda page: page.stem)
def test_the_python_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    code = "\n".join(blocks(page.read_text(), "python"))
    if absent := missing(code):
        pytest.skip(f"this page needs {', '.join(absent)}")
    ran = run_python(code, tmp_path)

    assert 0 == ran.returncode, ran.stderr


def commands(page: Path) -> list[tuple[str, str]]:
    """The commands of a page's console blocks, each with the output that it shows."""
    found = []
    for block in blocks(page.read_text(), "console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.append((command, output))
    return found


def test_the_commands_that_install_are_those_that_the_checks_run() -> None:
    installs = [command for page in PAGES for command, _ in commands(page) if "pip" in command]

    assert [
        "pip install . && elastic-sampler demo",
        'pip install ".[test]" && pytest',
    ] == installs


@pytest.mark.parametrize(
    ("command", "shown"),
    [found for page in PAGES for found in commands(page) if "pip install" not in found[0]],
    ids=lambda value: value.split("\n")[0][:50],
)
def test_a_command_prints_what_is_shown(command: str, shown: str, tmp_path: Path) -> None:
    ran = run(shlex.split(command), tmp_path)

    assert 0 == ran.returncode, ran.stderr
    if shown:
        pattern = ".*".join(map(re.escape, shown.strip().split("...")))
        assert re.fullmatch(pattern, ran.stdout.strip(), re.DOTALL), ran.stdout


def test_the_runner_finds_what_is_wrong(tmp_path: Path) -> None:
    assert ["a\n"] == blocks("```python\na\n```\n```text\nb\n```", "python")
    for wrong in ("assert False", "import warnings; warnings.warn('no')", "undefined"):
        assert 0 != run_python(wrong, tmp_path).returncode
    assert ["no_such_module"] == missing("import sys\nfrom no_such_module import x")


def test_the_navigation_names_every_page() -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    named = re.findall(r": ([\w/-]+\.md)$", text, re.MULTILINE)
    pages = [str(page.relative_to(ROOT / "docs")) for page in PAGES[1:]]

    assert sorted(pages) == sorted(named)


def test_the_reference_has_every_public_name() -> None:
    text = (ROOT / "docs" / "reference" / "api.md").read_text()

    assert [] == [name for name in elastic_sampler.__all__ if not re.search(rf"\b{name}\b", text)]


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([\w./-]+\.md)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
