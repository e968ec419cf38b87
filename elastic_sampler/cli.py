"""The command `elastic-sampler`: which rank am I, what would a job do, show me."""

from __future__ import annotations

import argparse
import json
import os
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import plugins
from .auditing import Audit, Findings, audit
from .checks import MAX_SAMPLES
from .errors import ElasticSamplerError
from .picture import save
from .plugins import Answer
from .share import TAILS
from .simulation import Report, Stage, simulate
from .world import Nearness, World

SHOWN = 10
"""So many findings of a kind are printed."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code: 0 well, 1 no (a conflict, data lost), 2 bad usage."""
    options = _parser().parse_args(arguments)
    code: int = options.run(options)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="elastic-sampler",
        description="Deals an epoch to ranks that come and go: each sample exactly once.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    world = commands.add_parser(
        "world",
        help="say which rank this process is, and who says so",
        description="Ask every provider which rank this process is, of how many; * marks the "
        "answer that is believed. Exits with 1 on a conflict, or when the evidence cannot be used.",
    )
    world.add_argument("--json", action="store_true", help="print JSON instead of a table")
    world.set_defaults(run=_world)

    plan = commands.add_parser(
        "plan",
        help="say what a job would do with an epoch while its world size changes",
        description="Play one epoch at changing world sizes and say what every sample would get. "
        "Nothing is read, and nothing of the size of the data is built.",
    )
    plan.add_argument(
        "--num-samples",
        type=_count(0, MAX_SAMPLES),
        required=True,
        metavar="N",
        help="samples in the data set",
    )
    plan.add_argument(
        "--worlds",
        type=_stages,
        required=True,
        metavar="W[:STEPS],...",
        help="world sizes, each with the number of steps that it lasts, or of samples "
        "(8:100,6:2400samples,7); without a number, to the end of the epoch",
    )
    plan.add_argument(
        "--batch-size",
        type=_count(1),
        default=1,
        metavar="B",
        help="indices of one rank in one step (default: 1)",
    )
    plan.add_argument(
        "--global-batch-size",
        type=_count(1),
        metavar="G",
        help="instead: indices of all ranks together in one step, at every world size",
    )
    plan.add_argument("--tail", choices=TAILS, default="wrap", help="default: wrap")
    plan.add_argument("--shuffle", action="store_true", help="another permutation in every epoch")
    plan.add_argument("--seed", type=int, default=0, help="default: 0")
    plan.add_argument("--epoch", type=_count(0), default=0, help="default: 0")
    plan.add_argument("--json", action="store_true", help="print JSON instead of a table")
    plan.add_argument("--picture", **_PICTURE)
    plan.set_defaults(run=_plan)

    audit = commands.add_parser(
        "audit",
        help="say from logs what was lost, repeated or unequal between ranks",
        description="Read what the ranks of a job have logged, and say whether every sample was "
        "trained exactly once. Exits with 1 if not.",
        epilog="A log has in each line a JSON object with epoch, step, rank, world_size, samples "
        "(indices) and run (a number that grows with each restart). A file whose name ends with "
        ".csv has these columns, with spaces between samples. Lines that are neither are listed, "
        "and do not count.",
    )
    audit.add_argument("files", nargs="+", type=Path, metavar="FILE", help="logs of all ranks")
    audit.add_argument(
        "--num-samples",
        type=_count(0, MAX_SAMPLES),
        required=True,
        metavar="N",
        help="samples in the data set",
    )
    audit.add_argument(
        "--tail", choices=TAILS, default="wrap", help="the sampler's (default: wrap)"
    )
    audit.add_argument(
        "--global-batch-size", type=_count(1), metavar="G", help="of global batches, if they were"
    )
    audit.add_argument(
        "--epochs",
        type=_numbers,
        metavar="E,...",
        help="epochs to look at (default: all): leave out one that is not finished",
    )
    audit.add_argument("--json", action="store_true", help="print JSON instead of sentences")
    audit.add_argument("--picture", **_PICTURE)
    audit.set_defaults(run=_audit)

    demo = commands.add_parser(
        "demo",
        help="run an elastic job in miniature on this machine",
        description="Four local processes share one epoch over a file, whose lines are the "
        "samples. One is killed in the middle; three carry on from the checkpoint, then five "
        "finish. The logs are audited: every line exactly once.",
    )
    demo.add_argument(
        "--file", type=Path, metavar="FILE", help="the data (default: the licence of this package)"
    )
    demo.add_argument("--seed", type=int, default=0, help="seed of the shuffle (default: 0)")
    demo.set_defaults(run=_demo)
    return parser


