"""The suites: where their tests are listed, what their broker needs, how they run, what their results look like.

Each `run(ids, work, retry)` drives a broker that listens on localhost:6650 and localhost:8080 and returns
{test id: Result}. The scripts are those of the shared folder; the ones that write beside themselves run from a copy in
the cache. A suite whose tools are missing says so in `missing()`.
"""
import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as xml
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from harness.paths import CACHE, SUITES

WORK = Path(os.environ.get("GEMINGA_CONFORMANCE_WORK", CACHE / "geminga-conformance"))
HERE = Path(__file__).resolve().parent

COMMON = {"transactionCoordinatorEnabled": "true", "systemTopicEnabled": "true", "topicLevelPoliciesEnabled": "true",
          "acknowledgmentAtBatchIndexLevelEnabled": "true", "delayedDeliveryEnabled": "true",
          "webSocketServiceEnabled": "true", "allowAutoTopicCreation": "true"}


@dataclass
class Result:
    status: str             # PASS, FAIL or SKIP
    seconds: float
    why: str = ""


def tsv(path):
    for line in Path(path).read_text().splitlines():
        if line and not line.startswith("#"):
            yield line.split("\t")


def shell(cmd, log, timeout, env=None, cwd=None):
    with open(log, "ab") as out:
        try:
            return subprocess.run([str(c) for c in cmd], stdout=out, stderr=out, stdin=subprocess.DEVNULL, timeout=timeout,
                                  env=dict(os.environ, **(env or {})), cwd=cwd).returncode
        except subprocess.TimeoutExpired:
            return None


class Suite:
    name = ""
    tools = ()
    config = COMMON
    piece = 1000            # tests that share one broker; more are split over several brokers
    alone = 0.0             # seconds of start-up a piece costs, for the planning of the order

    def missing(self):
        """What is not installed, in words, or ''."""
        lost = [t for t in self.tools if not shutil.which(t)]
        if not SUITES.is_dir():
            return f"no suites at {SUITES} (set GEMINGA_SHARED)"
        return f"not installed: {', '.join(lost)} (run 'make deps')" if lost else ""

    def tests(self):
        """{test id: seconds it took on the oracle}"""
        raise NotImplementedError

    def prepare(self, log):
        """Downloads and builds; True when ready."""
        return True

    def run(self, ids, work):
        raise NotImplementedError

    def copy(self):
        """The suite's folder in the cache, renewed when the shared one changed; build outputs stay."""
        source, target = SUITES / self.name, WORK / self.name
        for path in sorted(source.rglob("*")):
            to = target / path.relative_to(source)
            if path.is_dir():
                to.mkdir(parents=True, exist_ok=True)
            elif not to.exists() or to.read_bytes() != path.read_bytes():
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, to)
                to.chmod(to.stat().st_mode | 0o200)
        return target


class Scripted(Suite):
    """A suite whose script takes --list and writes --results lines: test, status, seconds."""
    script = listing = ""
    options = ()

    def tests(self):
        return {row[0]: float(row[2]) for row in tsv(SUITES / self.listing) if row[1] == "plain"}

    def prepare(self, log):
        return shell([SUITES / self.script, "--prepare"], log, 3600) == 0

    def run(self, ids, work):
        (work / "list").write_text("".join(f"{i}\n" for i in ids))
        results = work / "results"
        # The limit of the whole: each test has its own in the script.
        shell([SUITES / self.script, "--list", work / "list", "--results", results, "--logs", work / "logs", *self.options],
              work / "output.txt", 3600)
        found = {}
        if results.exists():
            for row in tsv(results):
                found[row[0]] = Result(row[1], float(row[2]), "" if row[1] == "PASS" else self.reason(row[0], work))
        return found

    def reason(self, test, work):
        return ""


