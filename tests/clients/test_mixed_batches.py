"""Key_Shared keeps the order of keys with each official client's defaults: batching that mixes keys, and
acknowledgements of whole entries or of single messages. Consumers come and go while it is published; at the end every
message was received in its key's order and nothing is left in the backlog."""
import importlib.util
import pathlib
import shutil
import subprocess
import sys

import pytest
import requests

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from harness.broker import Geminga  # noqa: E402
from harness.paths import CACHE  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
WORK = CACHE / "geminga-clients"
TOPIC = "persistent://public/default/mixed"


@pytest.fixture
def broker():
    with Geminga() as it:
        yield it


def run(command, seconds, cwd=None):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=seconds, cwd=cwd)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def nothing_is_left(broker, topic=TOPIC, subscription="s"):
    stats = requests.get(f"{broker.web_url}/admin/v2/{topic.replace('://', '/')}/stats", timeout=10).json()
    internal = requests.get(f"{broker.web_url}/admin/v2/{topic.replace('://', '/')}/internalStats", timeout=10).json()
    assert internal["entriesAddedCounter"] < stats["msgInCounter"] / 5, "the client did not batch"
    assert stats["subscriptions"][subscription]["msgBacklog"] == 0


@pytest.mark.skipif(not shutil.which("go"), reason="no go (make deps)")
def test_go(broker):
    WORK.mkdir(parents=True, exist_ok=True)
    run(["go", "build", "-o", WORK / "mixed", "."], 900, cwd=HERE / "go")
    run([WORK / "mixed", broker.url, TOPIC], 120)
    nothing_is_left(broker)


@pytest.mark.skipif(not shutil.which("mvn"), reason="no mvn (make deps)")
@pytest.mark.parametrize("acks", ["whole", "index-ack"])
def test_java(broker, acks):
    WORK.mkdir(parents=True, exist_ok=True)
    run(["mvn", "-q", "-f", HERE / "java" / "pom.xml", "dependency:build-classpath", f"-Dmdep.outputFile={WORK}/cp"], 900)
    run(["java", "-cp", (WORK / "cp").read_text().strip(), HERE / "java" / "MixedBatches.java", broker.url, TOPIC, acks], 120)
    nothing_is_left(broker)


def test_python_example_of_gradients(broker):
    path = HERE.parent.parent / "examples" / "gradients.py"
    spec = importlib.util.spec_from_file_location("gradients", path)
    gradients = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(gradients)
    final = gradients.train(broker.url)
    assert len(final) == gradients.WORKERS
    for weights in final.values():
        for partition, weight in enumerate(weights):
            expected = partition * (1 - (1 - 2 * gradients.RATE) ** gradients.STEPS)
            assert abs(weight - expected) < 1e-9
    nothing_is_left(broker, "persistent://public/default/train-gradients", "parameter-servers")
