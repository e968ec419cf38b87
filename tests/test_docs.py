"""Everything that the documentation shows is run: Python blocks, commands and their output.

* The `python` blocks of a page are run in order, in one namespace, in an empty directory; warnings
  are errors. A page whose imports are not installed is skipped.
* The commands of `console` blocks are run, and print what follows them. A line `...` stands for any
  lines, `...` in a line for anything in it. Commands that install are run by the checks instead.
* Other blocks (`text`, `json`, `toml`, …) are only shown.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from integration.conftest import need

import elastic_sampler

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]

BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INSTALLS = re.compile(r"pip install|git ")
RUN = re.compile(r"(\w+=\S+ )*(elastic-sampler|python) ")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def python_of(text: str) -> str:
    """The Python of a page, each line at its own number: tracebacks lead to the page."""
    shown = [""] * (text.count("\n") + 1)
    for block in BLOCK.finditer(text):
        if block[1] == "python":
            first = text.count("\n", 0, block.start(2))
            lines = block[2].splitlines()
            shown[first : first + len(lines)] = lines
    return "\n".join(shown).rstrip()


def commands_of(text: str) -> list[tuple[str, str]]:
    """The commands of a page, each with the output that is shown for it."""
    found = []
    for language, body in BLOCK.findall(text):
        if language == "console":
            for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                command, _, output = part.partition("\n")
                found.append((command, output))
    return found


def run(
    arguments: list[str], directory: Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(
        arguments,
        cwd=directory,
        env={**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", "COLUMNS": "80", **variables},
        capture_output=True,
        text=True,
        timeout=180,
    )


def run_python(code: str, directory: Path) -> subprocess.CompletedProcess[str]:
    page, empty = directory / "page.py", directory / "empty"
    page.write_text(code)
    empty.mkdir(exist_ok=True)
    return run([sys.executable, "-W", "error", str(page)], empty)


def run_command(command: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run one command; variables may be set before it, as in a shell."""
    words = shlex.split(command)
    variables: dict[str, str] = {}
    while re.match(r"\w+=", words[0]):
        name, _, value = words.pop(0).partition("=")
        variables[name] = value
    return run(words, directory, **variables)


def is_what_is_shown(printed: str, shown: str) -> bool:
    lines = [
        r"(?:.*\n)*?" if line == "..." else r".*".join(map(re.escape, line.split("..."))) + r"\n"
        for line in shown.strip("\n").split("\n")
    ]
    return re.fullmatch("".join(lines), printed.strip("\n") + "\n") is not None


def missing(code: str) -> list[str]:
    """The modules that some code imports and that are not installed here."""
    names = set(re.findall(r"^\s*(?:import|from) (\w+)", code, re.MULTILINE))
    return sorted(name for name in names if importlib.util.find_spec(name) is None)


@pytest.mark.parametrize("page", [p for p in PAGES if python_of(p.read_text())], ids=name_of)
def test_the_python_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    code = python_of(page.read_text())
    absent = missing(code)
    need(not absent, f"this page needs {', '.join(absent)}")
    ran = run_python(code, tmp_path)

    assert 0 == ran.returncode, ran.stderr


COMMANDS = [found for page in PAGES for found in commands_of(page.read_text())]


@pytest.mark.parametrize(
    ("command", "shown"),
    [pytest.param(*found, id=found[0]) for found in COMMANDS if not INSTALLS.match(found[0])],
)
def test_a_command_prints_what_is_shown(command: str, shown: str, tmp_path: Path) -> None:
    assert RUN.match(command), "only commands that need nothing but the package are shown"
    ran = run_command(command, tmp_path)

    assert 0 == ran.returncode, ran.stderr
    if shown:
        assert is_what_is_shown(ran.stdout, shown), ran.stdout


def test_the_commands_that_install_are_those_that_the_checks_run() -> None:
    assert [
        "pip install . && elastic-sampler demo",
        'pip install ".[test]" && pytest',
    ] == [command for command, _ in COMMANDS if INSTALLS.match(command)]


PAGE = """\
```python
a = 1
```
```text
b
```
```python
assert a == 1
```
"""


