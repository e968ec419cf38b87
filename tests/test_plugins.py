"""Plug-ins: all answers are collected, then one is chosen; broken ones are named."""

from __future__ import annotations

import ast
import os
import pickle
import re
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pluggy
import pytest
from hypothesis import given
from hypothesis import strategies as st

import elastic_sampler
from elastic_sampler import (
    ElasticDistributedSampler,
    Nearness,
    NoAnswerError,
    ProviderError,
    World,
    WorldConflictError,
    WorldError,
    WorldRefusedError,
    hookimpl,
    plugins,
    register,
    unregister,
)
from elastic_sampler.plugins import Answer, choose
from elastic_sampler_providers.static import Static

PACKAGE = Path(elastic_sampler.__file__).parent


@pytest.fixture
def registered() -> Iterator[list[str]]:
    """Names of providers that the test registers; they are taken away after it."""
    names: list[str] = []
    yield names
    for name in names:
        unregister(name)


@dataclass(frozen=True)
class Says:
    """A provider that says, or raises, what it is told to."""

    what: Any

    @hookimpl
    def elastic_sampler_world(self) -> World | None:
        if isinstance(self.what, Exception):
            raise self.what
        answer: World | None = self.what
        return answer


# Choosing.


def answer(name: str, nearness: Nearness, rank: int, size: int) -> Answer:
    return Answer(name, "here", World(rank, size, f"{name}'s variables", nearness))


def refusal(name: str, nearness: Nearness) -> Answer:
    return Answer(name, "here", refusal=WorldRefusedError(f"half of {name}", nearness))


some_answers = st.lists(
    st.one_of(
        st.builds(
            lambda near, rank, more: answer(f"p{near}-{rank}-{more}", near, rank, rank + more),
            st.sampled_from(Nearness),
            st.integers(0, 2),
            st.integers(1, 2),
        ),
        st.builds(lambda near: refusal(f"r{near}", near), st.sampled_from(Nearness)),
        st.just(Answer("silent", "here")),
    ),
    max_size=5,
    unique_by=lambda found: found.provider,
)


def chosen(found: list[Answer]) -> World | None:
    answer = choose(found)
    return None if answer is None else answer.world


def outcome(found: list[Answer]) -> object:
    try:
        return chosen(found)
    except WorldError as error:
        return type(error), str(error)


@given(some_answers, st.randoms())
def test_the_choice_does_not_depend_on_the_order_of_the_answers(
    found: list[Answer], random: Any
) -> None:
    other = list(found)
    random.shuffle(other)

    assert outcome(found) == outcome(other)


@given(some_answers)
def test_the_nearest_wins_or_it_is_an_error_naming_who_said_what(found: list[Answer]) -> None:
    def is_frame(world: World | None) -> bool:
        return world is not None and world.nearness == Nearness.SCHEDULER and world.size == 1

    frames = [a for a in found if is_frame(a.world)]
    evidence = [a for a in found if a.nearness is not None and a not in frames] or frames
    nearest = max((a.nearness for a in evidence if a.nearness is not None), default=None)
    at_the_top = [a for a in evidence if a.nearness == nearest]
    lonely = (
        nearest is not None
        and nearest < Nearness.LAUNCHER
        and World(0, 1) in [a.world for a in at_the_top]
    )
    try:
        world = chosen(found)
    except WorldRefusedError as error:
        assert error.nearness == nearest or lonely
        assert any(
            a.refusal is not None and a.provider in str(error) and a.nearness == error.nearness
            for a in found
        )
    except WorldConflictError as error:
        assert 2 <= sum(a.provider in str(error) for a in found)
        assert "ELASTIC_SAMPLER_PROVIDER" in str(error)
    else:
        if world is None:
            assert not evidence
        else:
            assert {world} == {a.world for a in at_the_top}
            assert nearest is not None
            if nearest < Nearness.LAUNCHER:  # nobody further out could have been right instead
                others = [a.world for a in evidence if a.world is not None]
                assert world.size > 1 or all(other.size == 1 for other in others)
                assert world.size > 1 or all(a.refusal is None for a in found)
                hints = [other for other in others if other.nearness == Nearness.HINT]
                assert world.size == 1 or all(hint == world for hint in hints)


