# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The commands of ./redstart."""

from __future__ import annotations

import inspect
import os
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

import click

from redstart_cli import archive, clone, formatting, nightly, sanitizers, server, site, source, testing
from redstart_cli import build as builds
from redstart_cli import package as packages
from redstart_cli import patches as contributions
from redstart_cli import upstream as upstreams
from redstart_cli.console import HELP, RedstartError, error, say
from redstart_cli.layout import LTO, PACKAGE, PRESETS, this_layout
from redstart_cli.locks import exclusive

# For commands whose arguments belong to another program.
_PASS_ON: dict[str, Any] = {
    "ignore_unknown_options": True,
    "allow_interspersed_args": False,
    "help_option_names": [],
}

# The level that calls the others, and where a call of `test` keeps what follows --.
_NIGHTLY = "nightly"
_ARGUMENTS = "redstart_cli.arguments"

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


def _upstream_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--upstream and --source, for every command that may have to make the source tree."""
    command = click.option(
        "--source",
        "checkout",
        type=_FOLDER,
        envvar="MYSQL_SOURCE",
        help="A MySQL source tree to use instead of a release; it is only read. Also MYSQL_SOURCE.",
    )(command)
    return click.option("--upstream", "version", metavar="VERSION", help="A release of cmake/upstream.json.")(command)


def _show_version(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        say(clone.version(this_layout()))
        context.exit()


@click.group(context_settings=HELP)
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_show_version,
              help="MySQL's release and the commit of this clone.")  # fmt: skip
@click.option("--yes", is_flag=True, expose_value=False, help="Install Debian packages that are missing without asking.")
def cli() -> None:
    """Redstart: a fork of MySQL as an overlay over the upstream source."""


@cli.command(name="source")
@click.option("--check", metavar="VERSION|DIR|archive", help="Only show where each edit lands, or why not.")
@_upstream_options
def source_command(check: str | None, version: str | None, checkout: Path | None) -> None:
    """Fetch the upstream source and apply Redstart's edits (build/source).

    --check archive asks Debian's archive what it has today. Exit status: 0 the edits apply to it, 1 they do not,
    3 it has a version that cmake/upstream.json does not pin, 4 it gives no answer.
    """
    layout = this_layout()
    if check == "archive":
        sys.exit(archive.check_archive(layout))
    if check is not None:
        if not source.check_edits(layout, check):
            sys.exit(1)
        return
    with exclusive(layout.lock, str(layout.build)):
        upstream = source.ensure_source(layout, version, checkout)
    say(f"{layout.source} is MySQL {upstream.version} with Redstart's edits")


@cli.command()
@click.argument("paths", metavar="[FILE]...", nargs=-1)
@_upstream_options
def diff(paths: tuple[str, ...], version: str | None, checkout: Path | None) -> None:
    """Show what Redstart changes in MySQL's source: all edited files, or FILE.

    FILE is a path in MySQL's tree, a folder of it or the end of a path: diff fil0fil.cc. Redstart's own files are
    shown if they are named.
    """
    layout = this_layout()
    with source.reading_source(layout, version, checkout) as upstream:
        clone.diff(layout, upstream.tree, paths)


@cli.command()
def status() -> None:
    """Say what this clone has built, how large it is and what runs."""
    clone.status(this_layout())


@cli.command()
@click.option("--serve", is_flag=True, help="Show it on http://127.0.0.1:8000 instead, built anew after each change.")
def docs(serve: bool) -> None:
    """Make a site of README and docs (build/site); links and anchors that lead nowhere are errors."""
    layout = this_layout()
    site.run(layout, serve)
    if not serve:
        say(f"{layout.build / 'site/index.html'} is up to date")


@cli.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All that can be made again: no data, no evidence of failures.")
def clean(names: tuple[str, ...], everything: bool) -> None:
    """Remove folders of build/; without a name show them and their sizes."""
    clone.clean(this_layout(), names, everything)


@cli.command()
@click.argument("preset", type=click.Choice([*PRESETS, LTO, PACKAGE]), default="release")
@click.option("--target", "targets", multiple=True, help="What to build; default: the server and its clients.")
@click.option("--jobs", type=click.IntRange(min=1), help="Compilers at a time; default: one per core.")
@click.option("--configure-only", is_flag=True, help="Stop before building.")
@click.option("--pristine", is_flag=True,
              help="MySQL as released, with the same options, in build/pristine: to compare with.")  # fmt: skip
@_upstream_options
def build(
    preset: str,
    targets: tuple[str, ...],
    jobs: int | None,
    configure_only: bool,
    pristine: bool,
    version: str | None,
    checkout: Path | None,
) -> None:
    """Build a preset (build/PRESET). package is what is shipped; lto is release, optimised once more when it is linked."""
    layout = this_layout()
    wanted = () if configure_only else targets or builds.SERVER_TARGETS
    builds.build(layout, preset, wanted, version, checkout, jobs, pristine)
    say(f"{layout.preset(builds.tree_name(preset, pristine))} is up to date")


@cli.command()
@click.argument("folder", metavar="[DIR]", type=click.Path(path_type=Path), required=False)
@_upstream_options
def package(folder: Path | None, version: str | None, checkout: Path | None) -> None:
    """Make Debian packages of the preset package (default: build/packages)."""
    layout = this_layout()
    with exclusive(layout.build / "package.lock", "the packages of this clone"):
        made = packages.package(layout, (folder or layout.build / "packages").absolute(), version, checkout)
    packages.describe(made)


@cli.command()
@click.option("--datadir", type=click.Path(path_type=Path), help="Default: build/run.")
@click.option("--port", type=click.IntRange(1, 65535), help="Default: the first free one from 3306 on.")
@click.option("--preset", type=click.Choice(PRESETS), default="release", show_default=True)
@_upstream_options
@click.argument("mysqld_options", nargs=-1, type=click.UNPROCESSED)
def up(
    datadir: Path | None,
    port: int | None,
    preset: str,
    version: str | None,
    checkout: Path | None,
    mysqld_options: tuple[str, ...],
) -> None:
    """Build if needed, initialise, start the server and say how to connect.

    Options of mysqld follow after --.
    """
    layout = this_layout()
    with exclusive(layout.build / "run.lock", "the server of this clone"):
        running = server.read_state(layout)
        if running is not None:
            server.check_same(running, datadir, port, mysqld_options)
            say(f"already running (process {running.pid})")
            server.describe(layout, running)
            return
        built = builds.build(layout, preset, builds.SERVER_TARGETS, version, checkout)
        server.up(layout, preset, built, datadir or layout.run, port, mysqld_options)


@cli.command()
def down() -> None:
    """Stop the server that `up` started."""
    server.down(this_layout())


@cli.command(context_settings=_PASS_ON)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def sql(arguments: tuple[str, ...]) -> None:
    """Open the mysql client on the running server; arguments and stdin are passed on."""
    server.sql(this_layout(), arguments)


class _Levels(click.Group):
    """Levels one after the other; what follows -- is for the runner of one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.meta[_ARGUMENTS], args = tuple(args[at + 1 :]), args[:at]
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.commands and not args[0].startswith("-"):
            ctx.fail(f"no level {args[0]}; there are {', '.join(self.commands)}. Arguments of a level follow after --")
        return super().resolve_command(ctx, args)


