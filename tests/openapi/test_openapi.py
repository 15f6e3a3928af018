"""The description at /openapi.json is valid, and requests made from it at random never bring the broker down or to an answer of
500 and above (501 names what is not built). What is random is the same each time: derandomized."""
import os
import pathlib
import sys

import hypothesis
import pytest
import requests
import schemathesis
from openapi_spec_validator import validate

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from harness.broker import Geminga  # noqa: E402

EXAMPLES = int(os.environ.get("GEMINGA_OPENAPI_EXAMPLES", "4"))     # of each operation
# The twins of the old form, /admin without a version, have the same handlers.
OPERATIONS = "^/(admin/v[23]/|lookup/|openapi|metrics)"


@pytest.fixture(scope="module")
def broker():
    with Geminga(config={"forceDeleteTenantAllowed": "true", "forceDeleteNamespaceAllowed": "true"}) as it:
        # Something to find: most random names name nothing.
        session = requests.Session()
        for method, path, body in (("PUT", "tenants/0", {"adminRoles": [], "allowedClusters": ["standalone"]}),
                                   ("PUT", "namespaces/0/0", None), ("PUT", "persistent/0/0/0", None),
                                   ("PUT", "persistent/0/0/0/subscription/0", None)):
            answer = session.request(method, f"{it.web_url}/admin/v2/{path}", json=body, timeout=10)
            assert answer.status_code // 100 == 2, f"{method} {path}: {answer.status_code} {answer.text}"
        yield it


@pytest.fixture(scope="module")
def document(broker):
    return requests.get(f"{broker.web_url}/openapi.json", timeout=10).json()


def test_the_description_is_valid(document):
    validate(document)
    assert len(document["paths"]) > 400


def test_no_request_ends_in_a_server_error(broker, document):
    schema = schemathesis.openapi.from_dict(document).include(path_regex=OPERATIONS)
    session, answers, failures = requests.Session(), {}, []
    for found in schema.get_all_operations():
        operation = found.ok()

        @hypothesis.settings(max_examples=EXAMPLES, deadline=None, database=None, derandomize=True,
                             suppress_health_check=list(hypothesis.HealthCheck), phases=[hypothesis.Phase.generate])
        @hypothesis.given(case=operation.as_strategy())
        def ask(case):
            answer = case.call(base_url=broker.web_url, session=session, timeout=20)
            answers[answer.status_code // 100] = answers.get(answer.status_code // 100, 0) + 1
            if answer.status_code >= 500 and answer.status_code != 501:
                failures.append(f"{case.method} {answer.request.url} {str(case.body)[:100]}: {answer.status_code} {answer.text[:200]}")

        ask()
    assert broker.running(), broker.tail()
    assert not failures, f"{len(failures)}:\n" + "\n".join(failures[:20])
    assert answers.get(2, 0) > 100 and answers.get(4, 0) > 100, answers
