# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""./redstart torture: which kinds can run, how long, and what it came to."""

from __future__ import annotations

import json
import random
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import click
from click.core import ParameterSource

from bench import image
from bench.layout import default_layout
from redstart_cli import build as builds
from redstart_cli import keyring
from redstart_cli.console import HELP, RedstartError, duration, error, say, warn
from redstart_cli.disk import Need, check_space
from redstart_cli.layout import this_layout
from redstart_cli.locks import exclusive
from redstart_cli.mounts import own_namespace
from redstart_cli.roots import older_root, stock_root
from redstart_cli.tools import ToolError
from torture import canaries, fulltext, recovered, redo, release, stack, subjects, tamper
from torture.again import show_again
from torture.fault import FaultLife
from torture.kill import REPLICA_EACH, KillLife
from torture.life import ONCE, OTHER_PAGES_KIB, Counts, Crash, Rig, use_map, use_releases, use_rollback, use_scan, use_undo_scan
from torture.power import PowerLife
from torture.redo import RedoLife
from torture.settings import ALL_ON, SETTINGS
from torture.sites import SITES, SitesLife

KINDS = ("kill", "power", "fault", "sites", "redo")
# Without --kinds; those that are about this build need `--subject ours`.
USUAL_KINDS = ("kill", "power", "redo")
OWN_KINDS = ("sites", "redo")
_LIVES: dict[str, Callable[[Rig, int], KillLife | PowerLife | FaultLife | SitesLife | RedoLife]] = {
    "kill": KillLife,
    "power": PowerLife,
    "fault": FaultLife,
    "sites": SitesLife,
    "redo": RedoLife,
}
# Measured: 1.2 GB in two minutes with canaries; 2.3 GB in half an hour of kills, some with pages of 64 KiB.
WORK_BYTES = 3_000_000_000
# A life may take so long, even if the time is up.
LEAST_SEC = 20.0
# Disks whose file system cannot be mounted, of a hundred; more are a failure of the rig.
MAX_UNMOUNTABLE_PERCENT = 5
# Disks on which stock does not start either, of a hundred; more are no coincidence.
MAX_UNREPAIRED_PERCENT = 5
# After kills: seen once in 451.
MAX_WITHOUT_KEY_PERCENT = 1
# Servers that an interrupted change of release has blocked, and MySQL's on a copy as well, after kills and cuts: seen once in 117.
MAX_BLOCKED_PERCENT = 2
# Fewer disks say nothing about their share.
MANY_DISKS = 20
# With so many starts that have the map ON, one must have used it; with so many turns each server must have had one.
MANY_MAP_STARTS = 10
# In so many loads some must have made undo tablespaces, and most must have been allowed to.
MANY_LOADS = 30
# Index builds with innodb_ddl_preallocate, of which one must have made a file grow; rebuilds with
# innodb_ddl_doublewrite=OFF, of which one must have written pages once; crashes of a kind under load with that, of which one
# must have met such a one, and loads with a table that is rebuilt all the time.
MANY_BUILDS = 200
MANY_REBUILDS = 30
MANY_ONCE = 30
# In so many a table with a full-text index has had rows.
SOME_LOADS = 5
# Of so many starts after a kind of crash, the share that must have left something out in the recovery.
SCAN_SHARES = {"kill": (40, 0.02), "power": (60, 0.02)}
MANY_TURNS = 80
# After a kind of crash, with binlog_startup_scan=TRANSACTIONS; in one of ten or so the last binary log has a checkpoint.
MANY_SCAN_STARTS = 80
# Of so many crashes most must have left redo, and kills must have met recoveries.
MANY_IMAGES = 20
# The share of pages that need not be compared, by the reason, and how many more; beyond that something is left open.
LEFT_OUT = {
    recovered.OWN: (0.1, 100),
    recovered.UNLOGGED: (0.01, 100),
    recovered.ENCRYPTED: (0.01, 100),
    # A table or two of some hundred pages, in few of the crashes.
    recovered.REMOVED: (0.01, 500),
    recovered.REMOVED_FILE: (0.01, 500),
    # Seen: one in 400,000.
    recovered.LSN_ALONE: (1 / 50_000, 5),
}
# Of so many crashes of a kind under load one must have met an index build.
MANY_CRASHES = 60
# With so many commits there must have been an import.
MANY_COMMITS = 1500
# Of so many replicas at least one must have been compared, although MySQL lets each of them be excused.
MANY_UNCOMPARED = 4