class _Version(argparse.Action):
    """Prints the version: looked up only when somebody asks."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from importlib.metadata import version

        print(f"elastic-sampler {version('elastic-sampler')}")
        parser.exit()


def _count(low: int, high: int | None = None) -> Any:
    def number(text: str) -> int:
        value = int(text)
        if value < low:
            raise argparse.ArgumentTypeError(f"must be at least {low}, got {value}")
        if high is not None and value > high:
            raise argparse.ArgumentTypeError(f"must be at most {high}, got {value}")
        return value

    number.__name__ = "number"  # what argparse calls it when it is none
    return number


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"numbers such as 0,1,2, got {text!r}") from None


def _picture(text: str) -> Path:
    path = Path(text)
    if path.suffix not in (".svg", ".png"):
        raise argparse.ArgumentTypeError(f"must end with .svg or .png, got {text!r}")
    return path


_PICTURE: dict[str, Any] = {
    "type": _picture,
    "metavar": "FILE",
    "help": "draw position against rank, to an .svg or .png file (extra: plot)",
}


def _stages(text: str) -> list[Stage]:
    stages = []
    for part in text.split(","):
        size, colon, length = part.partition(":")
        unit = "samples" if length.endswith("samples") else "steps"
        try:
            limits = {unit: int(length.removesuffix(unit))} if colon else {}
            stages.append(Stage(int(size), **limits))
        except ValueError:
            raise argparse.ArgumentTypeError(
                f"each part must be W, W:STEPS or W:COUNTsamples with numbers of at least 1 "
                f"(such as 8:100,6:2400samples,7), got {part!r}"
            ) from None
    return stages


def _world(options: argparse.Namespace) -> int:
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


def _plan(options: argparse.Namespace) -> int:
    try:
        report = simulate(
            options.num_samples,
            options.worlds,
            batch_size=options.batch_size,
            global_batch_size=options.global_batch_size,
            epoch=options.epoch,
            shuffle=options.shuffle,
            seed=options.seed,
            tail=options.tail,
        )
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if options.picture and not _drawn(report, options.picture):
        return 2
    if options.json:
        print(json.dumps(_as_json(report), indent=2))
        return 0
    rows = [("round", "ranks", "steps", "samples per rank", "position after")]
    for number, found in enumerate(report.rounds, 1):
        least, most = min(found.samples_per_rank), max(found.samples_per_rank)
        rows.append(
            (
                str(number),
                f"{found.world_size:,}",
                f"{found.steps:,}",
                f"{most:,}" if least == most else f"{least:,} to {most:,}",
                f"{found.stop:,}",
            )
        )
    _print_table(rows, right=True)
    print()
    print(
        f"{report.seen:,} of {report.num_samples:,} samples seen once, {report.repeated:,} "
        f"repeated in the tail, {report.unseen:,} not seen."
    )
    skipped = len(options.worlds) - len(report.rounds)
    if not report.finished and report.num_samples:
        print(
            f"The epoch is not finished: {report.num_samples - report.rounds[-1].stop:,} samples "
            f"are left for whoever resumes at position {report.rounds[-1].stop:,}."
        )
    if skipped:
        print(f"The epoch had ended before the last {skipped} world sizes of the history.")
    return 0


def _as_json(report: Report) -> dict[str, Any]:
    return {
        "num_samples": report.num_samples,
        "tail": report.tail,
        "rounds": [
            {
                "world_size": found.world_size,
                "steps": found.steps,
                "samples_per_rank": list(found.samples_per_rank),
                "position_before": found.start,
                "position_after": found.stop,
            }
            for found in report.rounds
        ],
        "finished": report.finished,
        "seen_once": report.seen,
        "repeated_in_the_tail": report.repeated,
        "not_seen": report.unseen,
    }


def _drawn(report: Report | Audit, path: Path) -> bool:
    """Draw it to a file. Says why, if that cannot be."""
    try:
        save(report.plot(), path)
    except (ImportError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return False
    return True


def _audit(options: argparse.Namespace) -> int:
    try:
        report = audit(
            options.files,
            options.num_samples,
            tail=options.tail,
            places=options.global_batch_size,
            epochs=options.epochs,
            strict=False,
        )
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for problem in report.unreadable.first[:SHOWN]:
        print(problem, file=sys.stderr)
    if options.picture and not _drawn(report, options.picture):
        return 2
    if options.json:
        print(json.dumps(_audit_as_json(report), indent=2))
        return 0 if report.exact else 1
    print(report)
    for epoch in report.epochs:
        for what in ("lost", "repeated", "foreign"):
            some = getattr(epoch, what)
            if some:
                more = ", ..." if len(some) > SHOWN else ""
                print(f"  {what}: {', '.join(map(str, some.first[:SHOWN]))}{more}")
        for told in epoch.unequal.first[:SHOWN]:
            print(f"  {told}")
    for told in report.disordered.first[:SHOWN]:
        print(f"  {told}")
    return 0 if report.exact else 1


def _audit_as_json(report: Audit) -> dict[str, Any]:
    kinds = ("lost", "dropped", "repeated", "tail", "foreign", "unequal")

    def some(found: Findings[Any]) -> dict[str, Any]:
        return {"count": len(found), "first": list(found.first)}

    return {
        "exact": report.exact,
        "epochs": [
            {
                "epoch": epoch.epoch,
                "exact": epoch.exact,
                "steps": epoch.steps,
                "trained": epoch.trained,
                **{kind: some(getattr(epoch, kind)) for kind in kinds},
            }
            for epoch in report.epochs
        ],
        "redone_lines": report.redone,
        "disordered_lines": some(report.disordered),
        "unreadable_lines": some(report.unreadable),
    }


def _demo(options: argparse.Namespace) -> int:
    from .demo import run

    return run(options.file, seed=options.seed)


def _print_table(rows: Sequence[Sequence[str]], *, right: bool = False) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = zip(row, widths, strict=True)
        line = "  ".join(c.rjust(w) if right else c.ljust(w) for c, w in cells)
        print(line.rstrip())
