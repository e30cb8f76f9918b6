"""A console for people: one line for each job as it ends, and every warning and error.

`snakemake --logger console`, as the Makefile calls it. The log in .snakemake/log stays complete.
"""

import contextlib
import copy
import logging
import os
import re
import sys
from collections import defaultdict
from logging import WARNING, LogRecord
from statistics import mean

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

SHOWN = ("Nothing to be done", "Trying to restart", "Will exit", "Full log: ")
#: The end of a traceback of Snakemake's own that says all.
FULL = re.compile(r"Traceback.*(No space left on device|Disk quota exceeded)", re.DOTALL)


class LogHandler(LogHandlerBase):
    """Writes to stderr, as Snakemake does, which finds this class by its name."""

    writes_to_stream = True
    # the formatter is Snakemake's own, which shows the logs of failed jobs
    writes_to_file = has_filter = has_formatter = needs_rulegraph = False

    def __post_init__(self) -> None:
        logging.raiseExceptions = False  # a log that cannot be written is no page on the screen
        self.begin = 0.0
        self.stopped = False  # by Ctrl-C, after which jobs that end are no errors
        self.planned: dict[str, int] = {}  # jobs of each rule
        self.running: dict[int, LogRecord] = {}  # how each job began
        self.seconds: defaultdict[str, list[float]] = defaultdict(list)  # of finished jobs, by rule

    def emit(self, record: LogRecord) -> None:
        with contextlib.suppress(Exception):
            if text := self.text(record):
                print(text, file=sys.stderr, flush=True)

    def text(self, record: LogRecord) -> str:
        """Return what a person is shown of an event, most often nothing."""
        event, fields = getattr(record, "event", None), vars(record)
        if self.stopped or record.getMessage().startswith("Terminating processes on user request"):
            first, self.stopped = not self.stopped, True
            return "Stopped; the same command goes on where it was." if first else ""
        if record.levelno >= WARNING:
            return self.format(self.shortened(record))
        if self.common_settings.dryrun:
            return self.format(record)
        if event == LogEvent.RUN_INFO:
            self.planned = {rule: n for rule, n in fields["stats"].items() if rule != "total"}
            self.begin = record.created
            return f"{sum(self.planned.values())} jobs"
        if event == LogEvent.JOB_INFO:
            self.running[fields["jobid"]] = record
        elif event == LogEvent.JOB_FINISHED:
            return self.finished(fields["job_id"], record.created)
        text = record.getMessage().replace("Complete log(s): ", "Full log: ")
        return text.replace(f"{os.getcwd()}/", "") if text.startswith(SHOWN) else ""

    def shortened(self, record: LogRecord) -> LogRecord:
        """Return an error without pages of paths and commands, which are in the full log."""
        record = copy.copy(record)
        fields = vars(record)
        if job := self.running.pop(fields.get("jobid", -1), None):
            fields |= {"rule_name": name(job), "msg": fields["rule_msg"]}
            fields |= {"input": [], "output": [], "shellcmd": ""}
        elif full := FULL.search(record.getMessage()):
            record.msg = f"{os.getcwd()}: {full[1]}; make room and run again"
        elif fields.get("exception") == "RuleException":
            record.msg = re.sub(r"(?m)^(.{200}).{40,}(.{60})$", r"\1 ... \2", record.getMessage())
        return record

    def finished(self, jobid: int, now: float) -> str:
        """Return the line of a job: how many of how many, its time, its name, the time left.

        What is left is as if jobs took as long as those of their rule so far, or as its job that
        runs for longer, or as the average, and as many side by side as until now.
        """
        job = self.running.pop(jobid)
        self.seconds[vars(job)["rule_name"]].append(now - job.created)
        spent = [seconds for rule in self.seconds.values() for seconds in rule]
        done, total = len(spent), sum(self.planned.values())
        line = f"[{done:{len(str(total))}}/{total}] {spoken(now - job.created):>9}  {name(job)}"
        if not total / 10 <= done < total:  # the first jobs say little about the others
            return line
        work, side_by_side = 0.0, sum(spent)
        for rule, planned in self.planned.items():
            running = [job for job in self.running.values() if vars(job)["rule_name"] == rule]
            ages, finished = [now - job.created for job in running], self.seconds[rule]
            expected = max([mean(finished or spent), *ages])
            work += (planned - len(finished)) * expected - sum(ages)
            side_by_side += sum(ages)
        left = work * (now - self.begin) / max(side_by_side, 0.1)
        return f"{line:<80}  about {spoken(max(left, 1))} left"


def name(job: LogRecord) -> str:
    """Return a job's rule and wildcards, the run apart."""
    fields = vars(job)
    given = {key: text.strip("/") for key, text in fields["wildcards"].items() if key != "run"}
    parts = [f"depth-{text}" if key == "depth" else text for key, text in given.items() if text]
    return f"{fields['rule_name']} {'/'.join(parts)}".rstrip()


def spoken(seconds: float) -> str:
    """Return a duration: 9.8 s, 42 s, 3 min, 2 h 01 min."""
    if seconds < 59.5:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min"
