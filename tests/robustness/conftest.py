"""Fixtures of the robustness tests. `pytest tests/robustness` starts brokers by itself.

--target oracle plays the tests of frames and connections against Apache Pulsar (the others are about our own process),
--url/--web-url use a broker that runs already.
"""
import shutil
import sys
import tempfile
import uuid
from pathlib import Path
from urllib.parse import urlparse

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.broker import Existing, Geminga, Oracle, healthy  # noqa: E402


def pytest_addoption(parser):
    parser.addoption("--target", choices=["geminga", "oracle"], default="geminga")
    parser.addoption("--url")
    parser.addoption("--web-url")
    parser.addoption("--connections", type=int, default=10000, help="idle connections to hold (default 10000)")


def pytest_configure(config):
    config.addinivalue_line("markers", "ours: about Geminga's own process, not played against the oracle")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--target") == "oracle":
        for item in items:
            if item.get_closest_marker("ours"):
                item.add_marker(pytest.mark.skip(reason="about Geminga's own process"))


@pytest.fixture(scope="module")
def broker(request, tmp_path_factory):
    """One broker for the tests of a file, with a budget that a leak would soon exceed."""
    config = request.config
    if config.getoption("--url"):
        b = Existing(config.getoption("--url"), config.getoption("--web-url"), config.getoption("--target"))
        b.broker_port = urlparse(b.url).port
    elif config.getoption("--target") == "oracle":
        b = Oracle()
    else:
        folder = tmp_path_factory.mktemp("broker")
        b = Geminga(data_dir=folder / "data", log=folder / "broker.log", memory="256M")
    with b:
        yield b
        assert b.running(), "the broker died"


@pytest.fixture
def topic():
    return f"persistent://public/default/robust-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def still_serves(broker):
    """Checks after the test that the broker lives and answers."""
    yield
    assert broker.running(), "the broker died"
    assert healthy(broker), "the broker's health check fails"


@pytest.fixture
def place():
    """A folder that other users can enter (pytest's own is closed to them), removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="robustness-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def fresh(place):
    """Makes Geminga brokers on one folder; they are ended after the test."""
    made = []

    def make(**settings):
        settings.setdefault("data_dir", place / "data")
        b = Geminga(log=place / f"broker{len(made)}.log", **settings)
        made.append(b)
        return b

    yield make
    for b in made:
        b.kill()
