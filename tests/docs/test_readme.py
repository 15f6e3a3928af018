"""What the README shows works when pasted."""
import pathlib
import re
import subprocess
import sys
import urllib.request

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
    with Geminga() as broker:
        run_example(broker)
        page = urllib.request.urlopen(broker.web_url + "/metrics", timeout=10).read().decode()
    missing = [name for name in names if not re.search(rf"^# TYPE {name} ", page, re.M)]
    assert not missing, missing