class Go(Scripted):
    name, script, listing, tools, piece = "go", "go-suite.sh", "go-suite.tsv", ("go", "curl"), 150
    options = ("--jobs", "3")
    # Its Key_Shared tests want both of two consumers to get some of three keys: on a hash ring of the consumers' random
    # names that is a matter of luck. The suite's class `tuned` sets this for the same reason.
    config = dict(COMMON, subscriptionKeySharedUseConsistentHashing="false")

    def reason(self, test, work):
        package, _, name = test.rpartition("/")
        log = work / "logs" / f"{package.replace('/', '_')}.{name}.log"
        if not log.exists():
            return ""
        lines = [x.strip() for x in log.read_text(errors="replace").splitlines()]
        told = [x for x in lines if re.match(r"(Error:|Error Trace|panic:|.*_test\.go:\d+:)", x)]
        return " ".join(told[:3])[:300]


class GoTuned(Go):
    """Its tests that want other settings (the suite's class `tuned`)."""
    name = "go-tuned"
    config = dict(COMMON, subscriptionKeySharedUseConsistentHashing="false", maxMessageSize="1048576",
                  backlogQuotaCheckIntervalInSeconds="5")

    def tests(self):
        return {row[0]: float(row[2]) for row in tsv(SUITES / self.listing) if row[1] == "tuned"}


class Rust(Scripted):
    name, script, listing, tools = "rust", "rust-suite.sh", "rust-suite.tsv", ("cargo", "protoc")

    def reason(self, test, work):
        log = work / "logs" / f"{test.replace(':', '_')}.log"
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        told = [i for i, x in enumerate(lines) if "panicked at" in x]
        return " ".join(lines[told[0]:told[0] + 2])[:300] if told else ""


class JavaSmoke(Suite):
    name, tools = "java-smoke", ("mvn", "java")

    def tests(self):
        return {row[0]: float(row[1]) for row in tsv(HERE / "java-smoke.tsv")}

    def prepare(self, log):
        # Maven resolves its test provider only when it runs one: a method that does not exist will do.
        return shell(["mvn", "-q", "-B", "test", "-Dtest=CompressionTest#none", "-Dsurefire.failIfNoSpecifiedTests=false"], log, 3600,
                     cwd=self.copy()) == 0

    def run(self, ids, work):
        folder = work / "project"
        shutil.copytree(WORK / self.name, folder, dirs_exist_ok=True)
        shutil.rmtree(folder / "target" / "surefire-reports", ignore_errors=True)
        methods = defaultdict(set)
        for i in ids:
            cls, _, method = i.rpartition(".")
            methods[cls].add(re.sub(r"[({\[].*", "", method))
        wanted = ",".join(f"{cls}#{'+'.join(sorted(m))}" for cls, m in sorted(methods.items()))
        shell(["mvn", "-o", "-B", "-Dstyle.color=never", "test", f"-Dtest={wanted}",
               "-Dsurefire.failIfNoSpecifiedTests=false"], work / "output.txt", 3600, cwd=folder)
        return self.reports(folder / "target" / "surefire-reports")

    @staticmethod
    def reports(folder):
        found = {}
        for path in folder.glob("TEST-*.xml"):
            for case in xml.parse(path).iter("testcase"):
                name = f"{case.get('classname').rpartition('.')[2]}.{case.get('name')}"
                problem = case.find("failure") if case.find("failure") is not None else case.find("error")
                status = "FAIL" if problem is not None else "SKIP" if case.find("skipped") is not None else "PASS"
                why = "" if problem is None else f"{problem.get('type', '')}: {problem.get('message', '')}"
                found[name] = Result(status, float(case.get("time", 0)), " ".join(why.split())[:300])
        return found


