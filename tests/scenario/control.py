"""Verbs about errors, time, the background and the broker's life."""
import threading
import time

import pulsar

import world as w
from send import unload
from verbs import eventually, execute, verb


@verb
def fails(world, names, *words):
    """fails Exception|Exception STATEMENT: the statement ends with that exception of the client."""
    try:
        execute(world, list(words))
    except pulsar.PulsarException as e:
        if type(e).__name__ not in names.split("|"):
            raise w.Mismatch(names, f"{type(e).__name__}: {e}") from None
    else:
        raise w.Mismatch(names, "no error")


@verb
def start(world, name, *words):
    """start NAME STATEMENT: runs it in the background; `pending NAME` and `finish NAME` follow."""
    task = {"error": None}

    def body():
        try:
            execute(world, list(words))
        except Exception as e:              # kept for 'finish', which raises it
            task["error"] = e

    task["thread"] = threading.Thread(target=body, daemon=True)
    world.tasks[name] = task
    task["thread"].start()


@verb
def pending(world, name, *words):
    """pending NAME [for MS]: the background statement has not ended after that time (default 300)."""
    world.tasks[name]["thread"].join(int(words[1]) / 1000 if words else 0.3)
    if not world.tasks[name]["thread"].is_alive():
        raise w.Mismatch(f"'{name}' to go on waiting", world.tasks[name]["error"] or "it ended without error")


@verb
def finish(world, name, *words):
    """finish NAME [within MS]: the background statement ends without error (or under `fails`, with one)."""
    task = world.tasks[name]
    task["thread"].join(int(words[1]) / 1000 if words else w.WAIT)
    if task["thread"].is_alive():
        raise w.Mismatch(f"'{name}' to end", "it still waits")
    if task["error"]:
        raise task["error"]


@verb
def compact(world, topic):
    """compact T: asks for the topic's compaction and waits until it has ended well."""
    path = f"{world.topic_path(topic)}/compaction"
    world.admin.must("PUT", path)

    def succeeded():
        state = world.admin.json(path)
        if state["status"] != "SUCCESS":
            raise w.Mismatch("SUCCESS", state)

    eventually(succeeded, 30)


@verb
def sleep(_world, millis):
    time.sleep(int(millis) / 1000)


@verb
def restart(world):
    """A clean stop and a start on the same data; the oracle, which starts empty, unloads the namespace instead."""
    world.broker.restart() if world.restartable else unload(world)


@verb
def kill(world):
    """SIGKILL and a start on the same data; the oracle unloads the namespace instead."""
    world.broker.restart(kill=True) if world.restartable else unload(world)
