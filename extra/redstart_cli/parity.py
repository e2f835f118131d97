# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""./redstart test stock: the packages against Debian's MySQL of the same release.

Compared are files, hardening and libraries of programs, options of programs, and what both servers say: plugins,
variables, and whether each plugin and component loads. Every difference must be stated, with its reason, in
packaging/differences.yaml, and every statement there must be true.

Both servers run without settings on their own paths, each in a root of its own that nobody else sees: an overlay over
Debian's root, or over this machine, in name spaces of mounts and of the network. Nothing is left of them.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from shutil import copytree, rmtree

import yaml

from redstart_cli.apt import PrivateApt, machine_mirrors
from redstart_cli.console import RedstartError, say
from redstart_cli.process import tied
from redstart_cli.result import Level

LIST = "packaging/differences.yaml"
# Debian's packages beside those of stock_root().
SERVICE_PACKAGES = ("mysql-server", "mysql-client")
CORE_PACKAGES = ("mysql-server-core", "mysql-client-core")
KINDS = ("file", "hardening", "library", "option", "plugin", "variable", "load")
_KEYS = {"kind", "name", "why"}
# Names of plugins, by their files. What is not here is no plugin: a component, or functions.
_PLUGINS = {
    "adt_null": "NULL_AUDIT",
    "auth_socket": "auth_socket",
    "authentication_webauthn": "authentication_webauthn",
    "connection_control": "CONNECTION_CONTROL",
    "ddl_rewriter": "ddl_rewriter",
    "group_replication": "group_replication",
    "keyring_udf": "keyring_udf",
    "libpluginmecab": "mecab",
    "mypluglib": "simple_parser",
    "mysql_clone": "clone",
    "mysql_no_login": "mysql_no_login",
    "semisync_replica": "rpl_semi_sync_replica",
    "semisync_source": "rpl_semi_sync_source",
    "thread_pool": "THREAD_POOL",
    "validate_password": "validate_password",
}
_RUN_TIMEOUT_SEC = 300
# Runs in the name spaces: WORK LOWER OVER, then a script for the root. What is in OVER is copied, since a layer
# must not lie in another.
_ENTER = """
set -e
work=$1 lower=$2 over=$3
mkdir -p "$work/rw" "$work/root" "$work/data" "$work/out"
mount -t tmpfs tmpfs "$work/rw"
mkdir "$work/rw/work"
cp -a "$over" "$work/rw/upper"
mount -t overlay overlay -o "lowerdir=$lower,upperdir=$work/rw/upper,workdir=$work/rw/work" "$work/root"
cd "$work/root"
mkdir -p mnt var/lib/mysql proc dev tmp
mount --bind "$work/out" mnt
mount --bind "$work/data" var/lib/mysql
mount --rbind /dev dev
mount -t proc proc proc
mount -t tmpfs tmpfs "$(readlink -f run)"
mkdir -p run/mysqld var/lib/mysql-files var/lib/mysql-keyring
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 TZ=UTC HOME=/nonexistent chroot . /bin/sh -c "$4"
"""
# Everything that the servers are asked. Results are files in /mnt.
_ASK = r"""
for program in /usr/bin/* /usr/sbin/mysqld; do
  name=${program##*/}
  case " %(programs)s " in *" $name "*) ;; *) continue ;; esac
  case $name in mysqld) more=--verbose ;; *) more= ;; esac
  timeout 20 "$program" --no-defaults $more --help >"/mnt/help.$name" 2>/dev/null </dev/null || true
done
mysqld --no-defaults --initialize-insecure --user=root >/mnt/mysqld.log 2>&1 || exit 1
mysqld --no-defaults --user=root >>/mnt/mysqld.log 2>&1 &
ask() { mysql --no-defaults --user=root --batch --skip-column-names "$@"; }
for turn in $(seq 600); do
  ! ask --execute 'SELECT 1' >/dev/null 2>&1 || break
  sleep 0.1
done
ask --execute 'SHOW GLOBAL VARIABLES' >/mnt/variables
ask --execute 'SHOW PLUGINS' >/mnt/plugins
# report NAME COMMAND...: what a command says, in one line.
report() {
  name=$1
  shift
  printf '%%s\t%%s\n' "$name" "$("$@" 2>&1 >/dev/null </dev/null && echo loads)" | tr '\n' ' ' >>/mnt/loads
  echo >>/mnt/loads
}
# client PLUGIN OPTION: the same of the client with a plugin, and whether it opened the plugin's file: if it cannot, it
# takes what the server offers and says nothing.
client() {
  said=$(LD_DEBUG=files LD_DEBUG_OUTPUT=/mnt/opened \
    mysql --no-defaults --user=root "$2" --execute 'SELECT 1' 2>&1 >/dev/null </dev/null)
  opened=$(cat /mnt/opened.* | grep -c "calling init: .*/$1.so$")
  printf '%%s\t%%s opened, %%s\n' "$1" "$opened" "$(echo $said)" >>/mnt/loads
  rm -f /mnt/opened.*
}
%(loads)s
report rewriter sh -c 'mysql --no-defaults --user=root </usr/share/mysql/install_rewriter.sql'
ask --execute 'SHOW GLOBAL VARIABLES' >/mnt/variables.loaded
ask --execute 'SHOW PLUGINS' >/mnt/plugins.loaded
mysqladmin --no-defaults --user=root shutdown >>/mnt/mysqld.log 2>&1
wait
"""


