# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What of this build a life may have on, and by what a start shows that it has used it."""

from __future__ import annotations

import re
from dataclasses import dataclass

MAP_ON, MAP_OFF = "--loose-innodb-tablespace-map=ON", "--loose-innodb-tablespace-map=OFF"
SCAN_ON, SCAN_OFF = "--loose-binlog-startup-scan=TRANSACTIONS", "--loose-binlog-startup-scan=EVENTS"
# See docs/redo-recovery.md.
REDO_ON, REDO_OFF = "--loose-innodb-redo-recovery=PARALLEL", "--loose-innodb-redo-recovery=STOCK"
FLUSH_ON, FLUSH_OFF = "--loose-innodb-recovery-flush=BACKGROUND", "--loose-innodb-recovery-flush=WAIT"
ROLLBACK_ON, ROLLBACK_OFF = "--loose-innodb-recovery-rollback-async=ON", "--loose-innodb-recovery-rollback-async=OFF"
UNDO_SCAN_ON, UNDO_SCAN_OFF = "--loose-innodb-recovery-undo-scan=BACKGROUND", "--loose-innodb-recovery-undo-scan=START"
THREADS_ON, THREADS_OFF = "--loose-innodb-recovery-rollback-threads=4", "--loose-innodb-recovery-rollback-threads=1"
PREFETCH_ON, PREFETCH_OFF = "--loose-innodb-rollback-prefetch=ON", "--loose-innodb-rollback-prefetch=OFF"
# Of index builds; no start says anything of it.
PREALLOCATE_ON, PREALLOCATE_OFF = "--loose-innodb-ddl-preallocate=ON", "--loose-innodb-ddl-preallocate=OFF"
ONCE_ON, ONCE_OFF = "--loose-innodb-ddl-doublewrite=OFF", "--loose-innodb-ddl-doublewrite=ON"
BATCH_ON, BATCH_OFF = "--loose-innodb-ddl-flush-batch=ON", "--loose-innodb-ddl-flush-batch=OFF"
# The buffer pool is noted each second, and loaded at the start, beside the recovery and not when the server is open.
POOL_LOAD_ON = (
    "--innodb-buffer-pool-load-at-startup=ON", "--innodb-buffer-pool-dump-pct=100",
    "--loose-innodb-buffer-pool-dump-interval=1", "--loose-innodb-buffer-pool-load-when-open=OFF",
    "--loose-innodb-buffer-pool-load-by-runs=ON",
)  # fmt: skip
# Page cleaners that write nothing for as long as they can.
LAZY = ("--innodb-redo-log-capacity=64M", "--innodb-buffer-pool-size=128M", "--innodb-max-dirty-pages-pct=90",
        "--innodb-max-dirty-pages-pct-lwm=0", "--innodb-adaptive-flushing=OFF", "--innodb-idle-flush-pct=0")  # fmt: skip
# Pages that a recovery leaves to the page cleaners; undo logs that are read when the server is open.
LEFT = re.compile(r"Redo recovery: [1-9]\d* changed pages are left to the page cleaners")
UNDO_LEFT = re.compile(r"The undo logs of \d+ recovered transactions are read in the background")
SKIPPED = re.compile(
    r"Binary log scan at start-up: \d+ bytes (before the last checkpoint and )?in the middle of \d+ transactions were not read"
)
HANDED_OVER = re.compile(
    r"Prepared transactions that the binary log does not know, to be rolled back in the background: ([1-9]\d*)"
)


@dataclass(frozen=True)
class Setting:
    """A variable; its name is that of its counts."""

    name: str
    # Options of the lives that have it; the last is the variable's own. The others have it off, so that the default does not
    # matter; MySQL does not know it, and `off` turns it off.
    on: tuple[str, ...]
    off: tuple[str, ...]
    # What a start with it says that has used it, at least so often.
    says: re.Pattern[str]
    times: int = 1
    # Of lives.
    share: float = 1 / 2
    # It matters in recoveries, and is counted by the kind of crash. Of so many starts after crashes one must have used it;
    # what that has done.
    is_of_recovery: bool = True
    many: int = 0
    done: str = ""

    @property
    def option(self) -> str:
        return self.on[-1]

    @property
    def variable(self) -> str:
        """The variable and its value, as SQL has it."""
        return self.option.removeprefix("--loose-").replace("-", "_")


# In the order in which lives draw them.
SETTINGS = (
    Setting("map", (MAP_ON,), (MAP_OFF,), re.compile(r"Tablespace map: [1-9]\d* of \d+ files are as they were"),
            share=2 / 3, is_of_recovery=False),
    # Two passes over the last binary log after a crash, the first for recovery.
    Setting("scan", (SCAN_ON,), (SCAN_OFF,), SKIPPED, times=2),
    # Some must have had redo of index pages.
    Setting("redo", (REDO_ON,), (REDO_OFF,), re.compile(r"Redo recovery: built \d+ objects of indexes, used them again [1-9]"),
            many=10, done="used it"),
    # In a life with change buffering none may leave pages.
    Setting("flush", (FLUSH_ON,), (FLUSH_OFF,), LEFT, many=60, done="left pages"),
    Setting("rollback", (ROLLBACK_ON,), (ROLLBACK_OFF,), HANDED_OVER),
    Setting("prefetch", (PREFETCH_ON,), (PREFETCH_OFF,), re.compile(r"Rollback of trx with id \d+: read [1-9]\d* pages ahead"),
            is_of_recovery=False),
    # Some must have found open transactions and left their undo logs, or rolled back several at a time.
    Setting("undo_scan", (UNDO_SCAN_ON,), (UNDO_SCAN_OFF,), UNDO_LEFT, many=40, done="left undo logs for later"),
    Setting("threads", (THREADS_ON,), (THREADS_OFF,), re.compile(r"Recovered transactions are rolled back by \d+ threads"),
            many=40, done="used several"),
    Setting("pool", POOL_LOAD_ON, (), re.compile(r"Buffer pool load: read [1-9]\d* pages"), is_of_recovery=False),
)  # fmt: skip
# Of each pair the one that is this build's own way; what comes last holds.
ALL_ON = (*(option for setting in SETTINGS for option in setting.on), PREALLOCATE_ON, ONCE_ON, BATCH_ON)
