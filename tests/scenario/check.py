"""Verbs that look at the broker's state: statistics, subscriptions, ids, admin calls."""
import json
import time

import pulsar

import world as w
from harness.admin import at
from verbs import Settings, eventually, execute, verb


def stats(world, topic, kind="stats"):
    path = world.topic_path(topic)
    if kind == "stats":
        kind = "partitioned-stats" if topic in world.partitioned else "stats"
        kind += "?getPreciseBacklog=true&subscriptionBacklogSize=true"
    else:
        kind = "partitioned-internalStats" if topic in world.partitioned else "internalStats"
    answer = world.admin.call("GET", f"{path}/{kind}")
    if answer.status_code != 200:
        raise w.Mismatch(f"{kind} of {topic}", f"HTTP {answer.status_code}: {answer.text[:200]}")
    return answer.json()


OPERATORS = {"=": lambda a, b: a == b, "!=": lambda a, b: a != b, ">=": lambda a, b: float(a) >= float(b),
             "<=": lambda a, b: float(a) <= float(b), ">": lambda a, b: float(a) > float(b),
             "<": lambda a, b: float(a) < float(b), "~": lambda a, b: b in str(a)}


def text_of(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def value_at(data, path):
    try:
        return text_of(at(data, path))
    except (KeyError, ValueError):
        return "absent"


def compare(got, words, what):
    operator, want = ("=", words[0]) if len(words) == 1 else (words[0], words[1])
    if operator not in OPERATORS:
        raise ValueError(f"'{operator}' is none of {' '.join(OPERATORS)}")
    if (got == "absent" and want != "absent") or not OPERATORS[operator](got, want):
        raise w.Mismatch(f"{what} {operator} {want}", got)


def asked(question):
    """The client's answer; that it could not ask (it has no connection at this moment) is a mismatch, not the end."""
    try:
        return question()
    except pulsar.PulsarException as e:
        raise w.Mismatch("an answer", f"{type(e).__name__}: {e}") from None


def names_of(words, prefix):
    return sorted(prefix + x for x in words if x != "none")


def expectation(world, kind, words):
    """A function that raises Mismatch as long as the expectation does not hold."""
    def last_id():
        handle = world.consumer(words[0])
        got = asked(handle.target.get_last_message_id)
        place = (got.ledger_id(), got.entry_id(), got.batch_index())
        if words[1] == "none":
            ok, want = got.entry_id() == -1, "entry -1"
        else:
            m = world.ids[handle.topic, words[1]]
            want = (m.ledger_id(), m.entry_id(), m.batch_index())
            ok = place == want
        if not ok:
            raise w.Mismatch(f"last id {want} ({words[1]})", place)

    def subscriptions():
        answer = world.admin.call("GET", world.topic_path(words[0]) + "/subscriptions")
        got = sorted(answer.json()) if answer.status_code == 200 else f"HTTP {answer.status_code}"
        if got != names_of(words[1:], ""):
            raise w.Mismatch(f"subscriptions {names_of(words[1:], '')}", got)

    def topics():
        got = sorted(t for t in world.admin.json(f"persistent/{world.namespace}") if "__change_events" not in t)
        want = names_of(words, f"persistent://{world.namespace}/")
        if got != want:
            raise w.Mismatch(want, got)

    yes_no = {True: "yes", False: "no"}
    table = {
        "backlog": lambda: compare(value_at(stats(world, words[0]), f"subscriptions.{words[1]}.msgBacklog"), words[2:],
                                   f"backlog of {words[1]}"),
        "unacked": lambda: compare(value_at(stats(world, words[0]), f"subscriptions.{words[1]}.unackedMessages"), words[2:],
                                   f"unacked of {words[1]}"),
        "entries": lambda: compare(value_at(stats(world, words[0], "internal"), "numberOfEntries"), words[1:], "entries"),
        "stat": lambda: compare(value_at(stats(world, words[0]), words[1]), words[2:], words[1]),
        "internal": lambda: compare(value_at(stats(world, words[0], "internal"), words[1]), words[2:], words[1]),
        "subscriptions": subscriptions,
        "topics": topics,
        "partitions": lambda: compare(str(len(world.client("main").get_topic_partitions(world.topic(words[0])))), words[1:],
                                      "partitions"),
        "last-id": last_id,
        "last-sequence": lambda: compare(str(world.producers[words[0]].producer.last_sequence_id()), words[1:], "last sequence"),
        "producer-name": lambda: compare(world.producers[words[0]].producer.producer_name(), words[1:], "producer name"),
        "available": lambda: compare(yes_no[asked(world.consumer(words[0]).target.has_message_available)], words[1:], "available"),
        "connected": lambda: compare(yes_no[(world.producers[words[0]].producer if words[0] in world.producers
                                             else world.consumer(words[0]).target).is_connected()], words[1:], "connected"),
        "received": lambda: compare(str(len(world.consumer(words[0]).log)), words[1:], f"messages received by {words[0]}"),
        "note": lambda: compare(world.variables.get(words[0], "absent"), words[1:], words[0]),
    }
    if kind not in table:
        raise ValueError(f"unknown expectation '{kind}'; known: {' '.join(table)}")
    return table[kind]


@verb
def expect(world, kind, *words):
    """expect KIND ... [within MS] [for MS]: holds in time; with 'for', still holds all that time after."""
    words, seconds, hold = list(words), w.WAIT, 0
    while len(words) > 1 and words[-2] in ("within", "for"):
        if words[-2] == "within":
            seconds = int(words[-1]) / 1000
        else:
            hold = int(words[-1]) / 1000
        words = words[:-2]
    check = expectation(world, kind, words)
    eventually(check, seconds)
    until = time.monotonic() + hold
    while time.monotonic() < until:
        time.sleep(0.1)
        check()


@verb
def note(world, name, kind, *words):
    """note NAME stat TOPIC PATH | internal TOPIC PATH | name P: keeps a value; $NAME stands for it from then on."""
    match kind:
        case "stat": world.variables[name] = value_at(stats(world, words[0]), words[1])
        case "internal": world.variables[name] = value_at(stats(world, words[0], "internal"), words[1])
        case "name": world.variables[name] = world.producers[words[0]].producer.producer_name()
        case "id":
            m = world.ids[words[0], words[1]]
            world.variables[name] = f"{m.ledger_id()}:{m.entry_id()}"
        case "ledger": world.variables[name] = world.ids[words[0], words[1]].ledger_id()
        case "entry": world.variables[name] = world.ids[words[0], words[1]].entry_id()
        case _: raise ValueError(f"note: unknown kind '{kind}'")


@verb
def admin(world, method, path, *words):
    """admin METHOD PATH [body JSON] [-> STATUS] [PATH=VALUE]... [text SUBSTRING] [header NAME=VALUE]."""
    s, body, checks, status, texts, headers = Settings(words), None, [], None, [], []
    while s:
        word = s.next()
        match word:
            case "body": body = s.next()
            case "->": status = s.next()
            case "text": texts.append(s.next())
            case "header": headers.append(s.next())
            case _ if "=" in word: checks.append(word.split("=", 1))
            case _: raise ValueError(f"unknown word '{word}'")
    answer = world.admin.call(method, path, body)
    shown = f"HTTP {answer.status_code}: {answer.text[:300]}"
    if status and str(answer.status_code) not in status.split("|") or not status and answer.status_code // 100 != 2:
        raise w.Mismatch(f"HTTP {status or '2xx'}", shown)
    for text in texts:
        if text not in answer.text:
            raise w.Mismatch(f"an answer with '{text}'", shown)
    for header in headers:
        name, value = header.split("=", 1)
        if answer.headers.get(name, "absent") != value:
            raise w.Mismatch(f"header {header}", dict(answer.headers))
    for key, value in checks:
        if value_at(answer.json(), "" if key == "." else key) != value:
            raise w.Mismatch(f"{key} = {value}", value_at(answer.json(), "" if key == "." else key) + f" in {shown}")


@verb
def eventually_(world, *words):
    """eventually STATEMENT: repeated until it holds; for statements that change nothing."""
    eventually(lambda: execute(world, list(words)))