@dataclass(frozen=True)
class Difference:
    """A statement of packaging/differences.yaml: `name` may have * and ?."""

    kind: str
    name: str
    why: str

    def states(self, finding: Finding) -> bool:
        return self.kind == finding.kind and fnmatchcase(finding.name, self.name)


@dataclass(frozen=True)
class Finding:
    kind: str
    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}: {self.text}"


def read_differences(path: Path) -> list[Difference]:
    """RedstartError if an entry is not as it must be."""
    found = []
    for item in yaml.safe_load(path.read_text(encoding="utf-8")):
        texts = item.values() if isinstance(item, dict) and set(item) == _KEYS else [""]
        if not all(isinstance(text, str) and text for text in texts):
            raise RedstartError(f"{path}: an entry has the keys kind, name and why, not {item!r}")
        if item["kind"] not in KINDS:
            raise RedstartError(f"{path}: no kind {item['kind']}; there are {', '.join(KINDS)}")
        found.append(Difference(item["kind"], item["name"], item["why"]))
    return found


def compare(kind: str, ours: Mapping[str, str], stock: Mapping[str, str]) -> Iterator[Finding]:
    """Names that only one has, and values that differ."""
    for name in sorted({*ours, *stock}):
        if name not in stock:
            yield Finding(kind, name, f"only ours ({ours[name]})" if ours[name] else "only ours")
        elif name not in ours:
            yield Finding(kind, name, f"only stock's ({stock[name]})" if stock[name] else "only stock's")
        elif ours[name] != stock[name]:
            yield Finding(kind, name, f"ours {ours[name]}, stock's {stock[name]}")


def judge(findings: Iterable[Finding], differences: Sequence[Difference]) -> list[str]:
    """Differences that nobody states, and statements that are not true."""
    used: set[Difference] = set()
    wrong = []
    for finding in findings:
        stated = [item for item in differences if item.states(finding)]
        used.update(stated)
        if not stated:
            wrong.append(str(finding))
    return wrong + [f"{LIST} states a difference that is none: {item.kind} {item.name}" for item in differences if item not in used]


# Files


def files_below(root: Path, names: Iterable[str] | None = None) -> dict[str, str]:
    """Paths of files and links, with mode or target; all below `root`, or those of `names` (from /)."""
    if names is None:
        names = (f"/{path.relative_to(root)}" for path in root.rglob("*"))
    found = {}
    for name in names:
        path = root / name.lstrip("/")
        if path.is_symlink():
            found[name] = f"link to {path.readlink()}"
        elif path.is_file():
            found[name] = f"{path.stat().st_mode & 0o7777:o}"
    return found


def _names_of(root: Path, packages: Iterable[str]) -> list[str]:
    """Files of packages that are installed in a root."""
    names: list[str] = []
    for package in packages:
        names += (root / f"var/lib/dpkg/info/{package}.list").read_text(encoding="utf-8").split("\n")
    return [name for name in names if name and name != "/."]


