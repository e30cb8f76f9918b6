"""A real Slurm of one node, on this machine, in a folder of its own; what it starts it stops.

    python tests/slurm/cluster.py up [--folder DIR]      # `make slurm-up`
    python tests/slurm/cluster.py down [--folder DIR]    # `make slurm-down`

It is Debian's Slurm with munge, accounting in a private MariaDB, and four GPUs that are device
nodes without hardware. Sockets, ports, logs and state are its own. Only the configuration has a
fixed place, /etc/slurm: a job's `srun` looks there, for Snakemake's jobs take SLURM_CONF out of
their environment. A Slurm that is configured there already is left alone; what an abandoned cluster
of this program has left is cleared away by the next one.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

ETC = Path("/etc/slurm")
CONFIGURATION = ("slurm.conf", "slurmdbd.conf", "gres.conf")
FOLDER = Path(f"/tmp/ntk-conditioning-slurm-{os.getuid()}")

#: Debian's packages, and a program of each.
PACKAGES = {name: name for name in ("slurmctld", "slurmd", "slurmdbd")}
PACKAGES |= {"slurm-client": "sbatch", "munge": "munged", "mariadb-server": "mariadbd"}
PIDS = "pids.json"
OWNER = "owner"
GPUS = 4
CPUS = 4  # at least: a job of the tests mostly waits for something to happen to it
ACCOUNT = "ntk"
#: Of processes that may be started where only a user's programs are on the path.
PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"

SLURM_CONF = """\
ClusterName=ntk
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmctldPort={controller_port}
SlurmdPort={node_port}
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
AccountingStoragePort={database_daemon_port}
AccountingStoragePass={folder}/munge.socket
AccountingStorageTRES=gres/gpu
AccountingStoreFlags=job_comment
# What takes minutes on a cluster takes seconds here.
KillWait=10
ReturnToService=2
MinJobAge=300
SchedulerParameters=bf_interval=1,sched_interval=1
MaxArraySize=10001
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory} Gres=gpu:{gpus} State=UNKNOWN
PartitionName=cpu Nodes={host} Default=YES MaxTime=2-00:00:00 State=UP
PartitionName=gpu Nodes={host} MaxTime=2-00:00:00 State=UP
"""

SLURMDBD_CONF = """\
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={database_daemon_port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
LogFile={folder}/slurmdbd.log
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm_accounting
"""

GRES_CONF = "Name=gpu File={folder}/gpu[0-{last_gpu}]\n"


class ClusterError(Exception):
    """The cluster cannot be started."""


def reason_not_to_run() -> str | None:
    """Return why no cluster can be started on this machine, or None."""
    programs = PACKAGES.items()
    if missing := [name for name, each in programs if not shutil.which(each, path=PATH)]:
        return f"not installed: {', '.join(missing)} (apt-get install them)"
    if os.geteuid() != 0:
        return "only root may start Slurm's daemons and make device nodes"
    for path in (ETC / name for name in CONFIGURATION if os.path.lexists(ETC / name)):
        cluster = linked_cluster(path)
        if cluster is None:
            return f"{path} exists: this machine has a Slurm of its own"
        if not cluster.is_abandoned():
            return f"a Slurm of tests or of `make slurm-up` runs in {cluster.folder}"
    return None


def linked_cluster(path: Path) -> Cluster | None:
    """Return the cluster of this program's own that a configuration file belongs to."""
    if not path.is_symlink():
        return None
    folder = Path(os.readlink(path)).parent
    # A folder that is gone has only its name to say whose it was.
    ours = (folder / PIDS).exists() or (folder.name.startswith("ntk-") and not folder.exists())
    return Cluster(folder) if ours else None


class Cluster:
    def __init__(self, folder: Path) -> None:
        self.folder, self.node = folder.absolute(), socket.gethostname().split(".")[0]
        self.environment = {name: os.environ[name] for name in os.environ if name != "SLURM_CONF"}
        self.environment |= {"PATH": PATH, "MYSQL_UNIX_PORT": str(self.folder / "mariadb.socket")}
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start everything and wait until the node takes jobs, or raise `ClusterError`."""
        if reason := reason_not_to_run():
            raise ClusterError(reason)
        for leftover in filter(None, [linked_cluster(ETC / name) for name in CONFIGURATION]):
            leftover.stop()
        try:
            self._configure()
            self._start_database()
            self.start_daemon("munged")
            self._wait_for("munge", "-n", "-S", self.folder / "munge.socket")
            self.start_daemon("slurmdbd")
            self._wait_for("sacctmgr", "-n", "list", "cluster")
            # The controller would register its cluster itself, but not before it needs it.
            user = ("user", "root", f"account={ACCOUNT}")
            for what in (("cluster", "ntk"), ("account", ACCOUNT), user):
                self.command("sacctmgr", "-i", "add", *what)
            self.start_daemon("slurmctld")
            self.start_daemon("slurmd")
            self._wait(self.is_ready)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop what was started, remove the configuration and the folder."""
        if self._pids.get("slurmctld") and self.daemon_runs("slurmctld"):
            self._run(("scancel", "--user=root"))
            with suppress(ClusterError):
                self._wait(lambda: not self._run(("squeue", "-h")).stdout)
        for name in ("slurmd", "slurmctld", "slurmdbd", "munged", "mariadbd"):
            self.stop_daemon(name)
        for name in CONFIGURATION:
            link = ETC / name
            if link.is_symlink() and Path(os.readlink(link)).parent == self.folder:
                link.unlink()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start_daemon(self, name: str) -> None:
        command, options = self._daemons[name], {"env": self.environment, "start_new_session": True}
        with (self.folder / f"{name}.out").open("ab") as out:
            streams = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": subprocess.STDOUT}
            self._children[name] = process = subprocess.Popen(command, **options, **streams)
        self._pids = self._pids | {name: process.pid}

    def stop_daemon(self, name: str, number: signal.Signals = signal.SIGTERM) -> None:
        """Send a signal to one of the daemons, and wait until it has gone."""
        if not self.daemon_runs(name):
            return
        os.kill(self._pids[name], number)
        end = time.monotonic() + 15
        while self.daemon_runs(name):
            if time.monotonic() > end:
                os.kill(self._pids[name], signal.SIGKILL)
            time.sleep(0.1)

    def daemon_runs(self, name: str) -> bool:
        if name in self._children:
            return self._children[name].poll() is None
        pid = self._pids.get(name)  # started by another call of this program
        try:
            return Path(f"/proc/{pid}/comm").read_text().strip() == name
        except FileNotFoundError:
            return False

    def is_abandoned(self) -> bool:
        """Return whether the daemons have died, or the program that was to stop them."""
        owner = self.folder / OWNER
        if owner.exists() and not Path(f"/proc/{owner.read_text()}").exists():
            return True
        return not any(self.daemon_runs(name) for name in self._pids)

    def is_ready(self) -> bool:
        state = self.command("sinfo", "-h", "-p", "cpu", "-o", "%T", check=False)
        return state.strip() in ("idle", "mixed", "allocated")

    def command(self, *words: object, check: bool = True) -> str:
        done = self._run(words)
        if check and done.returncode:
            raise ClusterError(f"{' '.join(map(str, words))}: {done.stderr.strip()}")
        return done.stdout

    def ends(self, name: str) -> list[str]:
        """Return how the jobs of one name have ended, also those that Slurm started again."""
        words = ("sacct", "-X", "-a", "-n", "-P", "--duplicates", "--starttime", "now-2days")
        lines = self.command(*words, "--name", name, "--format", "State").splitlines()
        return [line.split()[0] for line in lines]  # CANCELLED by 1000

    def queue(self, *options: str) -> list[dict[str, str]]:
        """Return the jobs that wait or run, with number, state, name and comment."""
        fields = ("JobID", "State", "Submitted", "Name", "Comment")
        lines = self.command("squeue", "-h", "-r", "-o", "%A|%T|%V|%j|%k", *options).splitlines()
        return [dict(zip(fields, line.split("|", 4), strict=True)) for line in lines]

    @contextmanager
    def running(self) -> Iterator[Cluster]:
        self.start()
        try:
            (self.folder / OWNER).write_text(str(os.getpid()))
            yield self
        finally:
            self.stop()

    @property
    def _daemons(self) -> dict[str, list[str]]:
        folder = self.folder
        return {
            "mariadbd": [
                *("mariadbd", "--no-defaults", "--user=root", "--skip-networking"),
                *(f"--datadir={folder}/database", f"--socket={folder}/mariadb.socket"),
                *(f"--pid-file={folder}/mariadb.pid", "--innodb-buffer-pool-size=64M"),
            ],
            "munged": [
                *("munged", "--foreground", "--force", "--num-threads=10"),
                *(f"--socket={folder}/munge.socket", f"--key-file={folder}/munge.key"),
                *(f"--pid-file={folder}/munge.pid", f"--log-file={folder}/munge.log"),
                f"--seed-file={folder}/munge.seed",
            ],
            **{name: [name, "-D"] for name in ("slurmdbd", "slurmctld", "slurmd")},
        }

    @property
    def _pids(self) -> dict[str, int]:
        try:
            return json.loads((self.folder / PIDS).read_text())
        except FileNotFoundError:
            return {}

    @_pids.setter
    def _pids(self, pids: dict[str, int]) -> None:
        (self.folder / PIDS).write_text(json.dumps(pids))

    def _configure(self) -> None:
        if self.folder.exists() and any(self.folder.iterdir()):
            raise ClusterError(f"{self.folder} is not empty; `make slurm-down`, or remove it")
        for name in ("state", "spool", "database"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        self.folder.chmod(0o755)
        ports = ("controller_port", "node_port", "database_daemon_port")
        values = dict(zip(ports, _free_ports(len(ports)), strict=True))
        values |= {"folder": self.folder, "host": self.node}
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
        values |= {"cpus": max(CPUS, os.cpu_count() or 1), "memory": memory}
        values |= {"gpus": GPUS, "last_gpu": GPUS - 1}
        for number in range(GPUS):  # the numbers are those of /dev/null
            os.mknod(self.folder / f"gpu{number}", 0o20666, os.makedev(1, 3))
        texts = dict(zip(CONFIGURATION, (SLURM_CONF, SLURMDBD_CONF, GRES_CONF), strict=True))
        ETC.mkdir(exist_ok=True)
        for name, text in texts.items():
            path = self.folder / name
            path.write_text(text.format_map(values))
            path.chmod(0o600 if name == "slurmdbd.conf" else 0o644)
            (ETC / name).symlink_to(path)

    def _start_database(self) -> None:
        self.command(
            *("mariadb-install-db", "--no-defaults", "--user=root", "--skip-test-db"),
            *(f"--datadir={self.folder}/database", "--auth-root-authentication-method=normal"),
        )
        self.start_daemon("mariadbd")
        client = ("mariadb", "--no-defaults", f"--socket={self.folder}/mariadb.socket")
        self._wait_for(*client, "-e", "select 1")

    def _run(self, words: Sequence[object]) -> subprocess.CompletedProcess[str]:
        command = [str(word) for word in words]
        return subprocess.run(command, env=self.environment, text=True, capture_output=True)

    def _wait_for(self, *words: object) -> None:
        self._wait(lambda: self._run(words).returncode == 0)

    def _wait(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + 60
        while not condition():
            dead = [name for name in self._pids if not self.daemon_runs(name)]
            if dead or time.monotonic() > end:
                lines = [f"{dead[0]} has ended" if dead else "no answer in time"]
                for path in sorted([*self.folder.glob("*.log"), *self.folder.glob("*.out")]):
                    text = path.read_text(errors="replace").splitlines()
                    lines += [f"--- {path.name}", *text[-15:]]
                raise ClusterError("\n".join(lines))
            time.sleep(0.2)


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=["up", "down"])
    parser.add_argument("--folder", type=Path, default=FOLDER)
    args = parser.parse_args(argv)
    cluster = Cluster(args.folder)
    if args.action == "down":
        cluster.stop()
        return 0
    try:
        cluster.start()
    except ClusterError as error:
        print(f"cluster: error: {error}", file=sys.stderr)
        return 2
    print(cluster.command("sinfo"), end="")
    print("snakemake --profile slurm --configfile config/ci.yaml    # stop it with make slurm-down")
    return 0


if __name__ == "__main__":
    sys.exit(main())