class JavaSuite(Suite):
    name, tools, piece = "java-suite", ("mvn", "java"), 60
    config = {**COMMON, "clusterName": "test", "forceDeleteNamespaceAllowed": "true", "forceDeleteTenantAllowed": "true",
              "activeConsumerFailoverDelayTimeMillis": "0", "defaultNumberOfNamespaceBundles": "1"}

    # They start three clusters of Pulsar inside their own process and talk to those alone.
    elsewhere = {"org.apache.pulsar.client.api.NonPersistentTopicTest.testReplicator"}

    def tests(self):
        rows = tsv(SUITES / self.name / "tests.tsv")
        return {row[0]: float(row[2]) for row in rows if row[0] not in self.elsewhere}

    def prepare(self, log):
        return shell(["./run", "--prepare"], log, 3600, cwd=self.copy()) == 0

    def run(self, ids, work):
        rows = {row[0]: row for row in tsv(SUITES / self.name / "tests.tsv")}
        (work / "list").write_text("".join("\t".join(rows[i]) + "\n" for i in ids))
        results = work / "results"
        # Oracle only: a broker that cannot be emptied again is replaced.
        fresh = ["--fresh", os.environ["CONFORMANCE_FRESH"]] if os.environ.get("CONFORMANCE_FRESH") else []
        shell(["./run", "--list", work / "list", "--results", results, "--logs", work / "logs", *fresh], work / "output.txt",
              7200, cwd=WORK / self.name)
        found = {}
        for row in tsv(results) if results.exists() else ():
            old = found.get(row[0], Result("PASS", 0.0))
            # A method passed if it passed with all rows of its data provider.
            worse = row[1] if old.status == "PASS" else old.status
            why = old.why or (" ".join(row[3].split())[:300] if len(row) > 3 and row[1] != "PASS" else "")
            found[row[0]] = Result(worse, old.seconds + float(row[2] or 0), why)
        return found


class SpringSmoke(JavaSmoke):
    """A Spring Boot application."""
    name = "spring-smoke"

    def tests(self):
        return {row[0]: float(row[1]) for row in tsv(HERE / "spring-smoke.tsv")}

    def prepare(self, log):
        return shell(["mvn", "-q", "-B", "test-compile", "surefire:help"], log, 3600, cwd=self.copy()) == 0

    def run(self, ids, work):
        folder = work / "project"
        shutil.copytree(WORK / self.name, folder, dirs_exist_ok=True)
        shutil.rmtree(folder / "target" / "surefire-reports", ignore_errors=True)
        shell(["mvn", "-B", "-Dstyle.color=never", "test"], work / "output.txt", 1800, cwd=folder)
        return self.reports(folder / "target" / "surefire-reports")


class NodeSmoke(Suite):
    name, tools = "node-smoke", ("node", "npm")

    def tests(self):
        return {row[0]: float(row[1]) for row in tsv(HERE / "node-smoke.tsv")}

    def prepare(self, log):
        folder = self.copy()
        return (folder / "node_modules").is_dir() or shell(["npm", "install", "--no-audit", "--no-fund", "--silent"], log,
                                                           600, cwd=folder) == 0

    def run(self, ids, work):
        output = work / "output.txt"
        shell(["./run"], output, 600, cwd=WORK / self.name)
        found = {}
        # Node's test runner prints TAP when its output is no terminal.
        for part in re.split(r"^# Subtest: ", output.read_text(errors="replace"), flags=re.M)[1:]:
            m = re.search(r"^(not ok|ok) \d+ - (.*)$", part, re.M)
            if m:
                millis = re.search(r"duration_ms: ([\d.]+)", part)
                why = re.search(r"error: (.*(?:\n    .*)?)", part) if m[1] == "not ok" else None
                found[m[2]] = Result("PASS" if m[1] == "ok" else "FAIL", float(millis[1]) / 1000 if millis else 0.0,
                                     " ".join(why[1].split())[:300] if why else "")
        return {i: r for i, r in found.items() if i in ids} if ids else found


SUITES_BY_NAME = {s.name: s for s in (Go(), GoTuned(), Rust(), JavaSmoke(), JavaSuite(), SpringSmoke(), NodeSmoke())}
