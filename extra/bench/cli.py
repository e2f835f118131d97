# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The command line: `./redstart bench NAME`."""

from __future__ import annotations

import contextlib
import re
import shutil
import signal
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial, wraps
from pathlib import Path
from types import FrameType
from typing import Any

import click
from rich.console import Console

from bench import image, picture, report, results
from bench.context import Context
from bench.experiments import binlog, ddl, fileio, first_use, oltp, outage, pool, reads, redo, shutdown, startup, undo
from bench.html import html
from bench.layout import REPOSITORY, Layout, default_layout, take_lock
from bench.profiles import FIO_FILE, PROFILES, open_volume, profile_facts, volume_facts
from bench.subjects import (
    BINLOG_SUBJECTS,
    DDL_SUBJECTS,
    FOREIGN_SUBJECTS,
    OLTP_SUBJECTS,
    OUTAGE_SUBJECTS,
    POOL_SUBJECTS,
    PREPARED_SUBJECTS,
    READS_SUBJECTS,
    REDO_SUBJECTS,
    SHUTDOWN_SUBJECTS,
    STARTUP_SUBJECTS,
    UNDO_SUBJECTS,
    UPGRADE_SUBJECTS,
    check_names,
)
from bench.tables import PAGES_KIB, Tables
from bench.ui import Ui
from redstart_cli import build as builds
from redstart_cli.console import HELP, RedstartError
from redstart_cli.layout import Layout as Clone
from redstart_cli.roots import remove_root
from redstart_cli.tools import ToolError, Unavailable

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
NARROWEST = 120

Experiments = dict[str, Callable[[Context], None]]


class _Interrupted(click.ClickException):
    exit_code = 130


def _interrupt(signum: int, frame: FrameType | None) -> None:
    """Ends the bench in an orderly way; further signals do not disturb the taking down."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


@contextmanager
def _errors() -> Iterator[None]:
    """Turns our errors, Ctrl-C and a full disk into a message and an exit code."""
    for number in SIGNALS:
        signal.signal(number, _interrupt)
    try:
        yield
    except KeyboardInterrupt:
        raise _Interrupted("interrupted; servers are stopped, limits removed") from None
    except RedstartError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        place = f": {error.filename}" if error.filename else ""
        raise click.ClickException(f"{error.strerror or error}{place}") from error


@dataclass(frozen=True)
class Settings:
    """The options that every experiment has."""

    profile: str
    memory: int | None
    rounds: int
    subjects: tuple[str, ...]
    json_path: Path | None
    markdown_path: Path | None
    html_path: Path | None
    mysqld: Path | None
    timeout_sec: int


def _split(context: click.Context, option: click.Parameter, value: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in value.split(",") if part.strip()) if value else ()


def _listed(values: Iterable[object]) -> str:
    return ",".join(map(str, values))


def _numbers(
    context: click.Context, option: click.Parameter, value: str
) -> tuple[int, ...]:
    try:
        found = tuple(int(part) for part in value.split(","))
    except ValueError:
        raise click.BadParameter(f"{value!r} is not a list of whole numbers") from None
    if any(number < 1 for number in found):
        raise click.BadParameter("numbers must be 1 or more")
    return found


def _buffers(
    context: click.Context, option: click.Parameter, value: str
) -> tuple[float, ...]:
    """Sizes in MiB; a number with K is in KiB, with G in GiB."""
    found = []
    for part in value.split(","):
        match = re.fullmatch(r"\s*(\d+)\s*([KMG]?)\s*", part, re.IGNORECASE)
        if match is None:
            raise click.BadParameter(f"{part!r} is not a size such as 64K, 16 (MiB) or 1G")
        size = int(match[1]) * {"K": 1 / 1024, "": 1, "M": 1, "G": 1024}[match[2].upper()]
        if not ddl.SMALLEST_BUFFER_MIB <= size <= ddl.LARGEST_BUFFER_MIB:
            raise click.BadParameter(f"{part.strip()} is not in 64K to 4095M")
        found.append(int(size) if size == int(size) else size)
    return tuple(found)


def _file(name: str, variable: str, text: str) -> Callable[..., Any]:
    kind = click.Path(path_type=Path, dir_okay=False)
    return click.option(name, variable, type=kind, help=text)


def common_options(function: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of Settings to a command."""
    options = (
        click.option("--profile", type=click.Choice(list(PROFILES)), default="local",
                     show_default=True, help="Volume to run on."),
        click.option("--memory", type=click.IntRange(256),
                     help="MiB that a server may use, its files in the page cache included."),
        click.option("--rounds", type=click.IntRange(1, 100), default=3, show_default=True,
                     help="How often each subject runs."),
        click.option("--subjects", callback=_split,
                     help="Comma-separated list; without it, all that can run here."),
        _file("--json", "json_path", "Write all records to this file."),
        _file("--markdown", "markdown_path", "Write the tables to this file."),
        _file("--html", "html_path", "Write a report with plots to this file."),
        click.option("--mysqld", type=click.Path(path_type=Path),
                     help="Server to test; without it, the release build's, brought up to date."),
        click.option("--timeout", "timeout_sec", type=click.IntRange(10), default=3600,
                     show_default=True, help="Seconds after which a start has failed."),
    )  # fmt: skip
    for option in reversed(options):
        function = option(function)
    return function