def _kinds(context: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(value.split(",")))
    if context.get_parameter_source("kinds") == ParameterSource.DEFAULT and context.params["subject"] != "ours":
        names = tuple(name for name in names if name not in OWN_KINDS)
    unknown = [name for name in names if name not in KINDS]
    if unknown:
        raise click.BadParameter(f"{', '.join(unknown)}: there are {', '.join(KINDS)}")
    return names


@click.command(context_settings=HELP)
@click.option("--minutes", type=click.FloatRange(min=0.1), default=10, show_default=True, help="The canaries come on top.")
@click.option("--seed", type=click.IntRange(min=0), help="Default: from the clock.")
@click.option("--kinds", callback=_kinds, default=",".join(USUAL_KINDS), show_default=True,
              help=f"Kinds of crash: {', '.join(KINDS)}.")  # fmt: skip
@click.option(
    "--subject", type=click.Choice(subjects.SUBJECTS), default="ours", show_default=True, is_eager=True,
    help="ours: this build, with off and stock in turns; off: with all variables at MySQL's values; stock: Debian's; "
         "older: that of an older patch release.",
)  # fmt: skip
@click.option("--older", "wants_older", is_flag=True,
              help="With --subject ours: the server of an older patch release takes turns, too.")  # fmt: skip
@click.option("--canaries/--no-canaries", "wants_canaries", default=True, show_default=True,
              help="Servers that lose data; not to notice one is a failure.")  # fmt: skip
@click.option("--all-on", is_flag=True,
              help="Have everything of this build on in each life, not by chance; not for --kinds redo.")  # fmt: skip
@click.option("--all-indexes", is_flag=True,
              help="Build spatial and full-text indexes, too, which MySQL itself gets wrong after a kill.")  # fmt: skip
@click.option("--all-cuts", is_flag=True,
              help="Leave half of a page whose copy is not flushed, too, which MySQL does not survive with O_DIRECT.")  # fmt: skip
@click.option("--allow-missing", is_flag=True, help="Run without a stock server or without innochecksum.")
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Where to write the counts.")
@click.option("--again", type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="Show a kept failure once more, and nothing else.")  # fmt: skip
@click.option("--mysqld", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="A server of a build tree; default: the release build, brought up to date.")  # fmt: skip
@click.option("--work", type=click.Path(file_okay=False, path_type=Path), help="Default: build/torture.")
def main(
    minutes: float,
    seed: int | None,
    kinds: tuple[str, ...],
    subject: str,
    wants_older: bool,
    wants_canaries: bool,
    all_on: bool,
    all_indexes: bool,
    all_cuts: bool,
    allow_missing: bool,
    json_file: Path | None,
    again: Path | None,
    mysqld: Path | None,
    work: Path | None,
) -> None:
    """Crash a server under load, again and again, and look for what it lost."""
    layout = this_layout()
    work = (work or layout.build / "torture").absolute()
    if wants_older and subject != "ours":
        raise RedstartError("--older needs --subject ours; --subject older tests that server by itself")
    if mysqld is None and subject not in subjects.FOREIGN:
        builds.build(layout, "release", (*builds.SERVER_TARGETS, "innochecksum", keyring.COMPONENT))
        mysqld = layout.binary("release", "mysqld")
    with exclusive(layout.build / "torture.lock", "the torture test of this clone"):
        rig, lacks = _make_rig(mysqld, subject, work, wants_older)
        rig.all_indexes, rig.all_cuts = all_indexes, all_cuts
        rig.extra = list(ALL_ON) if all_on else []
        if again is not None:
            if not show_again(rig, again.absolute()):
                sys.exit(1)
            return
        check_space([Need(work, WORK_BYTES, "disks and data directories")])
        if subject != "ours" and (own := [kind for kind in kinds if kind in OWN_KINDS]):
            raise RedstartError(f"{', '.join(own)} is about this build: --kinds {own[0]} needs --subject ours")
        able = _able(kinds)
        if not able:
            sys.exit(1)
        seed = time.time_ns() % (1 << 32) if seed is None else seed
        begin = time.monotonic()
        try:
            found = _run(rig, seed, able, minutes, wants_canaries)
        except ToolError as problem:
            raise RedstartError(f"seed {seed}: {problem}") from problem
        report = _report(rig.counts, seed, found) | {"all_on": all_on}
        if json_file is not None:
            json_file.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        say(f"{_summary(rig.counts)}; subject {subject}{', all on' * all_on}, seed {seed}, {duration(time.monotonic() - begin)}")
        say(_details(rig.counts))
        problems = judge(rig, able, found, wants_canaries)
        if subject == "ours" and not allow_missing:
            problems += [f"{lack}; --allow-missing runs without" for lack in lacks]
        problems += [f"{kind} could not run: see above" for kind in kinds if kind not in able]
        for text in problems:
            error(text)
        if problems:
            sys.exit(1)


