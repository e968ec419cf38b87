"""The public names: loaded when they are asked for, the same for everyone who reads the list."""

from __future__ import annotations

import ast
import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import elastic_sampler

PACKAGE = Path(elastic_sampler.__file__).parent

HEAVY = {"dataclasses", "hashlib", "importlib.metadata", "inspect", "json", "pathlib", "pickle"}
"""What costs most of the time that an import takes, and is needed later or never."""


def loaded(code: str) -> set[str]:
    """The modules that some code loads, in a fresh process that has loaded nothing before."""
    code = f"import sys; before = set(sys.modules)\n{code}\n" + (
        "found = sorted(set(sys.modules) - before); import json; print(json.dumps(found))"
    )
    ran = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return set(json.loads(ran.stdout))


def test_importing_the_package_loads_nothing_that_is_not_needed_yet() -> None:
    found = loaded("import elastic_sampler")

    assert set() == found & HEAVY
    assert {"elastic_sampler"} == {name for name in found if name.startswith("elastic_sampler")}
    roots = {name.partition(".")[0] for name in found} - {"elastic_sampler"}
    assert roots <= sys.stdlib_module_names


def test_the_test_above_can_fail() -> None:
    found = loaded("from elastic_sampler import SampleLog")

    assert {"dataclasses", "json", "elastic_sampler.sample_log"} <= found


def test_a_sampler_loads_neither_logs_nor_audits_nor_providers_that_nobody_asked() -> None:
    found = loaded("from elastic_sampler import ElasticDistributedSampler, World")

    assert set() == found & {"importlib.metadata", "json", "pathlib", "pickle", "pluggy"}
    lazy = ("auditing", "batch_sampler", "cli", "hookspecs", "sample_log", "simulation")
    assert set() == found & {f"elastic_sampler.{name}" for name in lazy}


def test_all_public_names_are_there_and_sorted() -> None:
    assert sorted(elastic_sampler.__all__) == elastic_sampler.__all__ == dir(elastic_sampler)
    for name in elastic_sampler.__all__:
        assert getattr(elastic_sampler, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = elastic_sampler.nothing


def test_the_list_the_table_and_what_type_checkers_read_agree() -> None:
    source = ast.parse((PACKAGE / "__init__.py").read_text())
    imports = {
        alias.name: found.module
        for found in ast.walk(source)
        if isinstance(found, ast.ImportFrom) and found.level
        for alias in found.names
    }

    assert imports == elastic_sampler._MODULES
    assert sorted({*imports, "__version__"}) == sorted(elastic_sampler.__all__)


def test_no_module_has_the_name_of_something_public() -> None:
    modules = {module.name for module in pkgutil.iter_modules([str(PACKAGE)])}

    assert set() == modules & set(elastic_sampler.__all__)


def test_functions_are_functions_whatever_was_imported_before() -> None:
    code = (
        "import elastic_sampler, elastic_sampler.cli, elastic_sampler.demo\n"
        "assert elastic_sampler.audit([], 0).exact\n"
        "assert elastic_sampler.simulate(4, [2]).finished"
    )

    assert {"elastic_sampler.auditing", "elastic_sampler.simulation"} <= loaded(code)