def _preset_option(command: Callable[..., Any]) -> Callable[..., Any]:
    presets = click.Choice(PRESETS)
    return click.option("--preset", type=presets, show_default="release", help="Build to test; only for some levels.")(command)


@cli.group(cls=_Levels, chain=True, invoke_without_command=True, subcommand_metavar="[LEVEL]... [-- ARGUMENT...]")
@_preset_option
@_upstream_options
def test(**_: object) -> None:
    """Build what the tests need and run them: all levels, or those that are named.

    Options count for all levels, wherever they stand. Arguments after -- go to the level's runner: pytest, the
    GoogleTest programs, or MTR, where test names replace the list.
    """


@test.result_callback()
@click.pass_context
def _test(context: click.Context, levels: list[tuple[str, dict[str, Any]]], /, **given: Any) -> None:
    arguments = context.meta.get(_ARGUMENTS, ())
    names = list(dict.fromkeys(name for name, _ in levels)) or ["all"]
    options = _merged([given, *(of_level for _, of_level in levels)])
    if len(names) > 1 and (both := {"all", _NIGHTLY} & set(names)):
        raise click.UsageError(f"{both.pop()} goes with no other level")
    if names == [_NIGHTLY]:
        if any(given.values()):
            raise click.UsageError("nightly takes no --preset, --upstream or --source")
        wanted = nightly.chosen(nightly.parts(nightly.today()), (*options["parts"], *arguments))
        if options["show"]:
            nightly.describe(wanted)
        elif not nightly.run(this_layout(), wanted):
            sys.exit(1)
        return
    if arguments and (len(names) > 1 or names == ["all"]):
        raise click.UsageError("arguments need one level: ./redstart test mtr -- innodb.create_tablespace")
    if arguments and names[0] in testing.NO_ARGUMENTS:
        raise click.UsageError(f"{names[0]} takes no arguments")
    preset = options["preset"] or testing.RELEASE
    if preset != testing.RELEASE and (other := [name for name in names if name not in testing.ANY_PRESET]):
        raise click.UsageError(f"--preset {preset} is for the levels {', '.join(testing.ANY_PRESET)}, not {', '.join(other)}")
    if sanitizers.hides_reports(preset, names[0], arguments):
        raise click.UsageError(f"--sanitize goes without --preset {preset}: with MTR's options its reports are in no file")
    if names == ["all"]:
        names = [name for name in testing.LEVELS if name not in testing.NOT_IN_ALL]
    if not testing.run_levels(this_layout(), names, options["version"], options["checkout"], arguments, preset):
        sys.exit(1)