# Programs and libraries


@dataclass(frozen=True)
class Elf:
    """What readelf says of a file."""

    hardening: dict[str, str]
    libraries: tuple[str, ...]
    is_program: bool
    build_id: str


_SYMBOL = re.compile(r"\bUND (\w+)(?:@|$|\s)", re.MULTILINE)
_NEEDED = re.compile(r"\(NEEDED\)\s+Shared library: \[(.+?)\.so[.\d]*(?:t64)?\]")


def parse_elf(text: str) -> Elf:
    """From `readelf -W -h -l -d -n --dyn-syms`."""
    symbols = set(_SYMBOL.findall(text))
    is_program = "INTERP" in text
    stack = re.search(r"GNU_STACK\s.*?\s(R\S*)\s", text)
    is_now = re.search(r"\(FLAGS(?:_1)?\)\s.*\b(?:BIND_)?NOW\b", text)
    hardening = {
        "position independent": "yes" if "Type:" in text and re.search(r"Type:\s+DYN", text) else "no",
        "relro": "full" if "GNU_RELRO" in text and is_now else "partial" if "GNU_RELRO" in text else "no",
        "stack protector": "yes" if "__stack_chk_fail" in symbols else "no",
        "fortify": "yes" if any(name.endswith("_chk") for name in symbols) else "no",
        "stack": "not executable" if stack is not None and "E" not in stack[1] else "executable",
        "run path": "yes" if re.search(r"\((?:RPATH|RUNPATH)\)", text) else "no",
    }
    # The loader and libc's own parts are wherever they are.
    needed = {name for name in _NEEDED.findall(text) if not name.startswith("ld-linux")}
    build_id = re.search(r"Build ID: ([0-9a-f]+)", text)
    return Elf(hardening, tuple(sorted(needed)), is_program, build_id[1] if build_id else "")


def read_elf(path: Path) -> Elf | None:
    """None if the file is none."""
    with path.open("rb") as file:
        if file.read(4) != b"\x7fELF":
            return None
    return parse_elf(_output(["readelf", "-W", "-h", "-l", "-d", "-n", "--dyn-syms", path]))


def _elves(root: Path, names: Iterable[str]) -> dict[str, Elf]:
    todo = [name for name in names if not (root / name.lstrip("/")).is_symlink()]
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda name: read_elf(root / name.lstrip("/")), todo)
        return {name: elf for name, elf in zip(todo, found, strict=True) if elf is not None}


# Protection that a file may not lack if stock's has it, and what every file must have.
_AS_STOCK = ("stack protector", "fortify")
_ALWAYS = {"position independent": "yes", "relro": "full", "stack": "not executable", "run path": "no"}


def check_hardening(ours: Mapping[str, Elf], stock: Mapping[str, Elf]) -> Iterator[Finding]:
    for name, elf in sorted(ours.items()):
        for key, wanted in _ALWAYS.items():
            if elf.hardening[key] != wanted:
                yield Finding("hardening", f"{name} {key}", f"{elf.hardening[key]}, not {wanted}")
        other = stock.get(name)
        for key in _AS_STOCK:
            if elf.hardening[key] == "no" and (other is None or other.hardening[key] == "yes"):
                yield Finding("hardening", f"{name} {key}", "no" if other is None else "no, stock's has it")


def compare_libraries(ours: Mapping[str, Elf], stock: Mapping[str, Elf]) -> Iterator[Finding]:
    """Of the files that both have."""
    both = ours.keys() & stock.keys()
    mine, theirs = ({f"{name} {library}": "" for name in both for library in elves[name].libraries} for elves in (ours, stock))
    return compare("library", mine, theirs)


# Places in a clone, wherever that is.
_TREES = re.compile(rb"/build/(?:source|upstream|release|package)\b")


def has_path(file: Path, clone: Path) -> bool:
    """Whether a path of `clone`, or of the trees that any clone has, stands in a file."""
    data = file.read_bytes()
    return f"{clone}/".encode() in data or _TREES.search(data) is not None