@pytest.mark.parametrize("nearness", Nearness)
def test_answers_of_the_same_nearness_must_agree(nearness: Nearness) -> None:
    assert World(1, 4) == chosen([answer("a", nearness, 1, 4), answer("b", nearness, 1, 4)])
    with pytest.raises(WorldConflictError, match=r"a says .*a's variables.* but b says .*b's"):
        choose([answer("b", nearness, 1, 4), answer("a", nearness, 0, 4)])


@pytest.mark.parametrize("nearness", [Nearness.LAUNCHER, Nearness.LIVE, Nearness.EXPLICIT])
def test_near_evidence_wins_also_at_size_1(nearness: Nearness) -> None:
    others = [answer("step", Nearness.SCHEDULER, 0, 2), answer("hint", Nearness.HINT, 1, 2)]
    assert World(0, 1) == chosen([answer("near", nearness, 0, 1), *others])


# Names.


def test_a_provider_can_be_registered_in_code_and_taken_away(registered: list[str]) -> None:
    register(Static(World(2, 8, "said")), "mine")
    registered.append("mine")
    world = World.detect()
    assert World(2, 8) == world
    assert (Nearness.EXPLICIT, "said") == (world.nearness, world.source)
    assert [2, 10] == list(ElasticDistributedSampler(16, world="mine"))

    with pytest.raises(ProviderError, match="two providers named 'mine': one from registered in"):
        register(Static(World(0, 1)), "mine")
    unregister(registered.pop())
    assert World(0, 1) == World.detect()
    with pytest.raises(
        ProviderError, match="no provider is named 'mine'; known: environment, flux"
    ):
        unregister("mine")


def test_what_is_taken_away_leaves_no_hook_for_the_next_of_its_name(registered: list[str]) -> None:
    class Talks(Says):
        @hookimpl
        def elastic_sampler_notes(self) -> list[str]:
            return ["a note"]

    for provider, expected in ((Talks(None), ("a note",)), (Says(None), ())):
        register(provider, "mine")
        (found,) = plugins.answers("mine")
        assert expected == plugins.notes(found)
        unregister("mine")


def test_two_providers_may_say_the_same(registered: list[str]) -> None:
    for name in ("one", "two"):
        register(Static(World(2, 8)), name)
        registered.append(name)

    assert World(2, 8) == World.detect()


def test_a_provider_without_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="name must be a string that is not empty, got ''"):
        register(Static(World(2, 8)), "")


def test_a_named_provider_is_believed_alone(
    registered: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    register(Says(World(1, 2, "it", Nearness.HINT)), "quiet")
    register(Says(RuntimeError("no")), "broken")
    registered += ["quiet", "broken"]
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")

    assert [1, 3] == list(ElasticDistributedSampler(4, world="quiet"))
    monkeypatch.setenv("ELASTIC_SAMPLER_PROVIDER", "quiet")
    assert World(1, 2) == World.detect()
    assert World(3, 4) == plugins.ask("environment")  # world= is stronger than the variable
    monkeypatch.setenv("ELASTIC_SAMPLER_PROVIDER", "")  # counts as unset
    with pytest.raises(ProviderError, match="provider 'broken' from registered in code failed"):
        World.detect()


def test_an_unknown_name_lists_the_known_and_a_silent_one_says_what_it_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("slurmm", ""):
        with pytest.raises(ProviderError, match=f"world='{name}': no provider is named '{name}'; "):
            iter(ElasticDistributedSampler(5, world=name))
    with pytest.raises(NoAnswerError, match=r"world='environment'.* looked at RANK, WORLD_SIZE"):
        len(ElasticDistributedSampler(5, world="environment"))
    monkeypatch.setenv("ELASTIC_SAMPLER_PROVIDER", "pmi")
    with pytest.raises(NoAnswerError, match="ELASTIC_SAMPLER_PROVIDER='pmi': this provider has no"):
        World.detect()
    assert [0] == list(ElasticDistributedSampler(1, world=World(0, 1)))


# Broken ones.


def test_whatever_else_a_provider_raises_is_named_and_always_raised(registered: list[str]) -> None:
    register(Static(World(0, 1)), "settles")
    registered.append("settles")
    for number, bad in enumerate((KeyError("RANK"), ValueError("bad"), (0, 4), "rank 0")):
        name = f"bad{number}"
        register(Says(bad), name)
        with pytest.raises(ProviderError, match=rf"provider '{name}' from registered in code fail"):
            World.detect()
        unregister(name)
    assert World(0, 1) == World.detect()


def test_a_misspelt_hook_is_refused_and_not_kept() -> None:
    class Misspelt:
        @hookimpl
        def elastic_sampler_wrld(self) -> None: ...

    with pytest.raises(ProviderError, match=r"provider 'odd' .*'elastic_sampler_wrld'"):
        register(Misspelt(), "odd")
    assert World(0, 1) == World.detect()


def test_a_provider_whose_hook_is_not_marked_is_refused_and_not_kept() -> None:
    class Unmarked:
        def elastic_sampler_world(self) -> World:
            return World(1, 4)

    with pytest.raises(ProviderError, match=r"'odd' .* elastic_sampler_world marked @hookimpl"):
        register(Unmarked(), "odd")
    assert "odd" not in [found.provider for found in plugins.answers()]


@pytest.mark.parametrize(
    "error",
    [
        WorldRefusedError("half a pair", Nearness.MPI),
        WorldConflictError("two"),
        NoAnswerError("nothing"),
    ],
)
def test_errors_travel_home_from_other_processes(error: WorldError) -> None:
    back = pickle.loads(pickle.dumps(error))

    assert (type(error), str(error), vars(error)) == (type(back), str(back), vars(back))


def plugin(directory: Path, distribution: str, name: str, code: str) -> None:
    """Install a distribution with one provider into a directory."""
    module = f"{distribution.replace('-', '_')}_module"
    (directory / f"{module}.py").write_text(code)
    info = directory / f"{distribution.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[elastic_sampler]\n{name} = {module}\n")


