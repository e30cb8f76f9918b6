"""A real Slurm of one node, on this machine, in a folder of its own; what it starts it stops.

    python -m tests.slurm.cluster up      # `make slurm-up`
    python -m tests.slurm.cluster down    # `make slurm-down`

It is Debian's Slurm with munge, accounting in a private MariaDB, and four GPUs that are device
nodes without hardware. Sockets, ports, logs and state are its own. Only the configuration has a
fixed place, /etc/slurm: a job's `srun` looks there, for Snakemake's jobs take SLURM_CONF out of
their environment. A Slurm that is configured there already is left alone.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

ETC = Path("/etc/slurm")
FOLDER = Path("/run/ntk-conditioning-slurm")  # sockets have short names
PIDS = FOLDER / "pids.json"
NODE = socket.gethostname().split(".")[0]
ACCOUNT = "ntk"

#: Debian's packages, and a program of each.
PACKAGES = {name: name for name in ("slurmctld", "slurmd", "slurmdbd")}
PACKAGES |= {"slurm-client": "sbatch", "munge": "munged", "mariadb-server": "mariadbd"}
#: Processes may be started where only a user's programs are on the path.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "SLURM_CONF"}
ENVIRONMENT |= {"PATH": f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"}
ENVIRONMENT |= {"MYSQL_UNIX_PORT": f"{FOLDER}/mariadb.socket"}

CONFIGURATION = {
    "slurm.conf": """\
