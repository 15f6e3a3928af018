"""Watches a subscription while its messages are acknowledged in random order: the holes in what is acknowledged, and the broker's
memory."""
import threading
import time

from brokers import BenchError


class Watch:
    def __init__(self, side, admin, topic, subscription):
        self.side, self.admin, self.subscription = side, admin, subscription
        self.path = topic.replace("://", "/") + "/stats"
        self.before_mib = self.most_mib = 0.0       # resident: before the first acknowledgement, and at most
        self.most_holes = 0
        self.mib_with_most_holes = 0.0
        self.first_ack = self.last_ack = None       # times
        self.backlog = None
        self.over = threading.Event()

    def __enter__(self):
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()

    def look(self):
        stats = self.admin.json(self.path)["subscriptions"][self.subscription]
        return stats["msgBacklog"], stats["nonContiguousDeletedMessagesRanges"]

    def watch(self):
        while not self.over.is_set():
            mib, (backlog, holes) = self.side.rss_mib(), self.look()
            self.most_mib = max(self.most_mib, mib)
            if self.backlog is None or backlog == self.backlog and self.first_ack is None:
                self.before_mib = mib
            elif self.first_ack is None:
                self.first_ack = time.monotonic()
            if holes > self.most_holes:
                self.most_holes, self.mib_with_most_holes = holes, mib
            if backlog == 0 and self.last_ack is None:
                self.last_ack = time.monotonic()
            self.backlog = backlog
            time.sleep(0.1)

    def until_nothing_is_left(self, seconds=120):
        begin = time.monotonic()
        while self.last_ack is None:
            if time.monotonic() - begin > seconds:
                raise BenchError(f"{self.backlog} messages were not acknowledged within {seconds} s")
            time.sleep(0.1)

    def acks_per_second(self, messages):
        return messages / max(self.last_ack - self.first_ack, 0.1) if self.first_ack else 0.0

    def bytes_a_hole(self):
        return max(self.mib_with_most_holes - self.before_mib, 0) * (1 << 20) / max(self.most_holes, 1)
