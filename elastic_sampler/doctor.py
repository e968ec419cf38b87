"""The doctor: what every provider looked at and found, which answer is believed, and why."""

from __future__ import annotations

import argparse
import json
import os
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

from . import plugins
from .errors import ElasticSamplerError
from .plugins import Answer
from .world import Nearness, World


def world(options: argparse.Namespace) -> int:
    """The command `world`."""
    found = plugins.answers()
    believed, world, told = None, None, None
    try:
        believed = plugins.believed(found)
        world = plugins.alone() if believed is None else believed.world
    except ElasticSamplerError as error:
        told = str(error)
    if options.json:
        print(json.dumps(_world_as_json(found, believed, world, told), indent=2))
    else:
        _print_answers(found, believed)
        if world is not None:
            rank = f"This process is rank {world.rank} of {world.size}"
            print("\n" + _filled(f"{rank}: {_why(believed, world)}."))
    if told is not None:
        print(_filled(f"error: {told}"), file=sys.stderr)
    return 0 if told is None else 1


def _why(believed: Answer | None, world: World) -> str:
    if believed is None:
        return "no provider answered"
    if named := os.environ.get(plugins.VARIABLE):
        return f"{plugins.VARIABLE}={named} names the provider; {world.source}"
    return f"the nearest evidence is {world.nearness.name}: {world.source}"


def _print_answers(found: Sequence[Answer], believed: Answer | None) -> None:
    """A line for each provider, and its notes below it."""
    names = [_title(answer) for answer in found]
    name, evidence = max(map(len, [*names, "provider"])), max(map(len, Nearness.__members__))
    print(f"  {'provider':{name}}  {'evidence':{evidence}}  says")
    for title, answer in zip(names, found, strict=True):
        nearness = "-" if answer.nearness is None else answer.nearness.name
        mark = "*" if answer is believed else " "
        head = f"{mark} {title:{name}}  {nearness:{evidence}}  "
        below = " " * len(head)
        print(_filled(_says(answer), head, below))
        for note in plugins.notes(answer):
            print(_filled(note, f"{below}! ", f"{below}  "))


def _title(answer: Answer) -> str:
    """The provider, and its distribution if that is not this one."""
    own = answer.distribution == "elastic-sampler"
    return answer.provider if own else f"{answer.provider} ({answer.distribution})"


def _says(answer: Answer) -> str:
    if answer.world is not None:
        return f"rank {answer.world.rank} of {answer.world.size} ({answer.world.source})"
    if answer.refusal is not None or answer.error is not None:
        return f"refused: {answer.refusal or answer.error}"
    return f"nothing in {', '.join(_looked_at(answer)) or '?'}"


def _looked_at(answer: Answer) -> list[str]:
    """What it reads, with the values of those variables that are set."""
    return [f"{n}={os.environ[n]!r}" if n in os.environ else n for n in answer.reads]


def _filled(text: str, first: str = "", others: str = "") -> str:
    return textwrap.fill(
        text,
        100,
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _world_as_json(
    found: Sequence[Answer], believed: Answer | None, world: World | None, told: str | None
) -> dict[str, Any]:
    return {
        "rank": None if world is None else world.rank,
        "size": None if world is None else world.size,
        "source": None if world is None else world.source,
        "provider": None if believed is None else believed.provider,
        "named": os.environ.get(plugins.VARIABLE) or None,
        "error": told,
        "providers": [
            {
                "provider": answer.provider,
                "distribution": answer.distribution,
                "evidence": None if answer.nearness is None else answer.nearness.name,
                "rank": None if answer.world is None else answer.world.rank,
                "size": None if answer.world is None else answer.world.size,
                "source": None if answer.world is None else answer.world.source,
                "refused": None if answer.refusal is None else str(answer.refusal),
                "failed": None if answer.error is None else str(answer.error),
                "reads": {read: os.environ.get(read) for read in answer.reads},
                "notes": list(plugins.notes(answer)),
            }
            for answer in found
        ],
    }
