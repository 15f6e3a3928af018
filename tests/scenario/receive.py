"""Verbs that make consumers and readers, receive, acknowledge and seek."""
import re
import time

import pulsar

import language
import world as w
from verbs import Settings, eventually, verb


@verb
def consumer(world, name, topic, subscription, *words):
    settings, client, s = {}, "main", Settings(words)
    topics, pattern, dead_letter = [world.topic(t) for t in topic.split("+")], None, {}
    while s:
        word = s.next()
        match word:
            case _ if word in w.TYPES: settings["consumer_type"] = w.TYPES[word]
            case "earliest": settings["initial_position"] = pulsar.InitialPosition.Earliest
            case "latest": settings["initial_position"] = pulsar.InitialPosition.Latest
            case "queue": settings["receiver_queue_size"] = s.number()
            case "named": settings["consumer_name"] = s.next()
            case "index-ack": settings["batch_index_ack_enabled"] = True
            case "nack-delay": settings["negative_ack_redelivery_delay_ms"] = s.number()
            case "ack-timeout": settings["unacked_messages_timeout_ms"] = s.number()
            case "read-compacted": settings["is_read_compacted"] = True
            case "inclusive": settings["start_message_id_inclusive"] = True
            case "pattern": pattern = True
            case "sticky":
                ranges = [tuple(map(int, r.split("-"))) for r in s.next().split(",")]
                settings["key_shared_policy"] = pulsar.ConsumerKeySharedPolicy(pulsar.KeySharedMode.Sticky, False, ranges)
            case "out-of-order":
                settings["key_shared_policy"] = pulsar.ConsumerKeySharedPolicy(pulsar.KeySharedMode.AutoSplit, True)
            case "dead-letter-after": dead_letter["max_redeliver_count"] = s.number()
            case "dead-letter-topic": dead_letter["dead_letter_topic"] = world.topic(s.next())
            case "dead-letter-subscription": dead_letter["initial_subscription_name"] = s.next()
            case "decrypt": settings["crypto_key_reader"] = world.key_reader(s.next())
            case "still-encrypted": settings["crypto_failure_action"] = pulsar.ConsumerCryptoFailureAction.CONSUME
            case "property":
                key, value = s.next().split("=", 1)
                settings.setdefault("properties", {})[key] = value
            case "client": client = s.next()
            case _: raise ValueError(f"unknown consumer setting '{word}'")
    if dead_letter:
        settings["dead_letter_policy"] = pulsar.ConsumerDeadLetterPolicy(**dead_letter)
    where = re.compile(topics[0]) if pattern else topics if len(topics) > 1 else topics[0]
    handle = w.ConsumerHandle(name, topic, lambda: world.client(client).subscribe(where, subscription, **settings),
                              subscription=f"{topic} {subscription}", client=client)
    if name in world.consumers:         # a name used again is the same party to the rules about order
        handle.log, handle.closed = world.consumers[name].log, world.consumers[name].closed
    handle.target = handle.make()
    world.consumers[name] = handle


@verb
def reader(world, name, topic, position, *words):
    settings, client, s = {}, "main", Settings(words)
    while s:
        word = s.next()
        match word:
            case "inclusive": settings["start_message_id_inclusive"] = True
            case "queue": settings["receiver_queue_size"] = s.number()
            case "named": settings["reader_name"] = s.next()
            case "role": settings["subscription_role_prefix"] = s.next()
            case "read-compacted": settings["is_read_compacted"] = True
            case "client": client = s.next()
            case _: raise ValueError(f"unknown reader setting '{word}'")
    start = {"earliest": pulsar.MessageId.earliest, "latest": pulsar.MessageId.latest}.get(position)
    start = start or world.ids[topic, position]
    handle = w.ConsumerHandle(name, topic, lambda: world.client(client).create_reader(world.topic(topic), start, **settings),
                              subscription=f"{topic} reader {name}", kind="reader", client=client)
    handle.target = handle.make()
    world.consumers[name] = handle