GOOD = """
from elastic_sampler import Nearness, World, hookimpl
@hookimpl
def elastic_sampler_world():
    return World({rank}, 4, "{name}", Nearness.LAUNCHER)
"""


def run(directory: Path, code: str, **environ: str) -> subprocess.CompletedProcess[str]:
    clean = {**os.environ, "PYTHONPATH": str(directory), **environ}
    return subprocess.run(
        [sys.executable, "-c", code], env=clean, capture_output=True, text=True, timeout=60
    )


def test_an_installed_plug_in_is_found_and_chosen(tmp_path: Path) -> None:
    plugin(tmp_path, "third-party", "acme", GOOD.format(rank=3, name="acme"))

    ran = run(tmp_path, "from elastic_sampler import World; print(World.detect())")
    assert "World(rank=3, size=4, source='acme')\n" == ran.stdout, ran.stderr


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("import", "ImportError: acme is not here"),
        ("hook", "unknown hook 'elastic_sampler_wrld'"),
        ("name", "two providers named 'acme': one from other-party, one from third-party"),
        ("ours", "two providers named 'pmi'"),
    ],
)
def test_a_broken_plug_in_is_named_with_its_distribution_and_stops_nobody_else(
    kind: str, told: str, tmp_path: Path
) -> None:
    good = GOOD.format(rank=3, name="acme")
    bad = {
        "import": "raise ImportError('acme is not here')",
        "hook": good.replace("sampler_world", "sampler_wrld"),
    }
    plugin(tmp_path, "third-party", "pmi" if kind == "ours" else "acme", bad.get(kind, good))
    if kind == "name":
        plugin(tmp_path, "other-party", "acme", good)
    detected = run(tmp_path, "from elastic_sampler import World; World.detect()")
    assert 1 == detected.returncode
    assert "ProviderError" in detected.stderr.splitlines()[-1]
    assert "third-party" in detected.stderr.splitlines()[-1]
    assert told in detected.stderr.splitlines()[-1]

    code = (
        "from elastic_sampler import *\n"
        "print(list(ElasticDistributedSampler(4, world=World(1, 2))))\n"
        "print(list(ElasticDistributedSampler(4, world='environment')))"
    )
    others = run(tmp_path, code, RANK="0", WORLD_SIZE="2")
    assert "[1, 3]\n[0, 2]\n" == others.stdout, others.stderr
    shown = run(tmp_path, "from elastic_sampler.cli import main; raise SystemExit(main(['world']))")
    assert 1 == shown.returncode
    assert told in " ".join(shown.stdout.split())


