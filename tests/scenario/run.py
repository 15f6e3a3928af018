#!/usr/bin/env python3
"""Runs scenarios (*.scn) against Geminga or the oracle. See README.md for the language.

  run.py [--target geminga|oracle] [--jobs N] [file or part of a name...]

One broker serves all scenarios; a scenario that restarts, kills or configures its broker gets one of its own. Each
scenario runs in a process and a namespace of its own. Ends with 'N passed, N failed'; exit code 1 if any failed.
"""
import argparse
import concurrent.futures
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import language                                      # noqa: E402
from harness import paths                            # noqa: E402
from harness.admin import Admin                      # noqa: E402
from harness.broker import Existing, Geminga, Oracle  # noqa: E402

# What the oracle's configuration has and Pulsar's class defaults have not.
GEMINGA_CONFIG = {"acknowledgmentAtBatchIndexLevelEnabled": "true", "exposeTopicLevelMetricsInPrometheus": "true",
                  "allowAutoTopicCreation": "true"}


def own_broker(scenario, target, workdir):
    """A broker for this scenario alone."""
    if target == "geminga":
        return Geminga(config={**GEMINGA_CONFIG, **scenario.config}, data_dir=workdir / "data", log=workdir / "broker.log")
    extra = workdir / "extra.conf"
    extra.write_text("".join(f"{k}={v}\n" for k, v in scenario.config.items()))
    return Oracle(extra_conf=extra)


def needs_own_broker(scenario, target):
    return bool(scenario.config) or (target == "geminga" and scenario.uses("restart", "kill"))


def run_one(path, target, url, web_url, workdir):
    """Runs one scenario in this process; the result as a dict."""
    import check, control, receive, send  # noqa: F401 (they enter themselves in the table of verbs)
    import verbs
    import world as w
    begin = time.monotonic()
    scenario = language.parse(path)
    own = needs_own_broker(scenario, target)
    broker = own_broker(scenario, target, workdir) if own else Existing(url, web_url, target)
    statement = None
    try:
        with broker:
            world = w.World(broker, Admin(broker.web_url), target, Path(path).stem.replace("_", "-"), workdir,
                            restartable=own and target == "geminga")
            try:
                for statement in scenario.statements:
                    if statement.only and statement.only != target:
                        continue
                    print(f"{time.monotonic() - begin:8.3f} {statement.line}: {statement.text}", flush=True)
                    verbs.execute(world, statement.words)
                    for handle in world.consumers.values():
                        if handle.worker_error:
                            raise w.Mismatch(f"worker {handle.name} to run", handle.worker_error)
            finally:
                world.close()
    except w.Mismatch as e:
        why = f"{path}:{statement.line}: {statement.text}\n     {e}"
    except Exception as e:
        where = f"{path}:{statement.line}: {statement.text}" if statement else str(path)
        why = f"{where}\n     {type(e).__name__}: {e}"
        (workdir / "traceback.txt").write_text(traceback.format_exc())
    else:
        why = ""
    return {"ok": not why, "why": why, "seconds": time.monotonic() - begin}