def check_fields(record, pairs):
    """The `with` part of receive against a message."""
    message, got, want = record.message, {}, {}
    for key, value in pairs.items():
        match key:
            case "key": got[key] = message.partition_key()
            case "ordering-key": got[key] = message.ordering_key()
            case "redelivery": got[key] = str(message.redelivery_count())
            case "event-time": got[key] = str(message.event_timestamp())
            case "batch-index": got[key] = str(message.message_id().batch_index())
            case "partition": got[key] = str(message.message_id().partition())
            case "producer": got[key] = message.producer_name()
            case "topic": got[key] = message.topic_name().rsplit("/", 1)[1]
            case "schema-version": got[key] = message.schema_version() or "none"
            case _ if key.startswith("prop."): got[key] = message.properties().get(key[5:], "absent")
            case _: raise ValueError(f"unknown field '{key}' after 'with'")
        want[key] = value
    if got != want:
        raise w.Mismatch(f"{record.payload} with {want}", got)


@verb
def receive(world, names, *words):
    """receive C PAYLOADS in order | any-order PAYLOADS | key-order PAYLOADS | N ; several consumers: C1,C2."""
    words, pairs = language.options(list(words))
    seconds = w.WAIT
    if len(words) > 1 and words[-2] == "within":
        words, seconds = words[:-2], int(words[-1]) / 1000
    handles, in_order = world.consumer_list(names), True
    if words and words[0] == "any-order":
        in_order, words = False, words[1:]
    count = None
    if len(words) == 1 and words[0].isdigit():
        count, expected = int(words[0]), []
    else:
        expected = language.expand(words)
        # An expected payload without a size matches as it is; what is received shows its size always.
        expected = [language.render(language.encode(p)) for p in expected]
    total, got, deadline = count if count is not None else len(expected), [], time.monotonic() + seconds
    missing = list(expected)
    while len(got) < total:
        _, record = world.take_any(handles, max(0.001, deadline - time.monotonic()))
        if record is None:
            break
        got.append(record.payload)
        if count is None:
            if in_order and record.payload != expected[len(got) - 1] or record.payload not in missing:
                break
            missing.remove(record.payload)
        check_fields(record, pairs)
    if count is not None:
        if len(got) != count:
            raise w.Mismatch(f"{count} messages", f"{len(got)} within {seconds} s: {language.shorten(got)}")
    elif missing or (in_order and got != expected):
        place = "" if in_order else f" (any order; missing: {language.shorten(missing)})"
        raise w.Mismatch(language.shorten(expected) + place, language.shorten(got))


@verb
def nothing(world, names, *words):
    """nothing C [for MS]: no message arrives in that time (default 500)."""
    seconds = int(words[1]) / 1000 if words and words[0] == "for" else 0.5
    handle, record = world.take_any(world.consumer_list(names), seconds)
    if record:
        raise w.Mismatch(f"nothing within {seconds} s", f"{record.payload} on {handle.name}")


@verb
def drain(world, names, *words):
    """drain C [quiet MS] [ack]: receives until nothing comes for that long."""
    quiet, s, ack = 0.5, Settings(words), False
    while s:
        word = s.next()
        if word == "quiet":
            quiet = s.number() / 1000
        elif word == "ack":
            ack = True
        else:
            raise ValueError(f"unknown word '{word}'")
    while True:
        handle, record = world.take_any(world.consumer_list(names), quiet)
        if record is None:
            return
        if ack:
            handle.target.acknowledge(record.message)
            record.acked = True


@verb
def ack(world, name, *words):
    handle = world.consumer(name)
    for record in world.chosen(handle, list(words)):
        handle.target.acknowledge(record.message)
        record.acked = True


@verb
def ack_cumulative(world, name, payload):
    handle = world.consumer(name)
    last = world.find_received(handle, payload)
    handle.target.acknowledge_cumulative(last.message)
    for record in handle.log:
        record.acked = record.acked or record.order <= last.order


@verb
def nack(world, name, *words):
    handle = world.consumer(name)
    for record in world.chosen(handle, list(words)):
        handle.target.negative_acknowledge(record.message)


@verb
def redeliver(world, name):
    world.consumer(name).target.redeliver_unacknowledged_messages()


