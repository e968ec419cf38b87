"""A real Slurm of two nodes on one machine: two slurmd on the loopback interface, without systemd.

It needs root, and Debian's packages slurmctld, slurmd, slurm-client and munge. Nothing of the
machine's own Slurm or MUNGE is used: configuration, key, socket and state are in a directory.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from integration.conftest import Process, Processes, free_port, need

PROGRAMS = ("munged", "slurmctld", "slurmd", "sinfo", "srun", "sbatch", "salloc")

CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
AuthType=auth/munge
AuthInfo=socket={directory}/munge.socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool-%n
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
LaunchParameters=use_interactive_step
InteractiveStepOptions="--interactive --preserve-env $SHELL"
# More processors than the machine has; every socket on the loopback interface.
SlurmdParameters=config_overrides
CommunicationParameters=NoAddrCache,NoInAddrAny,NoCtldInAddrAny
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={first} CPUs=4
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={second} CPUs=4
PartitionName=test Nodes=ALL Default=YES State=UP OverSubscribe=YES
"""


@dataclass(frozen=True)
class Slurm:
    """A running cluster."""

    configuration: Path

    def environ(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """What a command needs to find the cluster."""
        return {"SLURM_CONF": str(self.configuration), **(more or {})}

    def run(
        self, processes: Processes, name: str, command: Sequence[str | Path], seconds: float = 60
    ) -> Process:
        """Run a command of Slurm's to its end, which must be a good one."""
        job = processes.start(name, command, self.environ())
        assert 0 == job.wait(seconds), job.output
        return job

    def batch(self, processes: Processes, script: str, *options: str, tasks: int = 1) -> None:
        """Run a batch script, or all tasks of a job array, to a good end."""
        file, output, codes = (processes.directory / f"batch.{end}" for end in ("sh", "out", "end"))
        # Not sbatch --wait, which looks only every few seconds.
        file.write_text(f"#!/bin/sh -e\ntrap 'echo $? >> {codes}' EXIT\n{script}\n")
        where = [f"--output={output}", "--open-mode=append"]
        self.run(processes, "sbatch", ["sbatch", *where, *options, str(file)])
        processes.started.pop()  # it has ended, as it should

        def ended() -> list[str] | None:
            found = codes.read_text().split() if codes.exists() else []
            return found if len(found) == tasks else None

        found = processes.wait_for("the batch script", ended)
        assert ["0"] * tasks == found, output.read_text()


def start(daemons: Processes) -> Slurm:
    """Start the daemons, and wait until both nodes are idle."""
    path = os.environ.get("PATH", "") + ":/usr/sbin"
    missing = [name for name in PROGRAMS if shutil.which(name, path=path) is None]
    need(
        not missing, f"no {', '.join(missing)}: apt-get install slurmctld slurmd slurm-client munge"
    )
    need(sys.platform == "linux" and os.geteuid() == 0, "slurmd must be root to start tasks")

    directory = daemons.directory
    for name in ("state", "spool-n1", "spool-n2"):
        (directory / name).mkdir()
    configuration = directory / "slurm.conf"
    configuration.write_text(
        CONFIGURATION.format(
            host=platform.node().split(".")[0],
            directory=directory,
            controller=free_port(),
            first=free_port(),
            second=free_port(),
        )
    )
    slurm = Slurm(configuration)
    key = directory / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    files = {"key-file": key} | {
        f"{name}{kind}": directory / f"munge.{name}"
        for name, kind in (("socket", ""), ("pid", "-file"), ("seed", "-file"), ("log", "-file"))
    }
    environ = slurm.environ({"PATH": path})
    munged = [
        "munged",
        "--foreground",
        "--force",
        *(f"--{name}={file}" for name, file in files.items()),
    ]
    daemons.start("munged", munged, environ)
    daemons.wait_for("munged", lambda: (directory / "munge.socket").exists() or None)
    daemons.start("slurmctld", ["slurmctld", "-D", "-f", str(configuration)], environ)
    for node in ("n1", "n2"):
        command = ["slurmd", "-D", "-N", node, "-f", str(configuration)]
        daemons.start(f"slurmd {node}", command, environ)
    daemons.wait_for("two idle nodes", lambda: _idle(daemons, environ))
    return slurm


def _idle(daemons: Processes, environ: Mapping[str, str]) -> bool | None:
    asked = daemons.start("sinfo", ["sinfo", "-h", "-o", "%T %D"], environ)
    asked.wait()
    daemons.started.remove(asked)  # it may fail while the controller is not up yet
    with suppress(FileNotFoundError):
        return asked.output.splitlines() == ["idle 2"] or None
    return None
