# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""python -m differential: run random states, by seed."""

import argparse
import json
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from differential.server import Binary, find_stock, with_keyring
from differential.states import make_base, run_state


def main() -> int:
    parser = argparse.ArgumentParser(prog="differential", description=__doc__)
    parser.add_argument("--build", type=Path, required=True, help="build directory with the server")
    parser.add_argument("--stock", type=Path, help="root directory with the stock server")
    parser.add_argument("--work", type=Path, required=True, help="directory for data; short path")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--states", type=int, default=20, help="how many")
    parser.add_argument("--seconds", type=float, default=0, help="begin no state after this time; 0 = no limit")
    parser.add_argument("--jobs", type=int, default=4, help="states at a time")
    parser.add_argument("--keep", action="store_true", help="keep the data of states with a difference")
    parser.add_argument("--json", type=Path, help="where to write one line a state")
    arguments = parser.parse_args()

    bin_dir = arguments.build.resolve() / "runtime_output_directory"
    common = [f"--lc-messages-dir={arguments.build.resolve()}/share", f"--basedir={arguments.build.resolve()}",
              f"--plugin-dir={arguments.build.resolve()}/plugin_output_directory"]
    subjects = {
        "on": Binary("on", [str(bin_dir / "mysqld")], [*common, "--innodb-tablespace-map=ON"]),
        "off": Binary("off", [str(bin_dir / "mysqld")], [*common, "--innodb-tablespace-map=OFF"]),
    }
    if arguments.stock:
        stock = find_stock(arguments.stock.resolve())
        if stock is None:
            parser.error(f"there is no stock server below {arguments.stock}")
        subjects["stock"] = stock

    work = arguments.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    keyed = {
        name: with_keyring(subjects[name], work / "keyed", arguments.build.resolve() / "plugin_output_directory")
        for name in ("on", "off")
    }
    with_keys = {name: binary for name, binary in keyed.items() if binary is not None}
    base = work / "base"
    make_base(subjects["off"], bin_dir / "mysql", base)

    begin = time.monotonic()
    counts = {"states": 0, "refused": 0, "in place": 0, "in part left to chance": 0, "run again": 0, "encrypted": 0,
              "with a mount": 0, "dictionary not read": 0, "differences": 0}

    def one(seed: int) -> dict[str, object] | None:
        if arguments.seconds and time.monotonic() - begin > arguments.seconds:
            return None
        directory = work / f"w{seed}"
        report = run_state(seed, directory, base, bin_dir / "mysql", subjects, with_keys)
        if not (arguments.keep and report["difference"]):
            shutil.rmtree(directory, ignore_errors=True)
        return report

    with ThreadPoolExecutor(arguments.jobs) as pool:
        seeds = range(arguments.seed, arguments.seed + arguments.states)
        for future in as_completed(pool.submit(one, seed) for seed in seeds):
            report = future.result()
            if report is None:
                continue
            counts["states"] += 1
            counts["refused"] += report.get("starts") is False
            counts["encrypted"] += bool(report["encrypted"])
            counts["with a mount"] += bool(report["mounted"])
            counts["in place"] += bool(report["in_place"])
            counts["in part left to chance"] += report.get("short_read", False)
            counts["run again"] += report.get("runs", 1) > 1
            counts["dictionary not read"] += "lazy" in report.get("reads", [])
            if report["difference"]:
                counts["differences"] += 1
                print(f"seed {report['seed']}:", *report["trace"], report["difference"], sep="\n", flush=True)
            if arguments.json:
                with arguments.json.open("a") as out:
                    out.write(json.dumps(report) + "\n")

    for directory in (base, work / "keyed"):
        shutil.rmtree(directory, ignore_errors=True)
    print(", ".join(f"{name}: {number}" for name, number in counts.items()),
          f"servers: {' '.join(subjects)}, seeds from {arguments.seed}, {time.monotonic() - begin:.0f} s", sep="; ")
    return 1 if counts["differences"] or not counts["states"] else 0


if __name__ == "__main__":
    sys.exit(main())