@pytest.mark.parametrize("name", ["acme", "pmi"])
def test_of_two_plug_ins_of_one_name_neither_is_believed_by_that_name(
    name: str, tmp_path: Path
) -> None:
    plugin(tmp_path, "a-party", name, GOOD.format(rank=1, name="a"))
    plugin(tmp_path, "b-party", name, GOOD.format(rank=2, name="b"))
    code = "from elastic_sampler import World; World.detect()"
    ran = run(tmp_path, code, ELASTIC_SAMPLER_PROVIDER=name, PMI_RANK="3", PMI_SIZE="4")

    assert f"two providers named '{name}': one from a-party" in ran.stderr.splitlines()[-1]


def test_a_broken_plug_in_can_be_taken_away_and_keeps_no_frames(tmp_path: Path) -> None:
    plugin(tmp_path, "third-party", "acme", "raise ImportError('acme is not here')")
    code = (
        "import traceback\n"
        "from elastic_sampler import ProviderError, World, unregister\n"
        "for _ in range(50):\n"
        "    try: World.detect()\n"
        "    except ProviderError as error: kept = len(traceback.extract_tb(error.__traceback__))\n"
        "unregister('acme')\n"
        "print(kept < 10, World.detect().size)"
    )
    ran = run(tmp_path, code)

    assert "True 1\n" == ran.stdout, ran.stderr


def test_the_plug_in_of_the_documentation_is_built_installed_and_believed(tmp_path: Path) -> None:
    page = Path(__file__).parents[1] / "docs" / "how-to" / "write-a-provider.md"
    if find_spec("hatchling") is None or find_spec("pip") is None:
        pytest.skip("needs pip and hatchling to build it")
    source = tmp_path / "source"
    source.mkdir()
    for name in ("acme_provider.py", "pyproject.toml"):
        block = re.search(rf"^```\w+\n(# {name}\n.*?)^```$", page.read_text(), re.M | re.S)
        assert block is not None
        (source / name).write_text(block[1])

    # An environment of its own, which also sees what is installed here: nothing is downloaded.
    environment = tmp_path / "environment"
    venv.create(environment)
    python = str(environment / "bin" / "python")
    (packages,) = environment.glob("lib/python*/site-packages")
    here = sysconfig.get_path("purelib")
    (packages / "here.pth").write_text(f"import site; site.addsitedir({here!r})\n")
    install = [python, "-m", "pip", "install", "-q", "--no-index", "--no-deps"]
    built = subprocess.run(
        [*install, "--no-build-isolation", str(source)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert 0 == built.returncode, built.stderr
    assert (packages / "acme_provider.py").exists()

    def said(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python, *arguments],
            env={**os.environ, **environ},
            capture_output=True,
            text=True,
            timeout=60,
        )

    detect = "from elastic_sampler import World; print(World.detect().source)"
    pair = {"ACME_RANK": "1", "ACME_SIZE": "3"}
    assert "ACME_RANK=1, ACME_SIZE=3\n" == said("-c", detect, **pair).stdout
    assert (
        "WorldRefusedError: acme: ACME_RANK and ACME_SIZE must be set together"
        in (said("-c", detect, ACME_RANK="1").stderr.splitlines()[-1])
    )
    doctor = said("-m", "elastic_sampler", "world", **pair).stdout
    assert "* acme (elastic-sampler-acme)" in doctor
    named = {"ELASTIC_SAMPLER_PROVIDER": "acme"}
    assert "it looked at ACME_RANK, ACME_SIZE" in said("-c", detect, **named).stderr


# What is imported, and by whom.


def imported(code: str, *, allowed: set[str]) -> set[str]:
    """Modules that some code loads in a fresh process, neither built in nor allowed."""
    here = [PACKAGE.parent, Path(pluggy.__file__).parents[1]]  # -S: no site-packages
    code += (
        "\nimport sys\nprint([name for name in sys.modules if name.split('.')[0] not in "
        f"{{*sys.stdlib_module_names, *{sorted(allowed)!r}}}])"
    )
    ran = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, here))},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return set(ast.literal_eval(ran.stdout))


ITERATE = (
    "from elastic_sampler import ElasticDistributedSampler, World\n"
    "assert 250 == len(list(ElasticDistributedSampler(1000, shuffle=True, world=World(1, 4))))\n"
)


def test_iterating_with_an_explicit_world_imports_the_standard_library_only() -> None:
    own = {"elastic_sampler", "__main__"}

    assert set() == imported(ITERATE, allowed=own)
    code = ITERATE + "assert 'importlib.metadata' not in __import__('sys').modules"
    assert set() == imported(code, allowed=own)


