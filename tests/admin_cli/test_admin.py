"""`geminga admin` against a real broker, where recordings of pulsar-admin show nothing."""
import http.server
import json
import pathlib
import shutil
import subprocess
import sys
import threading

import pulsar
import pytest
import requests

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from harness import paths  # noqa: E402
from harness.broker import Geminga  # noqa: E402


class Admin:
    def __init__(self, broker):
        self.broker = broker

    def run(self, *words, stdin=""):
        return subprocess.run([paths.GEMINGA, "admin", "--admin-url", self.broker.web_url, *words], input=stdin,
                              capture_output=True, text=True, timeout=30)

    def ok(self, *words, stdin=""):
        done = self.run(*words, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def admin():
    with Geminga(config={"transactionCoordinatorEnabled": "true", "forceDeleteTenantAllowed": "true",
                         "forceDeleteNamespaceAllowed": "true"}) as broker:
        yield Admin(broker)


def publish(broker, topic, *payloads):
    client = pulsar.Client(broker.url)
    producer = client.create_producer(topic)
    for payload in payloads:
        producer.send(payload)
    client.close()


def backlog(admin, topic, subscription):
    return json.loads(admin.ok("topics", "stats", topic))["subscriptions"][subscription]["msgBacklog"]


def test_clearing_a_namespace_asks_first(admin):
    admin.ok("topics", "create-subscription", "-s", "s", "-m", "earliest", "public/default/t")
    publish(admin.broker, "public/default/t", b"a")
    for answer in ("n\n", ""):
        refused = admin.run("namespaces", "clear-backlog", "public/default", stdin=answer)
        assert refused.returncode != 0
        assert "Are you sure" in refused.stderr and "--force" in refused.stderr
        assert backlog(admin, "public/default/t", "s") == 1
    admin.ok("namespaces", "clear-backlog", "public/default", stdin="y\n")
    assert backlog(admin, "public/default/t", "s") == 0
    publish(admin.broker, "public/default/t", b"a")
    admin.ok("namespaces", "clear-backlog", "public/default", "--force")
    assert backlog(admin, "public/default/t", "s") == 0


def test_statistics_of_more_topics_than_an_answer_has_in_one_piece(admin):
    assert json.loads(admin.ok("broker-stats", "topics")) == {}
    session = requests.Session()
    wanted = set()
    for name_space in ("public/a", "public/b"):
        admin.ok("namespaces", "create", name_space)
        for i in range(70):
            wanted.add(f"persistent://{name_space}/t{i}")
            made = session.put(f"{admin.broker.web_url}/admin/v2/persistent/{name_space}/t{i}", timeout=10)
            assert made.status_code == 204
    client = pulsar.Client(admin.broker.url)
    producer = client.create_producer("non-persistent://public/a/n")
    shown = json.loads(admin.ok("broker-stats", "topics"))
    found = {name: stats for bundles in shown.values() for domains in bundles.values() for topics in domains.values()
             for name, stats in topics.items()}
    assert set(found) == wanted | {"non-persistent://public/a/n"}
    assert found["non-persistent://public/a/n"]["producerCount"] == 1
    assert set(shown) == {"public/a", "public/b"} and len(shown["public/a"]) == 4, "by bundle"
    producer.close()
    client.close()


def test_a_cluster_from_a_file(admin, tmp_path):
    file = tmp_path / "cluster.yaml"
    file.write_text("serviceUrl: http://a:8080\nbrokerServiceUrl: pulsar://a:6650\nbrokerClientTlsEnabled: true\n"
                    "brokerClientTlsTrustStoreType: PKCS12\n")
    admin.ok("clusters", "create", "c", "--cluster-config-file", file, "--url", "http://b:8080")
    shown = admin.ok("clusters", "get", "c")
    assert '"serviceUrl" : "http://b:8080"' in shown, "the command line goes first"
    assert '"brokerServiceUrl" : "pulsar://a:6650"' in shown
    assert '"brokerClientTlsEnabled" : true' in shown
    assert '"brokerClientTlsTrustStoreType" : "PKCS12"' in shown
    file.write_text("service-url: http://a:8080\n")
    refused = admin.run("clusters", "create", "d", "--cluster-config-file", file)
    assert refused.returncode != 0 and f"{file}, line 1: service-url" in refused.stderr
    assert "d" not in admin.ok("clusters", "list").split()


def test_a_cluster_is_deleted_with_all_that_is_in_it(admin):
    admin.ok("clusters", "create", "c", "--url", "http://c:8080")
    admin.ok("tenants", "create", "mine")
    admin.ok("namespaces", "create", "mine/ns")
    admin.ok("topics", "create-partitioned-topic", "-p", "2", "mine/ns/t")
    admin.ok("clusters", "delete", "c", "-a")
    assert admin.ok("clusters", "list").split() == ["standalone"]
    assert "mine" not in admin.ok("tenants", "list").split()


class Positions(http.server.BaseHTTPRequestHandler):
    """Answers `.../position/N` as a broker does whose log holds a marker and messages of transactions."""
    LOG = [{"X-Pulsar-marker-type": "21"}, {"X-Pulsar-txn-aborted": "true", "X-Pulsar-txn-uncommitted": "false"},
           {"X-Pulsar-txn-aborted": "false", "X-Pulsar-txn-uncommitted": "true"}, {}]

    def log_message(self, *_):
        pass

    def do_GET(self):
        at = int(self.path.rsplit("/", 1)[1])
        known = at <= len(self.LOG)
        body = f"entry {at}".encode() if known else b'{"reason":"Message not found"}'
        self.send_response(200 if known else 404)
        self.send_header("Content-Length", str(len(body)))
        for name, value in ({**self.LOG[at - 1], "X-Pulsar-Message-ID": f"1:{at}"} if known else {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@pytest.mark.parametrize("options, seen", [((), [4]), (("-ssm",), [1, 4]), (("-til", "READ_UNCOMMITTED"), [2, 3, 4]),
                                           (("-ssm", "-til", "read-uncommitted", "-n", "2"), [1, 2])])
def test_peek_shows_what_readers_see(options, seen):
    server = http.server.HTTPServer(("127.0.0.1", 0), Positions)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        done = subprocess.run([paths.GEMINGA, "admin", "--admin-url", f"http://127.0.0.1:{server.server_address[1]}",
                               "topics", "peek-messages", "-s", "s", "-n", "9", *options, "t"],
                              capture_output=True, text=True, timeout=30)
    finally:
        server.shutdown()
        server.server_close()
    assert done.returncode == 0, done.stderr
    assert [at for at in range(1, 5) if f"1:{at}" in done.stdout] == seen, done.stdout


def test_peek_refuses_an_isolation_level_that_there_is_not(admin):
    wrong = admin.run("topics", "peek-messages", "-s", "s", "-til", "sometimes", "public/default/t")
    assert wrong.returncode != 0 and "READ_UNCOMMITTED" in wrong.stderr


# How each shell asks: it sets the words and the cursor, calls the function, and takes what that leaves or adds.
ASK = {
    "bash": 'source <(geminga admin completion bash); COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _geminga_admin; '
            'printf "%s\\n" "${COMPREPLY[@]}"',
    "zsh": 'compdef() {}; compadd() { shift; print -l -- "$@" }; source <(geminga admin completion zsh); '
           'words=("$@"); CURRENT=$#; _geminga_admin',
}


@pytest.mark.parametrize("shell", [pytest.param(name, marks=pytest.mark.skipif(not shutil.which(name), reason=f"no {name}"))
                                   for name in ASK])
def test_completion_in_a_shell(shell):
    def complete(*words):
        done = subprocess.run([shell, "-c", f'PATH="{paths.GEMINGA.parent}:$PATH"; {ASK[shell]}', shell, *words],
                              capture_output=True, text=True, timeout=30)
        assert done.returncode == 0 and not done.stderr, done.stderr
        return done.stdout.split()

    assert {"tenants", "topics", "topicPolicies"} <= set(complete("pulsar-admin", "t"))
    assert "create-partitioned-topic" in complete("pulsar-admin", "topics", "create-p")
    assert complete("geminga", "admin", "topics", "create-p") == ["create-partitioned-topic"]
    assert "--subscription" in complete("geminga", "admin", "topics", "peek-messages", "--s")
    assert complete("geminga", "admin", "nothing", "x") == []