def _make_rig(mysqld: Path | None, subject: str, work: Path, wants_older: bool = False) -> tuple[Rig, list[str]]:
    """Servers and an empty work directory, and what is missing. What was found before stays.

    Without a build only Debian's are there.
    """
    lacks = []
    binaries = subjects.own_binaries(mysqld.resolve()) if mysqld is not None else {}
    bench = default_layout()
    bench.make()
    makers = {"stock": stock_root, "older": older_root}
    for name in subjects.FOREIGN if wants_older or subject == "older" else ("stock",):
        try:
            binaries |= subjects.foreign_binary(name, makers[name](bench.roots, bench.logs))
        except ToolError as reason:
            if subject == name:
                raise RedstartError(f"no {name} server: {reason}") from reason
            lacks.append(f"the {name} server takes no turns: {reason}")
    work.mkdir(parents=True, exist_ok=True)
    image.sweep(work)
    for path in work.iterdir():
        if path.name == "found":
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    keyed = {name: keyring.with_keyring(binary, work / "servers" / name) for name, binary in binaries.items()}
    without = [name for name, binary in keyed.items() if binary is None]
    if without:
        lacks.append(f"no encrypted tables: {', '.join(without)} has no {keyring.COMPONENT}")
    innochecksum = next(filter(None, (subjects.beside(binary, "innochecksum") for binary in binaries.values())), [])
    if not innochecksum:
        lacks.append("there is no innochecksum, so that pages are not checked after a stop")
    for lack in lacks:
        warn(lack)
    servers = {name: keyed[name] or binary for name, binary in binaries.items()} if not without else binaries
    # Without the older one all are of one release.
    releases = release.releases_of(servers) if "older" in servers else {}
    return Rig(servers, subject, work, innochecksum, not without, releases=releases), lacks


def _able(kinds: tuple[str, ...]) -> list[str]:
    """The kinds that can run here; what is missing for the others is said."""
    able = [kind for kind in kinds if kind != "power"]
    if "power" in kinds:
        lacks = stack.missing()
        if not lacks:
            try:
                own_namespace()
            except ToolError as problem:
                lacks.append(str(problem))
        if lacks:
            possible = ", ".join(able) or "none"
            error(f"power cuts cannot run here; missing: {'; '.join(lacks)}. Still possible: {possible}")
        else:
            able.append("power")
    return able


def _run(rig: Rig, seed: int, kinds: list[str], minutes: float, wants_canaries: bool) -> dict[str, bool]:
    """Canaries, then lives of each kind in turns until the time is up; at least one of each kind."""
    found: dict[str, bool] = {}
    everything = "; everything on" if rig.extra else ""
    say(f"torture: {', '.join(kinds)}; subject {rig.subject}{everything}; seed {seed}; data in {rig.work}")
    rig.other_page_kib = random.Random(seed).choice(OTHER_PAGES_KIB)
    rig.first_replica = seed % REPLICA_EACH
    if wants_canaries:
        found |= tamper.OracleLife(rig, seed).run()
        for number, canary in enumerate(canaries.of_run(rig, kinds)):
            rig.tidy()
            found[canary.name] = canaries.is_found(canary, rig, seed + number)
        for name in redo.CANARIES if "redo" in kinds else ():
            rig.tidy()
            found[name] = redo.is_found(name, rig, seed)
    end = time.monotonic() + 60 * minutes
    seeds = random.Random(seed)
    spent = dict.fromkeys(kinds, 0.0)
    while kinds:
        # The kind that has had the least time; each has a life before any has a second one.
        kind = min(kinds, key=lambda name: spent[name])
        if time.monotonic() > end and spent[kind] > 0:
            break
        rig.tidy()
        life_seed = seeds.randrange(1 << 32)
        life_begin = time.monotonic()
        # What is left is shared by those that have not had a turn.
        share = (end - life_begin) / max(1, sum(not had for had in spent.values()))
        _LIVES[kind](rig, life_seed).run(life_begin + max(LEAST_SEC, share))
        spent[kind] += time.monotonic() - life_begin
        say(f"  {kind} {life_seed}: {_summary(rig.counts)}")
    if rig.counts.starts_with("map").total() >= MANY_MAP_STARTS and not rig.counts.used_by("map").total():
        # Chance may have left no map that could be used.
        use_map(rig)
    if _is_unused(rig.counts, "scan"):
        use_scan(rig)
    if _is_unused(rig.counts, "rollback"):
        use_rollback(rig)
    if _crashes(rig.counts.starts_with("undo_scan")) and not _crashes(rig.counts.kills_in_undo_scan):
        use_undo_scan(rig)
    if _changes_release(rig, kinds) and not _crashes_of(rig.counts.pending):
        use_releases(rig)
    return found