def test_the_test_above_can_fail() -> None:
    found = imported(ITERATE + "import elastic_sampler.hookspecs", allowed={"elastic_sampler"})

    assert "pluggy" in found


FRAMEWORKS = ("torch", "jax", "mpi4py", "numpy", "ray", "horovod", "paddle", "mindspore")


def frameworks_imported_by_detection(directory: Path) -> list[str]:
    """Frameworks that detection imports in a fresh process; all of them are there to import."""
    for name in FRAMEWORKS:
        package = directory / name
        package.mkdir()
        for module in ("__init__", "distributed", "MPI", "train", "torch"):
            (package / f"{module}.py").write_text("")
    code = (
        "import sys\n"
        "from elastic_sampler import World\n"
        "before = set(sys.modules)\n"
        "World.detect()\n"
        f"print(sorted({set(FRAMEWORKS)!r} & (set(sys.modules) - before)))"
    )
    found: list[str] = ast.literal_eval(run(directory, code).stdout)
    return found


def test_detection_imports_no_framework(tmp_path: Path) -> None:
    assert [] == frameworks_imported_by_detection(tmp_path)


def test_the_test_of_frameworks_can_fail(tmp_path: Path) -> None:
    plugin(tmp_path, "eager", "eager", "import jax\n" + GOOD.format(rank=0, name="e"))

    assert ["jax"] == frameworks_imported_by_detection(tmp_path)


def started_by_detection(directory: Path) -> list[str]:
    """What detection starts or connects to in a fresh process, by the interpreter's own audit."""
    code = (
        "import sys, threading\n"
        "from elastic_sampler import World\n"
        "kinds, seen = ('socket.', 'subprocess.', 'os.fork', 'os.exec', 'os.posix_spawn', "
        "'os.system', 'os.putenv', 'os.unsetenv'), []\n"
        "sys.addaudithook(lambda event, _: seen.append(event) if event.startswith(kinds) else 0)\n"
        "World.detect()\n"
        "print(sorted({*seen, *map(str, threading.enumerate()[1:])}))"
    )
    found: list[str] = ast.literal_eval(run(directory, code).stdout)
    return found


def test_detection_starts_nothing_connects_nowhere_and_sets_no_variable(tmp_path: Path) -> None:
    assert [] == started_by_detection(tmp_path)


@pytest.mark.parametrize(
    ("does", "seen"),
    [
        ("import socket; socket.socket()", "socket.__new__"),
        ("import os; os.environ['RANK'] = '0'", "os.putenv"),
        ("import subprocess; subprocess.run(['true'])", "subprocess.Popen"),
    ],
)
def test_the_test_of_what_detection_starts_can_fail(does: str, seen: str, tmp_path: Path) -> None:
    plugin(tmp_path, "eager", "eager", f"{does}\n" + GOOD.format(rank=0, name="e"))

    assert seen in started_by_detection(tmp_path)


def imports_of(path: Path) -> set[str]:
    """The modules that a file imports, relative ones written out."""
    found = set()
    package = path.relative_to(PACKAGE.parent).with_suffix("").parts[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            found.add(".".join([*base, *([node.module] if node.module else [])]))
    return found


def test_the_arrows_of_the_design_hold() -> None:
    for path in PACKAGE.rglob("*.py"):
        found = imports_of(path)
        assert not any(name.startswith("elastic_sampler_providers") for name in found), path
        if path.stem not in ("hookspecs", "plugins"):
            assert "pluggy" not in found, path
        third = {name.split(".")[0] for name in found} - set(sys.stdlib_module_names)
        lazy = {"matplotlib", "numpy", "tqdm"}
        own_framework = path.stem.split("_")[0]  # torch_worlds, jax_worlds, grain_sampler
        allowed = {"elastic_sampler", "pluggy", "typing_extensions", own_framework} | lazy
        assert third <= allowed, path
    for low in ("world", "share", "permutation", "state", "order"):
        found = imports_of(PACKAGE / f"{low}.py")
        assert not {f"elastic_sampler.{name}" for name in ("sampler", "iteration", "cli")} & found


def test_providers_use_the_public_api_only() -> None:
    import elastic_sampler_providers

    for path in Path(elastic_sampler_providers.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("elastic"):
                assert "elastic_sampler" == node.module, path
                assert {alias.name for alias in node.names} <= set(elastic_sampler.__all__), path
