"""The how-to for web applications holds in Django, served by several processes of gunicorn."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx
import psutil
import pytest

from fairtrial.study import Study
from tests import effort
from tests.test_web_applications import MODULE, TEXT

[VIEWS] = re.findall(r'```python title="shop/views.py"\n(.*?)```', TEXT, re.DOTALL)
[ROUTES] = re.findall(r'```python title="urls.py"\n(.*?)```', TEXT, re.DOTALL)
[COMMAND] = re.findall(r"```sh\n(gunicorn .*?)\n```", TEXT, re.DOTALL)
[LOGGING] = re.findall(r"^LOGGING = \{.*?^\}", TEXT, re.DOTALL | re.MULTILINE)

VISITORS = 12


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A new project with the default settings of Django, and the modules of the page."""
    folder = tmp_path_factory.mktemp("project")
    run(folder, "-m", "django", "startproject", "shopsite", ".")
    (folder / "shop").mkdir()
    (folder / "shop/__init__.py").touch()
    (folder / "shop/experiment.py").write_text(MODULE, encoding="utf-8")
    (folder / "shop/views.py").write_text(VIEWS, encoding="utf-8")
    (folder / "shopsite/urls.py").write_text(ROUTES, encoding="utf-8")
    with (folder / "shopsite/settings.py").open("a", encoding="utf-8") as settings:
        settings.write(LOGGING)
    run(folder, "manage.py", "migrate", "--verbosity", "0")
    return folder


KINDS = ["sqlite", "postgresql"]


@pytest.fixture
def storage(request, tmp_path):
    """The address of the storage of the study."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/shop.db"
    return request.getfixturevalue("postgresql_url")


def run(folder, *arguments, **environment):
    """Run Python in a folder, and return what it prints."""
    command = [sys.executable, *arguments]
    told = dict(os.environ, **environment)
    done = subprocess.run(
        command, cwd=folder, env=told, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class Site:
    """The project, served by the command of the page; the modules are loaded before the fork."""

    def __init__(self, folder, storage, log):
        self._log = log
        options = "--preload --bind 127.0.0.1:0 --access-logfile - --access-logformat %(p)s@%(U)s"
        with log.open("w", encoding="utf-8") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *COMMAND.split(), *options.split()],
                cwd=folder,
                env=dict(os.environ, EXPERIMENT_STORAGE=storage),
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self.url = self._started()

    def _started(self):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            found = re.search(r"Listening at: (http://\S+)", self.log)
            if found:
                return found[1]
            assert self.process.poll() is None, self.log
            time.sleep(0.05)
        raise AssertionError(self.log)

    @property
    def log(self):
        return self._log.read_text(encoding="utf-8")

    @property
    def requests(self):
        """The number of requests that each process has answered."""
        return Counter(re.findall(r"^<(\d+)>@/", self.log, re.MULTILINE))

    def workers(self):
        return [child.pid for child in psutil.Process(self.process.pid).children()]

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=60)


@pytest.fixture
def site(project, storage, tmp_path):
    served = Site(project, storage, tmp_path / "gunicorn.log")
    yield served
    served.close()


def visitor(site):
    """Return a browser, which keeps the cookies of a visitor."""
    return httpx.Client(base_url=site.url, timeout=60)


def shown(browser):
    return browser.get("/checkout", params={"group": "phone"}).raise_for_status().json()["variant"]


def order(browser):
    token = browser.cookies.get("csrftoken", "")
    return browser.post("/orders", headers={"X-CSRFToken": token})


@pytest.mark.parametrize("storage", effort.first(1, KINDS), indirect=True)
def test_each_visitor_sees_one_variant_and_counts_once_whichever_process_answers(site, storage):
    browsers = [visitor(site) for _ in range(VISITORS)]
    with ThreadPoolExecutor(6) as pool:
        first = list(pool.map(shown, browsers))
        again = [list(pool.map(shown, browsers)) for _ in range(3)]
        orders = [list(pool.map(order, browsers[:5])) for _ in range(2)]
    assert again == [first] * 3
    assert {answer.status_code for answers in orders for answer in answers} == {200}
    assert [[answer.json() for answer in answers] for answers in orders] == [
        [{"counted": True}] * 5
    ] * 2
    assert len(site.requests) > 1, "one process answered everything"
    with Study.open(storage, "checkout") as study:
        kinds = Counter(event.kind for event in study.events())
        assert (kinds["ask"], study.progress().told) == (VISITORS, 5)
        assert study.verify().ok
    for browser in browsers:
        browser.close()


@pytest.mark.parametrize("storage", effort.first(1, KINDS[::-1]), indirect=True)
def test_a_process_that_is_killed_changes_nothing_for_the_visitors(site, storage):
    with visitor(site) as browser:
        first = shown(browser)
        assert browser.post("/orders").status_code == 403, "Django asks for its token"
        for worker in site.workers():
            os.kill(worker, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while True:
            try:
                again = shown(browser)
                break
            except httpx.TransportError:
                assert time.monotonic() < deadline
        assert again == first
        assert order(browser).json() == {"counted": True}
    with Study.open(storage, "checkout") as study:
        assert study.progress().told == 1


def test_an_outcome_stays_if_the_transaction_around_it_is_undone_unless_it_waits(project):
    script = """
import json
from django.db import transaction
from shop.experiment import checkout_study, converted, variant

for visitor in ("now", "later"):
    variant(visitor, "phone")
try:
    with transaction.atomic():
        converted("now", 1.0)
        transaction.on_commit(lambda: converted("later", 1.0))
        raise RuntimeError("the order failed")
except RuntimeError:
    told = [checkout_study().progress().told]
with transaction.atomic():
    transaction.on_commit(lambda: converted("later", 1.0))
told.append(checkout_study().progress().told)
print(json.dumps(told))
"""
    printed = run(project, "manage.py", "shell", "-c", script, EXPERIMENT_STORAGE="memory://")
    assert json.loads(printed.splitlines()[-1]) == [1, 2]