def child(args, scenario, broker, logs):
    """Runs one scenario in a process of its own, so that a crash or a hang of the client costs one scenario."""
    stem = Path(scenario.path).stem
    workdir = logs / stem
    shutil.rmtree(workdir, ignore_errors=True)
    workdir.mkdir(parents=True)
    result = workdir / "result.json"
    cmd = [sys.executable, str(HERE / "run.py"), "--one", scenario.path, "--target", args.target, "--workdir", str(workdir)]
    if broker:
        cmd += ["--url", broker.url, "--web-url", broker.web_url]
    with open(workdir / "output.txt", "w") as out:
        process = subprocess.Popen(cmd, stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            code = process.wait(scenario.timeout * args.patience)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return {"ok": False, "seconds": scenario.timeout, "why": f"{scenario.path}: still running after "
                    f"{scenario.timeout * args.patience:.0f} s; the last statement is in {workdir}/output.txt"}
    if result.exists():
        return json.loads(result.read_text())
    return {"ok": False, "seconds": 0, "why": f"{scenario.path}: its process ended with code {code}; see {workdir}/output.txt"}


def choose(names):
    files = sorted(HERE.glob("*.scn"))
    if not names:
        return files
    chosen = []
    for name in names:
        found = [Path(name)] if Path(name).is_file() else [f for f in files if name in f.stem]
        if not found:
            sys.exit(f"no scenario is named like '{name}'")
        chosen += [f for f in found if f not in chosen]
    return chosen


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="files, or parts of their names (default: all)")
    parser.add_argument("--target", choices=["geminga", "oracle"], default="geminga")
    parser.add_argument("--binary", help="the geminga to test (default build/release/geminga, or GEMINGA_BIN)")
    parser.add_argument("--tag", help="only scenarios with this word in their 'tags:' header")
    parser.add_argument("--jobs", type=int, default=4, help="scenarios at a time; most of them wait (default 4)")
    parser.add_argument("--url", help="use this broker instead of starting one (with --web-url)")
    parser.add_argument("--web-url")
    parser.add_argument("--logs", help="keep each scenario's logs there (default: a temporary folder, kept on failure)")
    parser.add_argument("--patience", type=float, default=1.0, help="factor on each scenario's time limit (sanitizers)")
    parser.add_argument("--differs", action="store_true", help="print where ours differs from the oracle, and stop")
    parser.add_argument("--check", action="store_true", help="read all scenarios and stop")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--workdir", help=argparse.SUPPRESS)
    args = parser.parse_args()

    if args.binary:
        paths.GEMINGA = Path(args.binary).resolve()
        os.environ["GEMINGA_BIN"] = str(paths.GEMINGA)  # for the scenarios' own processes
    if args.one:
        workdir = Path(args.workdir)
        result = run_one(args.one, args.target, args.url, args.web_url, workdir)
        (workdir / "result.json").write_text(json.dumps(result))
        sys.stdout.flush()
        os._exit(0)                 # a client that hangs in a destructor must not keep the process

    try:
        scenarios = [language.parse(f) for f in choose(args.names)]
    except language.ScenarioSyntax as e:
        sys.exit(str(e))
    if args.tag:
        scenarios = [s for s in scenarios if args.tag in s.headers.get("tags", "").split()]
    if args.differs:
        for s in scenarios:
            if "differs" in s.headers:
                print(f"{Path(s.path).name}: {s.headers['differs']}")
        return
    if args.check:
        print(f"{len(scenarios)} scenarios read")
        return

    temporary = not args.logs
    logs = Path(args.logs or tempfile.mkdtemp(prefix="scenarios-"))
    broker = None
    if args.url:
        broker = Existing(args.url, args.web_url, args.target)
    elif not all(needs_own_broker(s, args.target) for s in scenarios):
        broker = (Geminga(config=GEMINGA_CONFIG, data_dir=logs / "shared-broker" / "data") if args.target == "geminga"
                  else Oracle()).start()
    failed = 0
    try:
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            # The long ones first, so that none of them is alone at the end.
            ordered = sorted(scenarios, key=lambda s: -s.timeout)
            jobs = {pool.submit(child, args, s, broker, logs): s for s in ordered}
            for job in concurrent.futures.as_completed(jobs):
                result, name = job.result(), Path(jobs[job].path).name
                failed += not result["ok"]
                print(f"{'ok  ' if result['ok'] else 'FAIL'} {result['seconds']:6.1f} s  {name}", flush=True)
                if result["why"]:
                    print("     " + result["why"], flush=True)
    finally:
        if broker:
            broker.stop()
    if failed:
        print(f"logs: {logs}")
    elif temporary:
        shutil.rmtree(logs, ignore_errors=True)
    print(f"{len(scenarios) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