def _changes_release(rig: Rig, kinds: list[str]) -> bool:
    """Whether servers of several releases take turns on data directories."""
    names, _ = subjects.turns(rig.subject, rig.binaries)
    return bool({"kill", "power"} & set(kinds)) and len({rig.release(rig.binaries[name]) for name in names}) > 1


def _crashes_of(numbers: Counter[Crash]) -> int:
    """The sum over the kinds of crash, without what was arranged."""
    return sum(number for crash, number in numbers.items() if crash.kind in KINDS)


def _crashes(numbers: Counter[str]) -> int:
    """The sum over the kinds of crash, without what was arranged or followed a stop."""
    return sum(number for kind, number in numbers.items() if kind in KINDS)


def _is_unused(counts: Counts, name: str) -> bool:
    """Whether a setting was on after crashes and none of these starts has used it."""
    return bool(_crashes(counts.starts_with(name))) and not _crashes(counts.used_by(name))


def _summary(counts: Counts) -> str:
    return (
        f"{counts.cycles} cycles, {counts.kills} kills, {counts.power_cuts} power cuts, {counts.faults} faults,"
        f" {counts.acknowledged} commits acknowledged, {counts.checked} checked,"
        f" {counts.lost} lost, {counts.wrong} wrong"
    )


def _details(counts: Counts) -> str:
    turns = ", ".join(f"{name} {number}" for name, number in sorted(counts.turns.items()))
    return (
        f"asked: {turns}; {_recovered(counts)}; {counts.imported} imports;"
        f" {counts.preallocated} of {counts.built} index builds and rebuilds with innodb_ddl_preallocate,"
        f" files grew by {counts.grown} pages; {counts.rebuilt_once} rebuilds with innodb_ddl_doublewrite=OFF,"
        f" {counts.rebuilt_again} more of one table in {counts.rebuilding} loads, {counts.written_once} pages written once;"
        f" {counts.replicas} replicas compared after {counts.replicated} transactions, {counts.uncompared} not compared;"
        f" {_settings(counts)};"
        f" both passes of binlog_startup_scan from a checkpoint in"
        f" {_by_kind(counts.scan_checkpoints, counts.starts_with('scan'))}; {counts.handed_over} transactions handed over;"
        f" {_crashes(counts.kills_in_undo_scan)} kills before the undo logs were read,"
        f" {counts.kills_in_undo_scan['undo scan']} arranged;"
        f" undo tablespaces: {counts.undo['undo-create']} made, {counts.undo['undo-drop']} dropped, {counts.undo_left} left behind,"
        f" none made in {counts.undo_barred} of {counts.loads} loads;"
        f" {_text(counts)}; definitions under way at crashes: {_under_way(counts)};"
        f" {_redo(counts)};"
        f" {counts.anew} servers started anew before load;"
        f" {counts.unrepaired} disks on which stock does not start either, {counts.without_key} directories without the key of an"
        " undo tablespace;"
        f" page sizes: {', '.join(f'{size} KiB {lives}' for size, lives in sorted(counts.page_kib.items()))};"
        f" innochecksum: {counts.files_checked} files, {counts.pages_checked} pages"
    )


def _recovered(counts: Counts) -> str:
    """Who has recovered what a crash of whom has left; in how many starts after one of the older server each setting was used."""
    found = sorted(counts.recovered.items())
    said = ", ".join(f"{crash.server} > {name} {number} ({crash.kind})" for (crash, name), number in found)
    after = ", ".join(
        f"{setting.name} {counts.used_after[setting.name, 'older']} of {starts}"
        for setting in SETTINGS if (starts := counts.starts_after[setting.name, "older"])
    )  # fmt: skip
    pending, blocked = (
        ", ".join(f"{crash.server} {number} ({crash.kind})" for crash, number in sorted(numbers.items()))
        for numbers in (counts.pending, counts.blocked)
    )
    changes = counts.changes_sec
    return (
        f"crashed > recovered: {said or 'none'}" + (f"; used after older: {after}" if after else "")
        + (f"; changes of release: {len(changes)}, the longest took {duration(max(changes))}" if changes else "")
        + (f"; refused after an interrupted change of release: {pending}" if pending else "")
        + (f"; blocked by one: {blocked}" if blocked else "")
    )