ClusterName=ntk
SlurmctldHost={node}(127.0.0.1)
SlurmUser=root
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmdParameters=config_overrides
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
# There is no systemd and no control group of Slurm's here.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
PropagateResourceLimits=NONE
GresTypes=gpu
# Memory is enforced by polling, once a second.
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={ports[2]}
AccountingStoragePass={folder}/munge.socket
AccountingStorageTRES=gres/gpu
AccountingStoreFlags=job_comment
# What takes minutes on a cluster takes seconds here.
KillWait=10
ReturnToService=2
SchedulerParameters=bf_interval=1,sched_interval=1
NodeName={node} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory} Gres=gpu:4 State=UNKNOWN
PartitionName=cpu Nodes={node} Default=YES MaxTime=2-00:00:00 State=UP
PartitionName=gpu Nodes={node} MaxTime=2-00:00:00 State=UP
""",
    "slurmdbd.conf": """\
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={ports[2]}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
LogFile={folder}/slurmdbd.log
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm_accounting
""",
    "gres.conf": "Name=gpu File={folder}/gpu[0-3]\n",
}
#: In the order in which they start: the command, and one that succeeds when it is ready.
DAEMONS = {
    "mariadbd": (
        f"mariadbd --no-defaults --user=root --skip-networking --datadir={FOLDER}/database"
        f" --socket={FOLDER}/mariadb.socket --pid-file={FOLDER}/mariadb.pid"
        " --innodb-buffer-pool-size=64M",
        f"mariadb --no-defaults --socket={FOLDER}/mariadb.socket -e quit",
    ),
    "munged": (
        f"munged --foreground --force --socket={FOLDER}/munge.socket --key-file={FOLDER}/munge.key"
        f" --pid-file={FOLDER}/munged.pid --log-file={FOLDER}/munged.log"
        f" --seed-file={FOLDER}/munge.seed",
        f"munge -n -S {FOLDER}/munge.socket",
    ),
    "slurmdbd": ("slurmdbd -D", "sacctmgr -n list cluster"),
    "slurmctld": ("slurmctld -D", "scontrol ping"),
    "slurmd": ("slurmd -D", "srun true"),
}


def reason_not_to_run() -> str | None:
    """Return why no cluster can be started on this machine, or None."""
    path = ENVIRONMENT["PATH"]
    if missing := [name for name, each in PACKAGES.items() if not shutil.which(each, path=path)]:
        return f"not installed: {', '.join(missing)} (apt-get install them)"
    if os.geteuid() != 0:
        return "only root may start Slurm's daemons and make device nodes"
    for name in CONFIGURATION:
        if os.path.lexists(ETC / name) and not is_ours(ETC / name):
            return f"{ETC / name} exists: this machine has a Slurm of its own"
    return None


def is_ours(path: Path) -> bool:
    return path.is_symlink() and path.readlink().parent == FOLDER


def start() -> None:
    """Start everything and wait until the node takes jobs."""
    if reason := reason_not_to_run():
        sys.exit(f"cluster: error: {reason}")
    stop()  # one that was left behind
    try:
        configure()
        command(
            "mariadb-install-db --no-defaults --user=root --skip-test-db"
            f" --datadir={FOLDER}/database --auth-root-authentication-method=normal"
        )
        for name, (words, ready) in DAEMONS.items():
            with (FOLDER / f"{name}.out").open("ab") as out:
                streams = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": subprocess.STDOUT}
                options = {"env": ENVIRONMENT, "start_new_session": True}
                process = subprocess.Popen(words.split(), **streams, **options)
            PIDS.write_text(json.dumps([*pids(), process.pid]))
            wait_until(lambda words=ready: command(words, check=False) is not None, name)
            if name == "slurmdbd":
                # The controller would register its cluster itself, but not before it needs it.
                for what in ("cluster ntk", "account ntk", f"user root account={ACCOUNT}"):
                    command(f"sacctmgr -i add {what}")
    except BaseException:
        stop()
        raise


def stop() -> None:
    """Stop what was started, remove the configuration and the folder."""
    command("scancel --user=root", check=False)
    for pid in reversed(pids()):
        with suppress(psutil.NoSuchProcess):
            daemon = psutil.Process(pid)
            if daemon.name() in DAEMONS:  # the number may be another's by now
                daemon.terminate()
                wait_until(lambda it=daemon: not it.is_running() or it.status() == "zombie", "end")
    for path in filter(is_ours, [ETC / name for name in CONFIGURATION]):
        path.unlink()
    shutil.rmtree(FOLDER, ignore_errors=True)


def pids() -> list[int]:
    return json.loads(PIDS.read_text()) if PIDS.exists() else []


def configure() -> None:
    for name in ("state", "spool", "database"):
        (FOLDER / name).mkdir(parents=True)
    (FOLDER / "munge.key").write_bytes(os.urandom(128))
    (FOLDER / "munge.key").chmod(0o400)
    for number in range(4):  # the numbers are those of /dev/null
        os.mknod(FOLDER / f"gpu{number}", 0o20666, os.makedev(1, 3))
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    memory = psutil.virtual_memory().total // 2**20
    cpus = max(4, os.cpu_count() or 1)  # a job of the tests mostly waits for Slurm
    values = {"folder": FOLDER, "node": NODE, "ports": ports, "memory": memory, "cpus": cpus}
    ETC.mkdir(exist_ok=True)
    for name, text in CONFIGURATION.items():
        (FOLDER / name).write_text(text.format_map(values))
        (FOLDER / name).chmod(0o600)  # as slurmdbd asks
        (ETC / name).symlink_to(FOLDER / name)


def command(words: str, *, check: bool = True) -> str | None:
    """Return what a command says, or None if it fails and may."""
    try:
        done = subprocess.run(
            words.split(), env=ENVIRONMENT, text=True, capture_output=True, timeout=60
        )
    except (subprocess.TimeoutExpired, FileNotFoundError):
        return None
    if check and done.returncode:
        raise RuntimeError(f"{words}: {done.stderr.strip()}")
    return done.stdout if done.returncode == 0 else None


def wait_until(condition: Callable[[], bool], what: str, *, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            logs = sorted([*FOLDER.glob("*.log"), *FOLDER.glob("*.out")])
            texts = [f"--- {log.name}\n{log.read_text(errors='replace')[-1500:]}" for log in logs]
            raise RuntimeError("\n".join([f"{what}: nothing within {seconds} s", *texts]))
        time.sleep(0.2)


if __name__ == "__main__":
    if sys.argv[1:] == ["up"]:
        start()
        print(command("sinfo"), end="")
        print("snakemake --profile slurm --configfile config/ci.yaml    # then make slurm-down")
    else:
        stop()
