"""What the README shows works when pasted."""
import pathlib
import re
import subprocess
import sys
import time
import urllib.request

import pulsar

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from harness.broker import Geminga  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def python_example():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert len(blocks) == 1, "the README has one Python example"
    return blocks[0]


def run_example(broker):
    code = python_example().replace("pulsar://localhost:6650", broker.url)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def ask(broker, method, path):
    return urllib.request.urlopen(urllib.request.Request(broker.web_url + path, method=method), timeout=10).read()


def test_example_works_and_goes_on_after_kill():
    with Geminga() as broker:
        assert "Hello, Geminga" in run_example(broker)
        broker.kill()
        broker.restart()
        assert "Hello, Geminga" in run_example(broker)


def test_links_of_the_documents_lead_somewhere():
    broken = []
    for page in [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/*.md"), *ROOT.glob("tests/**/*.md")]:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in target and not (page.parent / target).exists():
                broken.append(f"{page.relative_to(ROOT)} -> {target}")
    assert not broken, broken


def test_the_metrics_of_the_reference_are_on_the_page():
    names = re.findall(r"^\| `(\w+)`", (ROOT / "docs/reference/metrics.md").read_text(), re.M)
    assert len(names) > 40
    with Geminga(config={"transactionCoordinatorEnabled": "true",
                         "exposeConsumerLevelMetricsInPrometheus": "true",
                         "exposeProducerLevelMetricsInPrometheus": "true"}) as broker:
        run_example(broker)
        # What is shown only of coordinators that are open, and of topics that were compacted.
        ask(broker, "GET", "/admin/v3/transactions/coordinatorStats")
        compaction = "/admin/v2/persistent/public/default/%s/compaction" % re.search(
            r"create_producer\(['\"]([^'\"]+)", python_example()).group(1).rpartition("/")[2]
        ask(broker, "PUT", compaction)
        while b"RUNNING" in ask(broker, "GET", compaction):
            time.sleep(0.05)
        client = pulsar.Client(broker.url)
        client.subscribe("persistent://public/default/metrics", "s")
        client.create_producer("persistent://public/default/metrics")
        page = ask(broker, "GET", "/metrics").decode()
        client.close()
    missing = [name for name in names if not re.search(rf"^# TYPE {name} ", page, re.M)]
    assert not missing, " ".join(missing)