def check_paths(root: Path, names: Iterable[str], clone: Path) -> Iterator[Finding]:
    for name in sorted(names):
        file = root / name.lstrip("/")
        if not file.is_symlink() and has_path(file, clone):
            yield Finding("hardening", f"{name} paths", "has a path of the clone in it")


def check_symbols(elves: Mapping[str, Elf], symbols: Path, clone: Path, work: Path) -> Iterator[Finding]:
    """Of each program and library the packages of symbols have line numbers, and no path of the clone."""
    plain = work / "plain"
    for name, elf in sorted(elves.items()):
        file = symbols / f"usr/lib/debug/.build-id/{elf.build_id[:2]}/{elf.build_id[2:]}.debug"
        if not file.is_file():
            yield Finding("hardening", f"{name} lines", "has no symbols")
            continue
        if ".debug_line" not in _output(["readelf", "-W", "-S", file]):
            yield Finding("hardening", f"{name} lines", "has no line numbers")
        _output(["objcopy", "--decompress-debug-sections", file, plain])
        if has_path(plain, clone):
            yield Finding("hardening", f"{name} symbols' paths", "have a path of the clone in them")
    plain.unlink(missing_ok=True)


# Options and servers

_OPTION = re.compile(r"^ {2}(?:-\S, )?--([a-z0-9][a-z0-9_-]*)", re.MULTILINE)
_VALUE = re.compile(r"^([a-z0-9][a-z0-9-]*) {2,}(.*?) *$", re.MULTILINE)


def parse_help(program: str, text: str) -> dict[str, str]:
    """Options that a program names, with their values where it has a table of them."""
    found = {f"{program} --{name.replace('_', '-')}": "" for name in _OPTION.findall(text)}
    table = text.partition("Variables (--variable-name=value)")[2]
    found |= {f"{program} --{name}": value for name, value in _VALUE.findall(table)}
    return found