def _merged(given: list[dict[str, Any]]) -> dict[str, Any]:
    """Options of the call: of the group, and of each level."""
    found: dict[str, Any] = {}
    for key, value in (item for options in given for item in options.items()):
        if value is not None and found.get(key) not in (None, value):
            raise click.UsageError(f"options count for all levels, and one is given as {found[key]} and as {value}")
        found[key] = found.get(key) if value is None else value
    return found


def _add_level(name: str, does: str) -> None:
    """Make a level a command, so that it has help and is completed."""

    def command(**given: Any) -> tuple[str, dict[str, Any]]:
        return name, given

    function = _upstream_options(command)
    if name in testing.ANY_PRESET:
        function = _preset_option(function)
    what = "[OPTIONS]" if name in ("all", *testing.NO_ARGUMENTS) else "[OPTIONS] [-- ARGUMENT...]"
    test.command(name, help=does, short_help=does, options_metavar=what)(function)


for _name, _level in testing.LEVELS.items():
    _add_level(_name, inspect.getdoc(_level) or "")
_add_level("all", f"All but {', '.join(testing.NOT_IN_ALL)}: what CI runs.")


@test.command(_NIGHTLY, options_metavar="[--list]", short_help="What `all` has no time for.")
@click.option("--list", "show", is_flag=True, help="Show the parts and their commands.")
@click.argument("parts", metavar="[-- PART...]", nargs=-1)
def _nightly(**given: Any) -> tuple[str, dict[str, Any]]:
    """What `all` has no time for, each part by a command of its own; without names all parts."""
    return _NIGHTLY, given


@cli.command(name="format")
@click.argument("paths", metavar="[FILE]...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--check", is_flag=True, help="Change nothing; exit status 1 if a file would be changed.")
@_upstream_options
def format_command(paths: tuple[Path, ...], check: bool, version: str | None, checkout: Path | None) -> None:
    """Write our C++ as the .clang-format of MySQL wants it: all of it, or FILE (a file or a folder)."""
    layout = this_layout()
    names = formatting.chosen(layout.repo, paths)
    with upstreams.reading(layout, version, checkout) as upstream:
        changed = formatting.run(layout.repo, upstream.tree, names, check)
    for name in changed:
        say(f"not formatted: {name}" if check else f"formatted {name}")
    say(f"{len(changed)} of {len(names)} files {'would be' if check else 'were'} changed")
    if check and changed:
        sys.exit(1)


@cli.command()
@click.argument("folder", metavar="[DIR]", type=click.Path(path_type=Path), required=False)
@click.option("--base", "version", metavar="VERSION", help="The release to apply to; default: that of cmake/upstream.json.")
@click.option("--source", "checkout", type=_FOLDER, help="A MySQL source tree to apply to instead; it is only read.")
@click.option("--feature", "features", multiple=True, metavar="NAME", help="Write only this feature's patches.")
@click.option("--allow-dirty", is_flag=True, help="Take changes that are not committed as well.")
def patches(
    folder: Path | None, version: str | None, checkout: Path | None, features: tuple[str, ...], allow_dirty: bool
) -> None:
    """Write each feature as a series of patches for `git am` into DIR (build/patches)."""
    layout = this_layout()
    contributions.patches(layout, folder or layout.build / "patches", version, checkout, features, allow_dirty)


def _add_program(name: str, does: str) -> None:
    """Make the program of another package a command."""

    def command(arguments: tuple[str, ...]) -> None:
        program: click.Command = import_module(f"{name}.cli").main
        # The bench says itself what went wrong.
        program.main(args=list(arguments), prog_name=f"redstart {name}", standalone_mode=name == "bench")

    function = click.argument("arguments", nargs=-1, type=click.UNPROCESSED)(command)
    cli.command(name, context_settings=_PASS_ON, help=f"{does} (see ./redstart {name} --help).")(function)


_add_program("bench", "Measure")
_add_program("torture", "Crash a server under load and look for what it lost")
_add_program("fuzz", "Feed what reads files with any bytes")

for _command in cli.commands.values():
    # The first paragraph, which click would cut.
    _command.short_help = " ".join((_command.help or "").split("\n\n")[0].split())


def _terminate(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """Run a command; errors end in one message and exit code 1."""
    os.umask(0o022)
    signal.signal(signal.SIGTERM, _terminate)
    try:
        cli(prog_name="redstart", standalone_mode=False)
    except click.ClickException as problem:
        problem.show()
        sys.exit(problem.exit_code)
    except RedstartError as problem:
        error(str(problem))
        sys.exit(1)
    except (KeyboardInterrupt, click.Abort):
        error("interrupted; the same command goes on where it stopped")
        sys.exit(130)
