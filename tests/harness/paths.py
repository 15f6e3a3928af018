"""Where things lie. Every place can be moved by an environment variable, so that CI and a laptop need no edits.

GEMINGA_BIN     the binary under test (default build/release/geminga of this checkout)
GEMINGA_SHARED  the folder that holds the oracle and the suites (default ../shared beside the checkout)
"""
import os
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
GEMINGA = Path(os.environ.get("GEMINGA_BIN", REPO / "build" / "release" / "geminga"))
SHARED = Path(os.environ.get("GEMINGA_SHARED", REPO.parent / "shared"))
ORACLE = SHARED / "oracle"
SUITES = SHARED / "suites"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
