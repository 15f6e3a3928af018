"""Namespaces with logs, shards and a volume of their own (docs/guides/isolation.md): what they hold outlives kills and changed
settings, and a volume that is gone is named."""
import subprocess

import pulsar
import pytest
import requests

from harness import wire
from harness.broker import BrokerError, Geminga
from harness.paths import GEMINGA

TOPIC = "persistent://public/apart/t"


@pytest.fixture
def folder(tmp_path):
    return tmp_path


def start(folder, groups, **more):
    config = {"isolationGroups": groups} if groups else {}
    return Geminga(data_dir=folder / "data", shards=2, config=config, **more)


def policies(broker):
    return f"{broker.web_url}/admin/v2/namespaces/public/apart"


def isolate(broker, group="bulk"):
    assert requests.put(policies(broker), timeout=10).status_code == 204
    assert requests.put(f"{policies(broker)}/property/isolation/{group}", timeout=10).status_code == 204


def publish(broker, count):
    client = pulsar.Client(broker.url)
    client.subscribe(TOPIC, "keeps").close()  # without a subscription nothing need be kept
    producer = client.create_producer(TOPIC)
    for i in range(count):
        producer.send(str(i).encode())
    client.close()


def received(broker, count):
    client = pulsar.Client(broker.url)
    reader = client.create_reader(TOPIC, pulsar.MessageId.earliest)
    found = [reader.read_next(5000).data().decode() for _ in range(count)]
    client.close()
    return found


def doctor(folder):
    return subprocess.run([GEMINGA, "doctor", "--data-dir", folder / "data"], capture_output=True, text=True, timeout=60)


def test_what_a_group_holds_outlives_kills_and_settings(folder):
    groups = f"bulk:shards=1,port=0,volume={folder}/volume"
    broker = start(folder, groups)
    with broker:
        isolate(broker)
        publish(broker, 100)
        shared, own = broker.url, requests.get(f"{broker.web_url}/lookup/v2/topic/persistent/public/apart/t",
                                               timeout=10).json()["brokerUrl"]
        assert own.rsplit(":", 1)[1] != shared.rsplit(":", 1)[1], "a port of its own"
        stats = requests.get(f"{broker.web_url}/admin/v2/persistent/public/apart/t/internalStats", timeout=10).json()
        assert stats["ledgers"][0]["ledgerId"] >= 1 << 40
        broker.kill()
        checked = doctor(folder)
        assert checked.returncode == 0 and f"{folder}/volume/log-0" in checked.stdout, checked.stdout + checked.stderr
        broker.start()
        assert received(broker, 100) == [str(i) for i in range(100)]
    # Not named any more it lives with the others; what it holds is there.
    with start(folder, "") as broker:
        assert received(broker, 100) == [str(i) for i in range(100)]
        refused = requests.delete(f"{policies(broker)}/property/isolation", timeout=10)
        assert refused.status_code == 412 and "holds no topics" in refused.json()["reason"]


def test_a_binding_follows_what_the_namespace_holds(folder):
    with start(folder, "bulk:shards=1;other:shards=1") as broker:
        isolate(broker)
        where = f"{policies(broker)}/property/isolation"
        assert requests.put(f"{where}/nowhere", timeout=10).status_code == 412
        assert requests.put(f"{where}/other", timeout=10).status_code == 204, "it holds nothing"
        publish(broker, 1)
        for group in ("bulk", "other"):
            answer = requests.put(f"{where}/{group}", timeout=10)
            assert answer.status_code == (204 if group == "other" else 412), answer.text
        topic = f"{broker.web_url}/admin/v2/persistent/public/apart/t"
        assert requests.delete(topic, params={"force": "true"}, timeout=10).status_code == 204
        assert requests.delete(where, timeout=10).status_code in (200, 204)
        publish(broker, 3)
        stats = requests.get(f"{topic}/internalStats", timeout=10).json()
        assert stats["ledgers"][0]["ledgerId"] < 1 << 40, "back in the logs of everybody"
    with start(folder, "bulk:shards=1") as broker:
        created = requests.put(f"{broker.web_url}/admin/v2/namespaces/public/born", timeout=10,
                               json={"properties": {"isolation": "bulk"}})
        assert created.status_code == 204
        refused = requests.put(f"{broker.web_url}/admin/v2/namespaces/public/born2", timeout=10,
                               json={"properties": {"isolation": "gone"}})
        assert refused.status_code == 412 and "isolationGroups names: bulk" in refused.json()["reason"]
        assert "public/born2" not in requests.get(f"{broker.web_url}/admin/v2/namespaces/public", timeout=10).json()


def test_a_volume_that_is_gone_is_named(folder):
    groups = f"bulk:volume={folder}/volume"
    with start(folder, groups) as broker:
        isolate(broker)
        publish(broker, 1)
    (folder / "volume").rename(folder / "elsewhere")
    for text in (groups, ""):
        with pytest.raises(BrokerError, match="volume/log-0 is missing"):
            start(folder, text).start()
    checked = doctor(folder)
    assert checked.returncode == 6 and f"{folder}/volume/log-0 is missing" in checked.stdout
    assert not (folder / "volume").exists()
    with start(folder, f"bulk:volume={folder}/elsewhere") as broker:
        assert received(broker, 1) == ["0"]


def test_only_a_port_of_its_own_is_connected_to_past_the_address_that_was_dialled(folder):
    """With a loopback address advertised clients elsewhere get here only through the address they know already."""
    def lookup(topic):
        connection = wire.Connection(broker)
        connection.send(wire.LOOKUP, {1: topic, 2: connection.request_id()})
        found = connection.expect(wire.LOOKUP_RESPONSE)
        return found[1][0].decode(), found.get(8, [0])[0]

    with start(folder, "bulk:shards=1,port=0;near:shards=1") as broker:
        isolate(broker)
        assert lookup("persistent://public/default/t") == (broker.url, 1)
        url, proxied = lookup(TOPIC)
        assert url != broker.url and not proxied
        requests.put(f"{broker.web_url}/admin/v2/namespaces/public/near", timeout=10)
        requests.put(f"{broker.web_url}/admin/v2/namespaces/public/near/property/isolation/near", timeout=10)
        assert lookup("persistent://public/near/t") == (broker.url, 1), "no port, no address"


@pytest.mark.parametrize("groups, message", [("Bulk:shards=1", "a-z"), ("a:shards=7", "no shard 7"),
                                             ("a:shards=0+1", "one at least must be left"), ("a:port=x", "no port")])
def test_settings_that_cannot_be_are_refused(folder, groups, message):
    with pytest.raises(BrokerError, match=message):
        start(folder, groups).start()