def _settings(counts: Counts) -> str:
    """In how many starts each setting was used."""
    said = []
    for setting in SETTINGS:
        starts, used = counts.starts_with(setting.name), counts.used_by(setting.name)
        shares = _by_kind(used, starts) if setting.is_of_recovery else f"{used.total()} of {starts.total()} starts"
        said.append(f"{setting.variable} used in {shares}")
    return "; ".join(said)


def _text(counts: Counts) -> str:
    asked, steps = counts.text, ", ".join(f"{kind} {number}" for kind, number in sorted(counts.text_steps.items())) or "none"
    return (
        f"full-text indexes: {asked[fulltext.WORDS]} words looked up in {asked[fulltext.INDEXES]},"
        f" {asked[fulltext.STORED]} rows in their files and {asked[fulltext.CACHED]} in the cache; definitions: {steps}"
    )


def _under_way(counts: Counts) -> str:
    """By the kind of crash."""
    found = sorted(counts.under_way.items())
    said = [
        f"{kind}, {crashes} under load: " + (", ".join(f"{name} {number}" for (of, name), number in found if of == kind) or "none")
        for kind, crashes in sorted(counts.under_load.items())
    ]
    return "; ".join(said) or "none"


def _redo(counts: Counts) -> str:
    recoveries = ", ".join(f"{name} {number}" for name, number in sorted(counts.recoveries.items())) or "none"
    stuck = ", ".join(f"{name} {number}" for name, number in sorted(counts.stuck.items())) or "none"
    left_out = ", ".join(f"{number} {reason}" for reason, number in sorted(counts.pages_left_out.items())) or "none"
    return (
        f"redo: {counts.images} crashes ({counts.without_redo} with little redo, {len(counts.refusals)} that stock does not"
        f" recover), recoveries compared: {recoveries}; rows of {counts.tables_compared} tables after {counts.rows_compared} of"
        f" them; {counts.batches} batches, {counts.kills_in_recovery} kills while redo was applied,"
        f" {counts.kills_with_pages_left} with pages left before opening, {counts.kills_after_opening} after it,"
        f" {counts.checkpoints_moved} of them behind another checkpoint, which had passed {counts.pages_passed} pages, and"
        f" {counts.passed_left_out} of tables that redo removes; {counts.removals_unknown} crashes whose removals are not known;"
        f" {counts.pages_recovered} pages recovered, {counts.pages_compared} compared, left out: {left_out};"
        f" {counts.exercised}; shutdowns without an end: {stuck}{_rows_only(counts.rows_only)}"
    )


def _rows_only(numbers: Counter[str]) -> str:
    """Of crashes of another release, if there were any."""
    if not numbers[redo.CRASHES]:
        return ""
    return (
        f"; of another release: {numbers[redo.CRASHES]} crashes ({numbers[redo.REFUSED]} that stock does not recover),"
        f" rows of {numbers[redo.TABLES]} tables compared after {numbers[redo.COMPARED]} recoveries"
    )


def _by_kind(some: Counter[str], every: Counter[str]) -> str:
    return ", ".join(f"{some[kind]} of {number} starts ({kind})" for kind, number in sorted(every.items()) if kind) or "no start"


def _report_settings(counts: Counts) -> dict[str, object]:
    """NAME_starts and NAME_used of each setting, by the kind of crash where it matters in recoveries."""
    report: dict[str, object] = {}
    for setting in SETTINGS:
        starts, used = counts.starts_with(setting.name), counts.used_by(setting.name)
        if setting.is_of_recovery:
            report[f"{setting.name}_starts"] = {kind: number for kind, number in starts.items() if kind}
            report[f"{setting.name}_used"] = {kind: number for kind, number in used.items() if kind and number}
        else:
            report[f"{setting.name}_starts"] = starts.total()
            report[f"{setting.name}_used"] = used.total()
    return report


