#!/usr/bin/env python3
"""Data-parallel training through a topic: workers publish gradients, parameter servers add them up.

Eight workers compute gradients for each partition of a model and publish them with the partition as key; the client
batches them as it likes. Three parameter servers share one Key_Shared subscription: all gradients of a partition come
to one of them, in order, so each keeps its sums without a lock and without asking the others. It writes the new weights
back to a topic that every worker reads.

    pip install pulsar-client
    python3 examples/gradients.py [pulsar://localhost:6650]
"""
import json
import sys
import threading

import pulsar

WORKERS, SERVERS, PARTITIONS, STEPS, RATE = 8, 3, 32, 5, 0.1


def worker(client, number, topic, final):
    """Minimizes (w - target)^2 for each partition; the target is the partition's number."""
    weights = [0.0] * PARTITIONS
    updates = client.create_reader(f"{topic}-weights", pulsar.MessageId.earliest)
    producer = client.create_producer(f"{topic}-gradients", batching_enabled=True)
    for step in range(STEPS):
        for partition in range(PARTITIONS):
            gradient = 2 * (weights[partition] - partition) / WORKERS
            body = json.dumps({"step": step, "worker": number, "gradient": gradient})
            producer.send_async(body.encode(), lambda result, _id: None, partition_key=f"partition-{partition}")
        producer.flush()
        for _ in range(PARTITIONS):
            message = updates.read_next(30000)
            update = json.loads(message.data())
            assert update["step"] == step, "an update of another step"
            weights[int(message.partition_key().split("-")[1])] = update["weight"]
    final[number] = weights


def parameter_server(client, consumer, topic, stop):
    sums, weights = {}, {}
    producer = client.create_producer(f"{topic}-weights", batching_enabled=True)
    while not stop.is_set():
        try:
            message = consumer.receive(200)
        except pulsar.Timeout:
            continue
        key, part = message.partition_key(), json.loads(message.data())
        count, total = sums.get((key, part["step"]), (0, 0.0))
        sums[key, part["step"]] = count + 1, total + part["gradient"]
        if count + 1 == WORKERS:
            _, total = sums.pop((key, part["step"]))
            weights[key] = weights.get(key, 0.0) - RATE * total
            producer.send(json.dumps({"step": part["step"], "weight": weights[key]}).encode(), partition_key=key)
        consumer.acknowledge(message)


def train(url, topic="train"):
    """The weights that each worker ends with."""
    client, stop, final = pulsar.Client(url), threading.Event(), {}
    consumers = [client.subscribe(f"{topic}-gradients", "parameter-servers", consumer_type=pulsar.ConsumerType.KeyShared)
                 for _ in range(SERVERS)]
    threads = [threading.Thread(target=parameter_server, args=(client, c, topic, stop)) for c in consumers]
    workers = [threading.Thread(target=worker, args=(client, n, topic, final)) for n in range(WORKERS)]
    for thread in threads + workers:
        thread.start()
    for thread in workers:
        thread.join()
    stop.set()
    for thread in threads:
        thread.join()
    client.close()
    return final


if __name__ == "__main__":
    result = train(sys.argv[1] if len(sys.argv) > 1 else "pulsar://localhost:6650")
    print(f"{len(result)} workers agree: {len({tuple(w) for w in result.values()}) == 1}; "
          f"partition 31 after {STEPS} steps: {result[0][31]:.3f}")