@verb
def seek(world, name, *words):
    handle = world.consumer(name)
    match list(words):
        case ["earliest"]: handle.target.seek(pulsar.MessageId.earliest)
        case ["latest"]: handle.target.seek(pulsar.MessageId.latest)
        case ["time", text]:
            m = re.fullmatch(r"(.+?)([+-]\d+)?", text)
            base = int(m[1]) if m[1].isdigit() else world.marks[m[1]]
            handle.target.seek(base + int(m[2] or 0))
        case [payload]: handle.target.seek(world.ids[handle.topic, payload])
        case _: raise ValueError("seek C earliest|latest|PAYLOAD|time MARK[+MS]")


@verb
def mark(world, name):
    """Remembers the time between two messages; the pauses keep them apart by more than the clock's grain."""
    time.sleep(0.02)
    world.marks[name] = int(time.time() * 1000)
    time.sleep(0.02)


@verb
def unsubscribe(world, name):
    world.consumer(name).target.unsubscribe()


@verb
def close(world, name):
    if name in world.producers:
        world.producers[name].producer.close()
    else:
        handle = world.consumer(name)
        if handle.worker:
            world.stop_worker(handle)
        handle.target.close()
        world.note_closed(handle)


@verb
def open_(world, name):
    """Opens a closed producer, consumer or reader again with the settings it had."""
    if name in world.producers:
        world.producers[name].producer = world.producers[name].make()
    else:
        world.consumer(name).target = world.consumer(name).make()


@verb
def shutdown(world, client):
    """Ends a client as a crash would: its sockets close, nothing is said to the broker before."""
    theirs = [h for h in world.consumers.values() if h.client == client]
    for handle in theirs:
        if handle.worker:
            handle.stop_worker.set()
    world.clients.pop(client).shutdown()
    for handle in theirs:
        world.note_closed(handle)


@verb
def work(world, name, *words):
    """work C [delay MS] [no-ack]: receives and acks in the background."""
    delay, acks, s = 0, True, Settings(words)
    while s:
        word = s.next()
        if word == "delay":
            delay = s.number() / 1000
        elif word == "no-ack":
            acks = False
        else:
            raise ValueError(f"unknown word '{word}'")
    world.start_worker(world.consumer(name), delay, acks)


@verb
def worked(world, names, *words):
    """worked C1,C2 PAYLOADS [within MS]: together they have received all of these (repeats allowed)."""
    words, seconds = list(words), w.WAIT * 3
    if len(words) > 1 and words[-2] == "within":
        words, seconds = words[:-2], int(words[-1]) / 1000
    expected = set(language.expand(words))
    handles = world.consumer_list(names)

    def check():
        got = {r.payload for h in handles for r in list(h.log)}
        if got != expected:
            missing, more = sorted(expected - got), sorted(got - expected)
            raise w.Mismatch(f"all of {len(expected)} payloads",
                             f"{len(got)}; missing {language.shorten(missing, 10)}; not sent {language.shorten(more, 10)}")

    eventually(check, seconds)


@verb
def key_order(world, names):
    """Payloads KEY/n: each key's first deliveries rise without a gap, and while somebody holds n+1 nobody else gets n."""
    handles = world.consumer_list(names)
    log = sorted(((r.order, h, r.payload) for h in handles for r in h.log), key=lambda x: x[0])
    newest, holders = {}, {}        # key -> highest n so far; key -> {consumer: (order, n) of its highest}
    for order, handle, payload in log:
        key, _, text = payload.rpartition("/")
        n = int(text)
        if n > newest.get(key, n - 1) + 1:
            raise w.Mismatch(f"{key}/{newest[key] + 1} next", f"{payload} on {handle.name}")
        for other, (when, highest) in holders.setdefault(key, {}).items():
            gone = any(when <= closed <= order for closed in other.closed)
            if other is not handle and highest > n and not gone:
                raise w.Mismatch(f"no {payload} elsewhere while {other.name} holds {key}/{highest}", f"it came to {handle.name}")
        newest[key] = max(n, newest.get(key, n))
        if n >= holders[key].get(handle, (0, -1))[1]:
            holders[key][handle] = (order, n)


@verb
def key_owners(world, names):
    """Payloads KEY/n: all of a key came to one consumer."""
    owners = {}
    for handle in world.consumer_list(names):
        for record in handle.log:
            owners.setdefault(record.payload.rpartition("/")[0], set()).add(handle.name)
    shared = {key: sorted(names) for key, names in owners.items() if len(names) > 1}
    if shared:
        raise w.Mismatch("one consumer a key", shared)