def _report(counts: Counts, seed: int, found: dict[str, bool]) -> dict[str, object]:
    """What --json writes."""
    return {
        "cycles": counts.cycles,
        "kills": counts.kills,
        "power_cuts": counts.power_cuts,
        "faults": counts.faults,
        "acknowledged": counts.acknowledged,
        "checked": counts.checked,
        "lost": counts.lost,
        "wrong": counts.wrong,
        "canaries": found,
        "seed": seed,
        "refused": counts.refused,
        "imported": counts.imported,
        "built": counts.built,
        "preallocated": counts.preallocated,
        "grown": counts.grown,
        "rebuilt_once": counts.rebuilt_once,
        "rebuilding": counts.rebuilding,
        "rebuilt_again": counts.rebuilt_again,
        "written_once": counts.written_once,
        "replicas": counts.replicas,
        "replicated": counts.replicated,
        "uncompared": counts.uncompared,
        "unmountable": counts.unmountable,
        "unrepaired": counts.unrepaired,
        "without_key": counts.without_key,
        "kept_whole": counts.kept_whole,
        "anew": counts.anew,
        "known": counts.known,
        "page_kib": {str(size): lives for size, lives in sorted(counts.page_kib.items())},
        "turns": dict(counts.turns),
        "recovered": [
            {"kind": crash.kind, "crashed": crash.server, "recovered": name, "times": number}
            for (crash, name), number in sorted(counts.recovered.items())
        ],
        "pending": [
            {"kind": crash.kind, "refused": crash.server, "times": number} for crash, number in sorted(counts.pending.items())
        ],
        "blocked": [
            {"kind": crash.kind, "blocked": crash.server, "times": number} for crash, number in sorted(counts.blocked.items())
        ],
        "changes": {"starts": len(counts.changes_sec), "longest_s": round(max(counts.changes_sec, default=0.0), 1)},
        "after": {
            server: {
                setting.name: {"starts": starts, "used": counts.used_after[setting.name, server]}
                for setting in SETTINGS if (starts := counts.starts_after[setting.name, server])
            }
            for server in sorted({server for _, server in counts.starts_after})
        },
        "checked_in": dict(counts.checked_in),
        "fired": {name: number for name, number in sorted(counts.fired.items()) if number},
        "sites": dict(counts.sites),
        "files_checked": counts.files_checked,
        "pages_checked": counts.pages_checked,
        **_report_settings(counts),
        "scan_checkpoints": {kind: number for kind, number in counts.scan_checkpoints.items() if kind and number},
        "took_for_older": counts.took_for_older,
        "loads": counts.loads,
        "text": dict(counts.text),
        "text_steps": dict(counts.text_steps),
        "under_load": dict(counts.under_load),
        "under_load_once": dict(counts.under_load_once),
        "under_way": [
            {"kind": kind, "definition": name, "times": number} for (kind, name), number in sorted(counts.under_way.items())
        ],
        "undo": dict(counts.undo),
        "undo_barred": counts.undo_barred,
        "undo_left": counts.undo_left,
        "handed_over": counts.handed_over,
        "kills_in_undo_scan": dict(counts.kills_in_undo_scan),
        "images": counts.images,
        "without_redo": counts.without_redo,
        "unrecovered": len(counts.refusals),
        "refusals": counts.refusals,
        "recoveries": dict(counts.recoveries),
        "exercised": counts.exercised.report(),
        "rows_compared": counts.rows_compared,
        "tables_compared": counts.tables_compared,
        "rows_only": {name: counts.rows_only[name] for name in (redo.CRASHES, redo.REFUSED, redo.COMPARED, redo.TABLES)},
        "batches": counts.batches,
        "stuck": dict(counts.stuck),
        "kills_in_recovery": counts.kills_in_recovery,
        "kills_with_pages_left": counts.kills_with_pages_left,
        "kills_after_opening": counts.kills_after_opening,
        "checkpoints_moved": counts.checkpoints_moved,
        "pages_passed": counts.pages_passed,
        "passed_left_out": counts.passed_left_out,
        "removals_unknown": counts.removals_unknown,
        "pages_recovered": counts.pages_recovered,
        "pages_compared": counts.pages_compared,
        "pages_left_out": dict(counts.pages_left_out),
        "found": counts.found,
    }


