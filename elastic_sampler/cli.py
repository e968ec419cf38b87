"""The command `elastic-sampler`: which rank am I, what would a job do, show me."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import doctor, reports
from .checks import MAX_SAMPLES
from .share import TAILS
from .simulation import Stage


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

    json = argparse.ArgumentParser(add_help=False)
    json.add_argument("--json", action="store_true", help="print JSON, for machines")
    epoch = argparse.ArgumentParser(add_help=False)
    epoch.add_argument(
        "--num-samples",
        type=_count(0, MAX_SAMPLES),
        required=True,
        metavar="N",
        help="samples in the data set",
    )
    epoch.add_argument(
        "--tail",
        choices=TAILS,
        default="wrap",
        help="what the sampler does at the end of an epoch (default: wrap)",
    )
    epoch.add_argument(
        "--picture",
        type=_picture,
        metavar="FILE",
        help="draw position against rank, to an .svg or .png file (extra: plot)",
    )

    world = commands.add_parser(
        "world",
        parents=[json],
        help="say which rank this process is, and who says so",
        description="Ask every provider which rank this process is, of how many; * marks the "
        "answer that is believed. Exits with 1 on a conflict, or when the evidence cannot be used.",
    )
    world.set_defaults(run=doctor.world)

    plan = commands.add_parser(
        "plan",
        parents=[epoch, json],
        help="say what a job would do with an epoch while its world size changes",
        description="Play one epoch at changing world sizes and say what every sample would get. "
        "Nothing is read, and nothing of the size of the data is built.",
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
    plan.add_argument("--shuffle", action="store_true", help="another permutation in every epoch")
    plan.add_argument("--seed", type=int, default=0, help="default: 0")
    plan.add_argument("--epoch", type=_count(0), default=0, help="default: 0")
    plan.set_defaults(run=reports.plan)

    audit = commands.add_parser(
        "audit",
        parents=[epoch, json],
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
        "--global-batch-size", type=_count(1), metavar="G", help="of global batches, if they were"
    )
    audit.add_argument(
        "--epochs",
        type=_numbers,
        metavar="E,...",
        help="epochs to look at (default: all): leave out one that is not finished",
    )
    audit.set_defaults(run=reports.audit)

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


def _demo(options: argparse.Namespace) -> int:
    from .demo import run

    return run(options.file, seed=options.seed)