def _table(path: Path) -> dict[str, str]:
    """Lines of columns, the first of which is the name."""
    found = {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        name, _, rest = line.partition("\t")
        found[name] = rest.strip()
    return found


def load_statements(plugins: Iterable[str]) -> str:
    """Calls of `report` and `client` for all files of the folder of plugins."""
    lines = []
    for name in sorted(plugins):
        if name.startswith("component_"):
            lines.append(f"""report {name} ask --execute "INSTALL COMPONENT 'file://{name}'" """)
        elif name in _PLUGINS:
            lines.append(f"""report {name} ask --execute "INSTALL PLUGIN {_PLUGINS[name]} SONAME '{name}.so'" """)
        elif name == "telemetry_client":
            lines.append(f"client {name} --telemetry-client")
        elif name.endswith("_client") or name == "mysql_native_password":
            lines.append(f"client {name} --default-auth={name}")
        elif name == "locking_service":
            function = f"CREATE FUNCTION service_get_read_locks RETURNS INT SONAME '{name}.so'"
            lines.append(f'report {name} ask --execute "{function}"')
    return "\n".join(lines)


def ask(work: Path, lower: Path, over: Path, programs: Iterable[str], plugins: Iterable[str]) -> dict[str, dict[str, str]]:
    """Run programs and server of a root, with the files of another folder over it; returns facts by kind."""
    if work.exists():
        rmtree(work)
    work.mkdir(parents=True)
    script = _ASK % {"programs": " ".join(programs), "loads": load_statements(plugins)}
    command = ["unshare", "--mount", "--net", "--propagation", "private", "sh", "-c", _ENTER, "sh", work]
    done = subprocess.run(
        tied([*map(str, command), str(lower), str(over), script]),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=_RUN_TIMEOUT_SEC,
    )  # fmt: skip
    out = work / "out"
    if done.returncode != 0 or not (out / "plugins.loaded").is_file():
        log = out / "mysqld.log"
        text = log.read_text(encoding="utf-8", errors="replace")[-2000:] if log.is_file() else ""
        raise RedstartError(f"the server of {over} does not run ({done.returncode}): {done.stderr[-1000:]}{text}")
    options: dict[str, str] = {}
    for path in sorted(out.glob("help.*")):
        options |= parse_help(path.name.removeprefix("help."), path.read_text(encoding="utf-8", errors="replace"))
    facts = {"option": options, "load": _table(out / "loads")}
    for kind in ("plugin", "variable"):
        before, after = _table(out / f"{kind}s"), _table(out / f"{kind}s.loaded")
        facts[kind] = before | {name: value for name, value in after.items() if name not in before}
    return facts


# The whole


def _output(command: Sequence[str | Path]) -> str:
    done = subprocess.run(tied(command), stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    if done.returncode != 0:
        raise RedstartError(f"{command[0]} failed: {done.stderr[-500:]}")
    return done.stdout


def _unpack(packages: Iterable[Path], target: Path) -> None:
    if target.exists():
        rmtree(target)
    target.mkdir(parents=True)
    for package in packages:
        _output(["dpkg-deb", "--extract", package, target])
    # Where the files come to be in a root: /lib is a link there.
    if (target / "lib").is_dir():
        copytree(target / "lib", target / "usr/lib", symlinks=True, dirs_exist_ok=True)
        rmtree(target / "lib")


def fetch_service(root: Path, work: Path) -> Path:
    """Debian's packages that stock_root() has not, of the version that it has, unpacked."""
    version = ""
    for stanza in (root / "var/lib/dpkg/status").read_text(encoding="utf-8").split("\n\n"):
        if stanza.startswith(f"Package: {CORE_PACKAGES[0]}\n"):
            version = re.findall(r"^Version: (\S+)$", stanza, re.MULTILINE)[0]
    target = work / f"stock-{version}"
    if target.is_dir():
        return target
    problems = []
    for number, mirror in enumerate(machine_mirrors()):
        apt = PrivateApt(work / f"apt-{number}", mirror, "sid", False)
        try:
            apt.update()
            apt.run("download", *(f"{name}={version}" for name in SERVICE_PACKAGES))
        except RedstartError as problem:
            problems.append(str(problem))
            continue
        making = work / "stock.making"
        _unpack((apt.root / "download").glob("*.deb"), making)
        making.rename(target)
        rmtree(apt.root)
        return target
    raise RedstartError(f"{', '.join(SERVICE_PACKAGES)} {version} cannot be had: {'; '.join(problems)}")


def run(repo: Path, packages: Sequence[Path], root: Path, work: Path) -> Level:
    """Compare `packages` with Debian's in `root`."""
    work.mkdir(parents=True, exist_ok=True)
    level = Level("stock")
    service = fetch_service(root, work)
    ours, symbols = work / "ours", work / "symbols"
    _unpack([path for path in packages if "-dbgsym_" not in path.name], ours)
    _unpack([path for path in packages if "-dbgsym_" in path.name], symbols)
    core = _names_of(root, CORE_PACKAGES)
    our_files = files_below(ours)
    findings = list(compare("file", our_files, files_below(root, core) | files_below(service)))
    our_elves, stock_elves = _elves(ours, our_files), _elves(root, files_below(root, core))
    findings += check_hardening(our_elves, stock_elves)
    findings += check_paths(ours, our_files, repo)
    findings += check_symbols(our_elves, symbols, repo, work)
    findings += compare_libraries(our_elves, stock_elves)
    plugins = {Path(name).stem for name in {*our_files, *core} if name.startswith("/usr/lib/mysql/plugin/")}
    programs = sorted(Path(name).name for name, elf in our_elves.items() if elf.is_program)
    say("running both servers")
    mine = ask(work / "run-ours", Path("/"), ours, programs, plugins)
    theirs = ask(work / "run-stock", root, service, programs, plugins)
    for kind in mine:
        findings += compare(kind, mine[kind], theirs[kind])
    counts = {kind: len(facts) for kind, facts in mine.items()} | {"file": len(our_files), "program and library": len(our_elves)}
    say("compared: " + ", ".join(f"{count} x {kind}" for kind, count in counts.items()))
    differences = read_differences(repo / LIST)
    (work / "findings").write_text("".join(f"{finding}\n" for finding in findings), encoding="utf-8")
    for problem in judge(findings, differences):
        level.fail(problem)
    level.passed = len(counts)
    for name in ("run-ours", "run-stock"):
        rmtree(work / name)
    return level