def _judge_redo(rig: Rig) -> list[str]:
    """What the recoveries that were compared have left open."""
    counts = rig.counts
    problems = counts.exercised.problems()
    if not counts.recoveries["ours"] or not counts.pages_compared or not counts.pages_recovered:
        problems.append(f"no recovery was compared after {counts.images} crashes")
    for reason, (share, n_more) in LEFT_OUT.items():
        left_out = counts.pages_left_out[reason]
        if left_out > share * (counts.pages_compared + left_out) + n_more:
            problems.append(f"{left_out} pages were not compared ({reason}), and {counts.pages_compared} were")
    if counts.images >= MANY_IMAGES:
        if not counts.rows_compared or not counts.tables_compared:
            problems.append("no rows were compared")
        if not counts.kills_after_opening:
            problems.append("no kill of an open server with pages left")
        if not counts.pages_passed:
            problems.append("no kill behind a checkpoint that had passed pages")
        if 2 * (useless := counts.without_redo + len(counts.refusals)) > counts.images:
            problems.append(f"{useless} of {counts.images} crashes had nothing to recover")
        if 4 * counts.kills_in_recovery < counts.recoveries.total():
            problems.append(f"{counts.kills_in_recovery} kills while redo was applied, in {counts.recoveries.total()} recoveries")
    crashes, compared, tables = (counts.rows_only[name] for name in (redo.CRASHES, redo.COMPARED, redo.TABLES))
    if crashes >= MANY_IMAGES and (2 * compared < crashes or not tables):
        problems.append(f"after {crashes} crashes of another release {compared} recoveries were compared, and {tables} tables")
    return problems


