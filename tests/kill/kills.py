"""Kills a broker at given moments and starts it again each time."""
import time

from harness.broker import BrokerError


def kill_at(broker, moments):
    """`moments`: seconds from now, ascending. Returns when each kill was, as time.time()."""
    begin, kills = time.monotonic(), []
    for moment in moments:
        time.sleep(max(0, begin + moment - time.monotonic()))
        if not broker.running():
            raise BrokerError(f"it died by itself: {broker.tail()}")
        kills.append(time.time())
        broker.kill()
        broker.start(timeout=60)
    return kills
