"""The load of the row 'memory under stress': consumers that take and never ack, beside producers at full speed."""
import selectors
import sys
import threading
import time
from pathlib import Path

import load

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from harness import wire                              # noqa: E402
from harness.admin import Admin                      # noqa: E402
from harness.broker import RssSampler                # noqa: E402

BUDGET_MIB = 256
TOPIC = "persistent://public/default/stress"


class SilentConsumers(threading.Thread):
    """Reads what comes and acks nothing: half on one Shared subscription, half on subscriptions of their own."""

    def __init__(self, side, count):
        super().__init__(daemon=True)
        self.selector, self.end, self.connections = selectors.DefaultSelector(), threading.Event(), []
        port = type("Port", (), {"broker_port": side.port})
        for n in range(count):
            c = wire.Connection(port, timeout=30)
            shared = n % 2 == 0
            c.subscribe(TOPIC, "all" if shared else f"own{n}", kind=1 if shared else 0, earliest=True, permits=1000000)
            c.sock.setblocking(False)
            self.selector.register(c.sock, selectors.EVENT_READ, c)
            self.connections.append(c)

    def run(self):
        while not self.end.is_set():
            for key, _ in self.selector.select(0.2):
                try:
                    if not key.fileobj.recv(1 << 20):
                        self.selector.unregister(key.fileobj)
                except OSError:
                    self.selector.unregister(key.fileobj)

    def stop(self):
        self.end.set()
        self.join()
        for c in self.connections:
            c.close()


def run(side, cpus, messages, seconds):
    """(peak MiB, messages stored, seconds, number of samples)."""
    admin = Admin(side.web_url)
    admin.must("PUT", TOPIC.replace("://", "/"), allow=(409,))
    admin.must("PUT", TOPIC.replace("://", "/") + "/subscription/keep", '{"ledgerId":-1,"entryId":-1}', allow=(409,))
    sampler = RssSampler(side.pid, 0.1)
    sampler.start()
    begin = time.monotonic()
    load.run(side, "produce", cpus, 600, topic=TOPIC, size=100, rate=0, messages=messages, batch_messages=1000, batch_delay_ms=10)
    consumers = SilentConsumers(side, 100)
    consumers.start()
    more = load.run(side, "produce", cpus, seconds, topic=TOPIC, size=1024, rate=0, duration=seconds, no_batching=True, in_flight=1000)
    consumers.stop()
    peak = sampler.stop() / 1024
    return peak, messages + more.messages, time.monotonic() - begin, len(sampler.samples)