class _Group(click.Group):
    """A group that remembers its arguments, for the record."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.obj = list(args)
        return super().parse_args(ctx, args)


@click.group(cls=_Group, context_settings=HELP)
def main() -> None:
    """Measures restart, recovery and index builds, side by side with stock MySQL.

    Everything is kept below build/bench; `clean` removes it.
    """


def _measures(function: Callable[..., Experiments]) -> Callable[..., None]:
    """A command of a function that takes the wanted subjects and its own options, and says which experiments these are."""

    @wraps(function)
    def command(**values: Any) -> None:
        with _errors():
            settings = Settings(**{field.name: values.pop(field.name) for field in fields(Settings)})
            _bench(settings, function(settings.subjects, **values), values.get("crash_by", "stock"))

    return common_options(command)


@main.command("startup")
@click.option("--tables", type=click.IntRange(1, 10_000_000), default=20_000, show_default=True)
@click.option("--schemas", type=click.IntRange(1, 100_000), default=1, show_default=True)
@click.option("--crash", is_flag=True, help="Start after kill -9 instead of a clean shutdown.")
@click.option("--ddl", is_flag=True, help="With --crash: kill right after a CREATE TABLE.")
@click.option("--warm/--no-warm", default=True, show_default=True,
              help="After each cold start, start again without dropping caches.")  # fmt: skip
@click.option("--first-use", "used", type=click.IntRange(1), metavar="N",
              help="Instead: query N of the tables, and views of all, right after cold starts.")  # fmt: skip
@click.option("--encrypted", is_flag=True, help="All tables are encrypted; MariaDB is left out.")
@click.option("--page-kib", type=click.Choice([str(size) for size in PAGES_KIB]), default="16", show_default=True,
              help="innodb_page_size, for more tables than the disk holds with 16.")  # fmt: skip
@click.option("--after-older", is_flag=True,
              help="First starts after a server of an older patch release, which are upgrades, and second ones.")  # fmt: skip
@_measures
def startup_command(
    subjects: tuple[str, ...], tables: int, schemas: int, crash: bool, ddl: bool, warm: bool, used: int | None,
    encrypted: bool, page_kib: str, after_older: bool,
) -> Experiments:  # fmt: skip
    """Start with many tables: time, phases, reads; what the first queries take."""
    check_names(subjects, UPGRADE_SUBJECTS if after_older else STARTUP_SUBJECTS)
    if after_older and (crash or encrypted or used is not None or page_kib != "16"):
        raise ToolError("--after-older goes without --crash, --encrypted, --first-use and --page-kib")
    if ddl and not crash:
        raise ToolError("--ddl needs --crash")
    size = replace(_tables(tables, schemas), is_encrypted=encrypted, page_kib=int(page_kib))
    if used is None:
        return {"startup": partial(startup.run, options=startup.Options(size, crash, ddl, warm, subjects, after_older))}
    if encrypted or page_kib != "16":
        raise ToolError("--first-use goes without --encrypted and --page-kib")
    if crash:
        raise ToolError("--first-use goes without --crash")
    if "mariadb" in subjects:
        raise ToolError("--first-use does not know MariaDB's views")
    _check_used(used, tables)
    return {"startup --first-use": partial(first_use.run, options=first_use.Options(size, used, subjects))}


@main.command("reads")
@click.option("--tables", type=click.IntRange(1, 10_000_000), default=1, show_default=True)
@click.option("--schemas", type=click.IntRange(1, 100_000), default=1, show_default=True)
@click.option("--read-ahead", "read_ahead_kib", type=click.IntRange(0, 1 << 20), metavar="KIB",
              help="Read-ahead of the disk while it is measured; without it, as it is.")  # fmt: skip
@click.option("--crash", is_flag=True, help="Start after kill -9 instead of a clean shutdown.")
@_measures
def reads_command(
    subjects: tuple[str, ...], tables: int, schemas: int, read_ahead_kib: int | None, crash: bool
) -> Experiments:
    """What cold starts read: a list by file of all reads of the disk."""
    check_names(subjects, READS_SUBJECTS)
    return {"reads": partial(reads.run, options=reads.Options(_tables(tables, schemas), read_ahead_kib, subjects, crash))}


@main.command("shutdown")
@click.option("--tables", type=click.IntRange(1, 400_000), default=20_000, show_default=True)
@click.option("--schemas", type=click.IntRange(1, 100_000), default=1, show_default=True)
@_measures
def shutdown_command(subjects: tuple[str, ...], tables: int, schemas: int) -> Experiments:
    """Shutdown with all tables open: time, phases, what systemd hears."""
    check_names(subjects, SHUTDOWN_SUBJECTS)
    return {"shutdown": partial(shutdown.run, options=shutdown.Options(_tables(tables, schemas), subjects))}


@main.command("undo")
@click.option("--rows", type=click.IntRange(1000, 100_000_000), default=undo.Options.rows,
              show_default=True, help="Rows that the unfinished transaction updated.")  # fmt: skip
@click.option("--cached", is_flag=True,
              help="Leave the undo in the kernel's page cache, and read it from there.")  # fmt: skip
@click.option("--rollback", is_flag=True, help="Also wait until the transaction is rolled back.")
@click.option("--prepared", is_flag=True,
              help="The transaction was prepared, and the binary log does not know it: it is rolled back at start.")  # fmt: skip
@click.option("--committed", is_flag=True, help="The transaction was committed just before the kill: for comparison.")
@click.option("--scattered", is_flag=True, help="Rows were updated in an order that is not that of their keys.")
@_measures
def undo_command(subjects: tuple[str, ...], **own: Any) -> Experiments:
    """Start after a crash in a big transaction: time to find its locks."""
    if own["committed"] and (own["prepared"] or own["cached"] or own["rollback"]):
        raise click.UsageError("--committed leaves nothing to find or to roll back: not with --prepared, --cached, --rollback")
    check_names(subjects, PREPARED_SUBJECTS if own["prepared"] else UNDO_SUBJECTS)
    return {"undo": partial(undo.run, options=undo.Options(subjects=subjects, **own))}


@main.command("pool")
@click.option("--rows", type=click.IntRange(1000, 100_000_000), default=4_000_000, show_default=True,
              help="Rows of the table, of about 130 bytes.")  # fmt: skip
@click.option("--pool", "pool_mib", type=click.IntRange(64, 1 << 20), default=1024, show_default=True,
              help="MiB of buffer pool.")  # fmt: skip
@_measures
def pool_command(subjects: tuple[str, ...], **own: Any) -> Experiments:
    """Start after a shutdown: time until the buffer pool is loaded."""
    check_names(subjects, POOL_SUBJECTS)
    return {"pool": partial(pool.run, options=pool.Options(subjects=subjects, **own))}


@main.command("ddl")
@click.option("--rows", type=click.IntRange(1000, 100_000_000), default=ddl.Options.rows,
              show_default=True)  # fmt: skip
@click.option("--indexes", type=click.IntRange(1, 60), default=ddl.Options.indexes, show_default=True,
              help="Indexed columns of the table, of 64 characters each.")  # fmt: skip
@click.option("--buffers", callback=_buffers, default=_listed(ddl.Options.buffers), show_default=True,
              help="Sort buffer sizes: 64K, 16 (MiB), 1G.")  # fmt: skip
@click.option("--threads", callback=_numbers, default=_listed(ddl.Options.threads), show_default=True)
@click.option("--operations", callback=_split, default=_listed(ddl.Options.operations),
              show_default=True)  # fmt: skip
@_measures
def ddl_command(subjects: tuple[str, ...], **own: Any) -> Experiments:
    """Build indexes: time and temporary file I/O."""
    check_names(subjects, DDL_SUBJECTS)
    check_names(own["operations"], ddl.OPERATIONS, "operation")
    return {"ddl": partial(ddl.run, options=ddl.Options(subjects=subjects, **own))}


@main.command("binlog")
@click.option("--mib", type=click.IntRange(1, binlog.MOST_MIB), default=binlog.MOST_MIB, show_default=True,
              help="Size of the last binary log.")  # fmt: skip
@click.option("--logs", callback=_split, default=_listed(binlog.LOGS), show_default=True,
              help="What the last binary log holds.")  # fmt: skip
@click.option("--ends", callback=_split, default=_listed(binlog.ENDS), show_default=True,
              help="How the server before has ended.")  # fmt: skip
@_measures
def binlog_command(subjects: tuple[str, ...], **own: Any) -> Experiments:
    """Start with a large binary log, after a shutdown and after a crash."""
    check_names(subjects, BINLOG_SUBJECTS)
    check_names(own["logs"], binlog.LOGS, "binary log")
    check_names(own["ends"], binlog.ENDS, "end")
    return {"binlog": partial(binlog.run, options=binlog.Options(subjects=subjects, **own))}


@main.command("redo")
@click.option("--seconds", type=click.IntRange(1, 3600), help="Kill after so many seconds of load.  [default: 100]")
@click.option("--redo-mib", type=click.IntRange(1, redo.MOST_MIB), help="Kill when so much redo is behind the checkpoint.")
@click.option("--pool", "pool_mib", type=click.IntRange(64, 1 << 20), default=2048, show_default=True,
              help="MiB of buffer pool, under load and, without --start-pool, in the start.")  # fmt: skip
@click.option("--start-pool", "start_pool_mib", type=click.IntRange(5, 1 << 20),
              help="MiB of buffer pool in the start, if other than under load.")  # fmt: skip
@click.option("--rows", type=click.IntRange(1000, 100_000_000), default=500_000, show_default=True,
              help="Rows of each of the eight tables.")  # fmt: skip
@click.option("--after", "after_sec", type=click.IntRange(0, 3600), default=0, show_default=True,
              help="Go on with the load for so many seconds.")  # fmt: skip
@click.option("--check-rows", is_flag=True, help="All starts must have the same rows.")
@click.option("--crash-by", type=click.Choice(redo.CRASH_BY), default="stock", show_default=True,
              help="Which server is killed under load; MariaDB starts after its own crash.")  # fmt: skip
@_measures
def redo_command(subjects: tuple[str, ...], seconds: int | None, **own: Any) -> Experiments:
    """Start after kill -9 under load: redo to be read and applied."""
    check_names(subjects, REDO_SUBJECTS)
    if own["crash_by"] != "stock" and subjects == ("mariadb",):
        raise ToolError("--crash-by is for MySQL's servers: MariaDB starts after its own crash")
    if seconds is not None and own["redo_mib"] is not None:
        raise ToolError("--seconds and --redo-mib exclude each other")
    if own["check_rows"] and own["after_sec"]:
        raise ToolError("--check-rows and --after exclude each other: the check warms the buffer pool")
    return {"redo": partial(redo.run, options=redo.Options(subjects=subjects, seconds=seconds or 100, **own))}


@main.command("outage")
@click.option("--tables", type=click.IntRange(1, 10_000_000), default=100_000, show_default=True)
@click.option("--schemas", type=click.IntRange(1, 100_000), default=1, show_default=True)
@click.option("--queried", "used", type=click.IntRange(1), default=1000, show_default=True,
              help="Tables that are queried after the start.")  # fmt: skip
@click.option("--rows", type=click.IntRange(1000, 100_000_000), default=500_000, show_default=True,
              help="Rows of each of the eight tables of the load.")  # fmt: skip
@click.option("--pool", "pool_mib", type=click.IntRange(64, 1 << 20), default=2048, show_default=True,
              help="MiB of buffer pool, under load and in the start.")  # fmt: skip
@click.option("--redo-mib", type=click.IntRange(1, outage.MOST_REDO_MIB), default=1024, show_default=True,
              help="Redo that is behind the checkpoint when the server is killed.")  # fmt: skip
@click.option("--binlog-mib", type=click.IntRange(1, outage.MOST_BINLOG_MIB), default=outage.MOST_BINLOG_MIB,
              show_default=True, help="Size of the last binary log, at least; it is ended at 1,024.")  # fmt: skip
@click.option("--open-rows", type=click.IntRange(100_000, 100_000_000), default=1_000_000, show_default=True,
              help="Rows of the transaction that is open, and of the one that is prepared.")  # fmt: skip
@click.option("--before", "before_sec", type=click.IntRange(6, 3600), default=60, show_default=True,
              help="Seconds of load before the crash is made; the last third counts.")  # fmt: skip
@click.option("--after", "after_sec", type=click.IntRange(10, 3600), default=300, show_default=True,
              help="Seconds for the load to come back.")  # fmt: skip
@_measures
def outage_command(subjects: tuple[str, ...], tables: int, schemas: int, used: int, **own: Any) -> Experiments:
    """A busy server with many tables is killed: until it answers, and until the load is back."""
    check_names(subjects, OUTAGE_SUBJECTS)
    _check_used(used, tables)
    options = outage.Options(tables=_tables(tables, schemas), used=used, subjects=subjects, **own)
    return {"outage": partial(outage.run, options=options)}


@main.command("fileio")
@click.option("--seconds", type=click.FloatRange(1), default=fileio.SECONDS, show_default=True)
@_measures
def fileio_command(subjects: tuple[str, ...], seconds: float) -> Experiments:
    """Random reads of the volume at 4, 16 and 32 KiB."""
    check_names(subjects, ())
    return {"fileio": partial(fileio.run, seconds=seconds)}


@main.command("oltp")
@click.option("--rows", type=click.IntRange(100), default=oltp.Options.rows, show_default=True,
              help="Rows of each of the four tables.")  # fmt: skip
@click.option("--threads", callback=_numbers, default=_listed(oltp.Options.threads), show_default=True)
@click.option("--seconds", type=click.IntRange(1), default=oltp.Options.seconds, show_default=True)
@click.option("--loads", callback=_split, default=_listed(oltp.Options.loads), show_default=True)
@_measures
def oltp_command(subjects: tuple[str, ...], **own: Any) -> Experiments:
    """Throughput under sysbench: rows read and written, orders taken, tables created and dropped."""
    check_names(subjects, OLTP_SUBJECTS)
    check_names(own["loads"], oltp.MODES, "load")
    return {"oltp": partial(oltp.run, options=oltp.Options(subjects=subjects, **own))}


@main.command("all")
@click.option("--tables", type=click.IntRange(1, 10_000_000), default=20_000, show_default=True)
@click.option("--schemas", type=click.IntRange(1, 100_000), default=1, show_default=True)
@_measures
def all_command(subjects: tuple[str, ...], tables: int, schemas: int) -> Experiments:
    """Every experiment at its default size, with those of the subjects that it has."""
    lists = (STARTUP_SUBJECTS, UNDO_SUBJECTS, DDL_SUBJECTS, OLTP_SUBJECTS)
    check_names(subjects, tuple(dict.fromkeys(name for names in lists for name in names)))
    starting, undoing, sorting, loading = (_those_of(subjects, names) for names in lists)
    size = _tables(tables, schemas)
    experiments: Experiments = {"fileio": fileio.run}
    if starting:
        clean = startup.Options(size, crash=False, ddl=False, warm=True, subjects=starting)
        crash = startup.Options(size, crash=True, ddl=False, warm=False, subjects=starting)
        experiments["startup"] = partial(startup.run, options=clean)
        experiments["startup --crash"] = partial(startup.run, options=crash)
    if undoing:
        experiments["undo"] = partial(undo.run, options=undo.Options(subjects=undoing))
    if sorting:
        experiments["ddl"] = partial(ddl.run, options=ddl.Options(subjects=sorting))
    if loading:
        experiments["oltp"] = partial(oltp.run, options=oltp.Options(subjects=loading))
    return experiments


def _those_of(names: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    """The names that an experiment has; all that it has if none is given."""
    return tuple(name for name in known if not names or name in names)


def _tables(tables: int, schemas: int) -> Tables:
    if schemas > tables:
        raise ToolError(f"{schemas} schemas are more than {tables} tables")
    return Tables(tables, schemas)


def _check_used(used: int, tables: int) -> None:
    if used > tables:
        raise ToolError(f"{used} tables to be queried are more than {tables} tables")


def _mysqld(settings: Settings, experiments: Collection[str], crash_by: str) -> Path:
    """The server under test. If it is our own and wanted, if only for its crash, it is built from what the clone holds now."""
    if settings.mysqld is not None:
        return settings.mysqld.absolute()
    clone = Clone(REPOSITORY)
    is_wanted = not settings.subjects or set(settings.subjects) - FOREIGN_SUBJECTS or crash_by not in FOREIGN_SUBJECTS
    if is_wanted and set(experiments) != {"fileio"}:
        builds.build(clone, "release")
    return clone.binary("release", "mysqld")


def _bench(settings: Settings, experiments: Experiments, crash_by: str) -> None:
    """Runs experiments on a volume and writes what was measured, also after an error."""
    for path in (settings.json_path, settings.markdown_path, settings.html_path):
        if path is not None and not path.absolute().parent.is_dir():
            raise ToolError(f"there is no directory {path.absolute().parent}")
    layout = default_layout()
    layout.make()
    profile = PROFILES[settings.profile]
    memory_bytes = settings.memory << 20 if settings.memory else None
    mysqld = _mysqld(settings, experiments, crash_by)
    document: results.Document | None = None
    try:
        with take_lock(layout), Ui() as ui, open_volume(layout, profile, memory_bytes) as volume:
            document = results.Document(
                command_line=["./redstart", "bench", *click.get_current_context().obj],
                profile=profile_facts(volume),
                volume=volume_facts(volume),
            )
            context = Context(
                layout,
                ui,
                volume,
                document,
                mysqld,
                settings.rounds,
                settings.timeout_sec,
            )
            for name, experiment in experiments.items():
                try:
                    experiment(context)
                except Unavailable as error:
                    context.skip(f"experiment {name}", error)
    finally:
        if document is not None and (document.runs or document.skipped):
            _write(document, settings)
    if not document.runs:
        raise ToolError("nothing could be measured here")
    if not all(run.ok for run in document.runs):
        raise ToolError("some runs went wrong; they are listed above and not counted")


def _write(document: results.Document, settings: Settings) -> None:
    console = Console()
    if console.width < NARROWEST and not console.is_terminal:
        console.width = NARROWEST
    for grid in report.grids(document):
        console.print(report.terminal(grid))
    if settings.json_path is not None:
        results.save(document, settings.json_path)
    _write_reports([document], settings.markdown_path, settings.html_path)


def _write_reports(
    documents: list[results.Document], markdown_path: Path | None, html_path: Path | None
) -> None:
    if markdown_path is not None:
        markdown_path.write_text(report.markdown(documents), encoding="utf-8")
    if html_path is not None:
        html_path.write_text(html(documents), encoding="utf-8")


@main.command("report")
@click.argument("files", nargs=-1, required=True,
                type=click.Path(path_type=Path, exists=True, dir_okay=False))  # fmt: skip
@_file("--markdown", "markdown_path", "Write the tables to this file.")
@_file("--html", "html_path", "Write a report with plots to this file.")
def report_command(
    files: tuple[Path, ...], markdown_path: Path | None, html_path: Path | None
) -> None:
    """Makes one report from the JSON files of several calls."""
    with _errors():
        if markdown_path is None and html_path is None:
            raise ToolError("say where to write: --markdown FILE or --html FILE")
        _write_reports([results.load(path) for path in files], markdown_path, html_path)


@main.command("plot")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--results", "results_folder", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
              default=picture.FIGURES, help="Published results; without it, docs/figures.")  # fmt: skip
@click.option("--output", "folder", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
              default=picture.IMAGES, help="Where the picture is; without it, docs/images.")  # fmt: skip
def plot_command(files: tuple[Path, ...], results_folder: Path, folder: Path) -> None:
    """Draws the picture of the README from the published results, after FILES were put there."""
    with _errors():
        for path in picture.publish(files, results_folder, folder):
            click.echo(path)
            if path.suffix == ".json":
                for text in report.remarks(results.load(path).runs):
                    click.echo(f"  {text}")


@main.command("clean")
def clean_command() -> None:
    """Removes everything the bench keeps: data directories, roots, images, logs."""
    with _errors():
        layout = default_layout()
        with take_lock(layout):
            clean(layout)


def clean(layout: Layout) -> None:
    """Unmounts and removes what the bench keeps in the layout's base directory, and nothing else there."""
    image.sweep(layout.volumes)
    for root in layout.roots.glob("*"):
        remove_root(root)
    for folder in layout.folders:
        if folder.exists():
            shutil.rmtree(folder)
    for file in (FIO_FILE, "lock"):
        (layout.base / file).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        layout.base.rmdir()


if __name__ == "__main__":
    main()
