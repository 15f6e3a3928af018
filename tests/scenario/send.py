"""Verbs that make topics and producers and publish."""
import time

import pulsar

import language
import world as w
from verbs import Settings, verb


@verb
def create(world, topic, *words):
    path = world.topic_path(topic)
    if words:
        if words[0] != "partitions":
            raise ValueError("create TOPIC [partitions N]")
        world.admin.must("PUT", f"{path}/partitions", words[1])
        world.partitioned.add(topic)
    else:
        world.admin.must("PUT", path)


@verb
def delete(world, topic, *words):
    path = world.topic_path(topic) + ("/partitions" if topic in world.partitioned else "")
    world.admin.must("DELETE", path + ("?force=true" if "force" in words else ""))
    world.partitioned.discard(topic)


@verb
def unload(world, topic=None):
    world.admin.must("PUT", (world.topic_path(topic) if topic else f"namespaces/{world.namespace}") + "/unload")

@verb
def producer(world, name, topic, *words):
    settings, client, batch, s = {}, "main", 0, Settings(words)
    while s:
        word = s.next()
        match word:
            case "batch":
                batch = s.number()
                settings.update(batching_enabled=True, batching_max_messages=batch,
                                batching_max_allowed_size_in_bytes=4 << 20)
                settings.setdefault("batching_max_publish_delay_ms", 5000)
            case "batch-delay": settings["batching_max_publish_delay_ms"] = s.number()
            case "batch-bytes": settings["batching_max_allowed_size_in_bytes"] = s.number()
            case "key-based": settings["batching_type"] = pulsar.BatchingType.KeyBased
            case "compress": settings["compression_type"] = s.choice(w.CODECS)
            case "chunking": settings["chunking_enabled"] = True
            case "access": settings["access_mode"] = s.choice(w.ACCESS)
            case "named": settings["producer_name"] = s.next()
            case "initial-sequence": settings["initial_sequence_id"] = s.number()
            case "routing": settings["message_routing_mode"] = s.choice(w.ROUTING)
            case "send-timeout": settings["send_timeout_millis"] = s.number()
            case "max-pending": settings["max_pending_messages"] = s.number()
            case "lazy": settings["lazy_start_partitioned_producers"] = True
            case "encrypt":
                key = s.next()
                settings.update(encryption_key=key, crypto_key_reader=world.key_reader(key))
            case "property":
                key, value = s.next().split("=", 1)
                settings.setdefault("properties", {})[key] = value
            case "client": client = s.next()
            case _: raise ValueError(f"unknown producer setting '{word}'")
    world.add_producer(name, topic, settings, client, batch)


def send_fields(pairs):
    """The `with` part of produce -> arguments of Producer.send."""
    fields, pace = {}, 0
    for key, value in pairs.items():
        match key:
            case "key": fields["partition_key"] = value
            case "ordering-key": fields["ordering_key"] = value
            case "seq": fields["sequence_id"] = int(value)
            case "event-time": fields["event_timestamp"] = int(value)
            case "pace": pace = int(value) / 1000
            case "deliver-after":
                fields["deliver_at"] = int(time.time() * 1000) + int(value)
            case _ if key.startswith("prop."): fields.setdefault("properties", {})[key[5:]] = value
            case _: raise ValueError(f"unknown field '{key}' after 'with'")
    return fields, pace


@verb
def produce(world, target, *words):
    words, pairs = language.options(list(words))
    fields, pace = send_fields(pairs)
    batch = in_flight = False
    if words and words[0] in ("batch", "async"):
        batch, in_flight, words = words[0] == "batch", True, words[1:]
    if len(words) == 1 and words[0].isdigit():
        first = world.counters.get(target, 0)
        world.counters[target] = first + int(words[0])
        payloads = [f"m{n}" for n in range(first, first + int(words[0]))]
    else:
        payloads = language.expand(words)
    handle = world.producer(target, len(payloads) if batch else 0)
    world.send(handle, payloads, fields, in_flight or handle.batch > 1, pace)


@verb
def produce_keyed(world, target, *words):
    """produce-keyed TARGET KEYS... each N [with ...]: for n in 0..N-1, for each key: payload KEY/n with that key. A
    producer that batches has them all in flight at once."""
    words, pairs = language.options(list(words))
    fields, pace = send_fields(pairs)
    if len(words) < 3 or words[-2] != "each":
        raise ValueError("produce-keyed TARGET KEYS... each N")
    keys, count = language.expand(words[:-2]), int(words[-1])
    handle = world.producer(target)
    first = world.counters.get(target + "#keyed", 0)
    world.counters[target + "#keyed"] = first + count
    if handle.batch > 1:
        pairs = [(f"{key}/{n}", key) for n in range(first, first + count) for key in keys]
        world.send(handle, [p for p, _ in pairs], [dict(fields, partition_key=k) for _, k in pairs], True, pace)
        return
    for n in range(first, first + count):
        for key in keys:
            world.send(handle, [f"{key}/{n}"], dict(fields, partition_key=key), False, pace)


@verb
def put(world, target, *words):
    """put TARGET [batch] KEY=VALUE...: messages with these keys and payloads; KEY= has no value, =VALUE no key."""
    batch = words[0] == "batch"
    pairs = [word.split("=", 1) for word in words[int(batch):]]
    payloads = [value for _, value in pairs]
    fields = [{"partition_key": key} if key else {} for key, _ in pairs]
    world.send(world.producer(target, len(pairs) if batch else 0), payloads, fields, batch, 0)


@verb
def flush(_world, name):
    _world.producers[name].producer.flush()