def test_the_runner_runs_a_page_in_one_namespace_and_in_an_empty_directory(tmp_path: Path) -> None:
    code = python_of(PAGE + "```python\nimport os\nassert os.listdir() == []\n```\n")

    assert "\na = 1\n\n\n\n\n\nassert a == 1\n\n\nimport os" in code
    assert 0 == run_python(code, tmp_path).returncode


@pytest.mark.parametrize(
    "wrong", ["assert a == 2", "import warnings; warnings.warn('no')", "undefined", "1 +"]
)
def test_the_runner_finds_what_is_wrong_and_names_the_line_of_the_page(
    wrong: str, tmp_path: Path
) -> None:
    ran = run_python(python_of(PAGE.replace("assert a == 1", wrong)), tmp_path)

    assert 0 != ran.returncode
    assert "line 8" in ran.stderr


def test_the_runner_finds_output_that_is_not_what_is_shown(tmp_path: Path) -> None:
    text = "```console\n$ A=1 B='x y' python -c 'print(1)'\n1\n$ python -V\n```\n"
    assert [("A=1 B='x y' python -c 'print(1)'", "1\n"), ("python -V", "")] == commands_of(text)
    program = """A=1 B='x y' python -c 'import os; print(os.environ["A"], os.environ["B"])'"""
    assert "1 x y\n" == run_command(program, tmp_path).stdout

    assert is_what_is_shown("a\nb\nc\n", "a\n...\nc\n")
    assert is_what_is_shown("a\nc\n", "a\n...\nc\n")
    assert is_what_is_shown("pid 77 ended\n", "pid ... ended\n")
    assert not is_what_is_shown("a\nb\nc\n", "a\nc\n")
    assert not is_what_is_shown("pid 77\nended\n", "pid ... ended\n")
    assert not is_what_is_shown("a\nb\n", "a\n")


def test_a_page_that_needs_a_module_that_is_not_here_is_found_out() -> None:
    assert ["no_such_module"] == missing("import sys\nfrom no_such_module.part import x")


@pytest.mark.parametrize("page", [p for p in PAGES if python_of(p.read_text())], ids=name_of)
def test_every_example_says_whether_it_shuffles(page: Path) -> None:
    # torch's DistributedSampler shuffles by default, this one and DataLoader do not.
    calls = [
        node
        for node in ast.walk(ast.parse(python_of(page.read_text())))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "ElasticDistributedSampler"
    ]

    assert all({"shuffle", "order"} & {keyword.arg for keyword in call.keywords} for call in calls)


def test_the_navigation_names_every_page() -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    named = re.findall(r": ([\w/-]+\.md)$", text, re.MULTILINE)

    assert sorted(page.relative_to(DOCS).as_posix() for page in PAGES[1:]) == sorted(named)


def test_the_reference_has_every_public_name() -> None:
    api = (DOCS / "reference" / "api.md").read_text()
    documented = set(re.findall(r"^::: elastic_sampler\.(?:\w+\.)*(\w+)$", api, re.MULTILINE))
    documented |= set(re.findall(r"`elastic_sampler\.(\w+)`", api))
    errors = (DOCS / "reference" / "errors.md").read_text()
    documented |= set(re.findall(r"^\*\*`(\w+)`\*\*$", errors, re.MULTILINE))

    assert set() == set(elastic_sampler.__all__) - documented


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([\w./-]+\.md)", page.read_text()):
            assert (page.parent / target).exists(), f"{name_of(page)} links to {target}"


def test_exponents_are_in_code_where_they_are_not_taken_for_bold_print() -> None:
    for page in PAGES:
        prose = re.sub(r"`[^`]*`", "", BLOCK.sub("", page.read_text()))
        assert [] == re.findall(r".*\d\*\*\d.*", prose), name_of(page)


def test_every_test_that_the_documentation_names_exists() -> None:
    here = Path(__file__).parent
    defined = {
        name
        for path in here.rglob("test_*.py")
        for name in [path.stem, *re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)]
    }
    for page in [*PAGES, here / "README.md"]:
        named = set(re.findall(r"`(?:[\w/]+/)?(test_\w+)(?:\.py)?`", page.read_text()))
        assert set() == named - defined, name_of(page)