def judge(rig: Rig, kinds: list[str], found: dict[str, bool], wants_canaries: bool) -> list[str]:
    """Why a run has failed; empty if it has not."""
    counts = rig.counts
    problems = []
    if counts.lost or counts.wrong:
        problems.append(f"{counts.lost} lost, {counts.wrong} wrong: {', '.join(counts.found)}")
    problems += [f"the canary was not found: {name}" for name, is_found in found.items() if not is_found]
    if wants_canaries and (missing := set(canaries.names(rig, kinds)) - found.keys()):
        problems.append(f"canaries that have not run: {', '.join(sorted(missing))}")
    if "kill" in kinds and not counts.kills:
        problems.append("nothing was killed")
    if (counts.kill_lives >= REPLICA_EACH and not counts.replicas + counts.wrong
            and not 0 < counts.uncompared < MANY_UNCOMPARED):  # fmt: skip
        problems.append(f"no replica was compared in {counts.kill_lives} lives of kills; {counts.uncompared} could not be")
    if "power" in kinds and not counts.power_cuts:
        problems.append("there was no power cut")
    if {"fault", "sites"} & set(kinds) and not counts.faults:
        problems.append("no fault has happened")
    if "sites" in kinds and (silent := [site.name for site in SITES if not counts.sites[site.name]]):
        problems.append(f"no fault has happened at: {'; '.join(silent)}")
    if not kinds or not counts.acknowledged:
        problems.append("no commit was acknowledged")
    problems += [f"{kind}: no commit was checked" for kind in kinds if kind != "redo" and not counts.checked_in[kind]]
    if "redo" in kinds:
        problems += _judge_redo(rig)
    for setting in SETTINGS:
        starts = _crashes(counts.starts_with(setting.name))
        if setting.many and starts >= setting.many and not _crashes(counts.used_by(setting.name)):
            problems.append(f"none of {starts} starts with {setting.variable} has {setting.done}")
    scan_starts, scan_used = counts.starts_with("scan"), counts.used_by("scan")
    for kind in ("kill", "power"):
        if (starts := scan_starts[kind]) >= MANY_SCAN_STARTS and not counts.scan_checkpoints[kind]:
            problems.append(f"none of {starts} starts with binlog_startup_scan=TRANSACTIONS after a {kind} crash has begun both"
                            " passes at a checkpoint")  # fmt: skip
    if counts.took_for_older:
        problems.append(f"{counts.took_for_older} starts took InnoDB's files for older than the binary log")
    disks = counts.power_cuts + counts.unmountable
    if disks >= MANY_DISKS and 100 * counts.unmountable > MAX_UNMOUNTABLE_PERCENT * disks + 100:
        problems.append(f"{counts.unmountable} of {disks} disks could not be mounted")
    if disks >= MANY_DISKS and 100 * counts.unrepaired > MAX_UNREPAIRED_PERCENT * disks + 100:
        problems.append(f"on {counts.unrepaired} of {disks} disks stock did not start either")
    if 100 * counts.without_key > MAX_WITHOUT_KEY_PERCENT * counts.kills + 100:
        problems.append(f"after {counts.without_key} of {counts.kills} kills a server lacked the key of an undo tablespace")
    if rig.innochecksum and set(kinds) - {"redo"} and not counts.pages_checked:
        problems.append("no page was checked")
    starts = counts.starts_with("map").total()
    if starts >= MANY_MAP_STARTS and not counts.used_by("map").total():
        problems.append(f"none of {starts} starts with the tablespace map has used it")
    # Those of use_scan() and use_rollback() count for their kinds alone: they show that it works, not that a crash met it.
    if _is_unused(counts, "scan") and not scan_used["scan"]:
        problems.append(f"none of {_crashes(scan_starts)} starts with binlog_startup_scan has left anything out")
    if _is_unused(counts, "rollback") and not counts.used_by("rollback")["rollback"]:
        starts = _crashes(counts.starts_with("rollback"))
        problems.append(f"none of {starts} starts with innodb_recovery_rollback_async has handed a transaction over")
    if _crashes(counts.starts_with("undo_scan")) and not counts.kills_in_undo_scan.total():
        problems.append("no kill has met a server that reads undo logs in the background")
    for kind, (many, share) in SCAN_SHARES.items():
        starts, used = scan_starts[kind], scan_used[kind]
        if starts >= many and used < share * starts:
            problems.append(f"{used} of {starts} starts after a {kind} crash have left anything out")
    problems += counts.writeback_errors[:3]
    if counts.preallocated >= MANY_BUILDS and not counts.grown:
        problems.append(f"no file grew without zeros in {counts.preallocated} builds with innodb_ddl_preallocate")
    if (rebuilds := counts.rebuilt_once + counts.rebuilt_again) >= MANY_REBUILDS and not counts.written_once:
        problems.append(f"no page was written once in {rebuilds} rebuilds with innodb_ddl_doublewrite=OFF")
    if counts.rebuilding >= MANY_ONCE and not counts.rebuilt_again:
        problems.append(f"one table was to be rebuilt all the time in {counts.rebuilding} loads, and never was")
    for kind in ("kill", "power"):
        if (crashes := counts.under_load_once[kind]) >= MANY_ONCE and not counts.under_way[kind, ONCE]:
            problems.append(f"none of {crashes} crashes of kind {kind} under load has met a rebuild that writes once")
    if counts.loads >= MANY_LOADS and not counts.undo["undo-create"]:
        problems.append(f"no undo tablespace was made in {counts.loads} loads")
    if counts.loads >= MANY_LOADS and 2 * counts.undo_barred > counts.loads:
        problems.append(f"{counts.undo_barred} of {counts.loads} loads could make no undo tablespace")
    if set(kinds) - {"redo"} and counts.loads >= SOME_LOADS and not counts.text[fulltext.WORDS]:
        problems.append(f"no word was looked up in a full-text index in {counts.loads} loads")
    if set(kinds) - {"redo"} and counts.loads >= MANY_LOADS:
        numbers = {"in their files": counts.text[fulltext.STORED], "in their cache": counts.text[fulltext.CACHED],
                   "optimized": counts.text_steps["optimize"]}  # fmt: skip
        nothing = [what for what, number in numbers.items() if not number]
        problems += [f"full-text indexes: nothing was {what} in {counts.loads} loads" for what in nothing]
    for kind, crashes in sorted(counts.under_load.items()):
        if crashes >= MANY_CRASHES and not counts.builds_under_way(kind):
            problems.append(f"none of {crashes} crashes of kind {kind} under load has met an index build")
    if counts.importing >= MANY_COMMITS and not counts.imported:
        problems.append(f"no tablespace was imported in {counts.importing} commits")
    names, _ = subjects.turns(rig.subject, rig.binaries)
    if counts.turns.total() >= MANY_TURNS and (idle := [name for name in names if not counts.turns[name]]):
        problems.append(f"{', '.join(idle)} had none of {counts.turns.total()} turns")
    # In other kinds of crash one server has them all.
    taken = Counter({key: number for key, number in counts.recovered.items() if key[0].kind in ("kill", "power")})
    met = {crash.server for crash, name in taken if name == "ours"}
    if "ours" in names and taken.total() >= MANY_TURNS and (unmet := set(names) & set(subjects.FOREIGN) - met):
        problems.append(f"this build has recovered no crash of {', '.join(sorted(unmet))} in {taken.total()} recoveries")
    crashes, blocked = counts.kills + counts.power_cuts, counts.blocked.total()
    if 100 * blocked > MAX_BLOCKED_PERCENT * crashes + 100:
        problems.append(f"after {crashes} kills and cuts {blocked} servers were blocked by an interrupted change of release")
    if _changes_release(rig, kinds) and not counts.pending:
        problems.append("no server was refused after an interrupted change of release, nor was that arranged")
    return problems
