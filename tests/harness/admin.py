"""The admin REST API, as thin as a test wants it: paths relative to /admin/v2, answers as they come."""
import requests


class AdminError(Exception):
    """A call that a test's set-up relies on was refused."""


class Admin:
    def __init__(self, web_url):
        self.web_url = web_url
        self.session = requests.Session()

    def call(self, method, path, body=None, timeout=30, headers=None):
        url = self.web_url + (path if path.startswith("/") else "/admin/v2/" + path)
        headers = dict(headers or {})
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
        return self.session.request(method, url, data=body, headers=headers, timeout=timeout)

    def must(self, method, path, body=None, allow=()):
        """The answer, which must be 2xx or one of `allow`."""
        answer = self.call(method, path, body)
        if answer.status_code // 100 != 2 and answer.status_code not in allow:
            raise AdminError(f"{method} {path}: HTTP {answer.status_code}: {answer.text[:500]}")
        return answer

    def json(self, path):
        return self.must("GET", path).json()


def at(value, path):
    """The value at a dotted path in parsed JSON: keys, list indexes, '#' for the length; KeyError when absent."""
    for step in path.split(".") if path else []:
        if step == "#":
            value = len(value)
        elif isinstance(value, list):
            if int(step) >= len(value):
                raise KeyError(f"index {step} of {len(value)} elements")
            value = value[int(step)]
        else:
            if not isinstance(value, dict) or step not in value:
                raise KeyError(step)
            value = value[step]
    return value
