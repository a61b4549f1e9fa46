# SPDX-License-Identifier: Apache-2.0
"""Starts the server as its users do, with the bundled model on a free port.

COLIBRI_BIN names another binary than build/release/colibri. Every server started here is ended here.
"""
import os
import pathlib
import queue
import re
import signal
import subprocess
import threading

import openai
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("COLIBRI_BIN", str(ROOT / "build" / "release" / "colibri"))
MODEL = str(ROOT / "models" / "colibri-tiny")
PATIENCE = 60  # seconds, for anything


class Server:
    """`lines` has all of standard error so far."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            [BINARY, "serve", *(arguments or (MODEL,)), "--port", "0", "--math", "fp32"],
            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        self.lines = []
        ready = queue.Queue()

        def read():
            for line in self.process.stderr:
                self.lines.append(line)
                found = re.match(r"colibri: serving (.+) on (http://127\.0\.0\.1:\d+) \(ready in [\d.]+ s\)", line)
                if found:
                    ready.put(found)
            ready.put(None)

        self.reader = threading.Thread(target=read)
        self.reader.start()
        found = ready.get(timeout=PATIENCE)
        if found is None:
            self.process.wait(PATIENCE)
            raise RuntimeError("the server did not start: " + "".join(self.lines))
        self.names, self.url = found[1], found[2]

    def client(self, **options):
        return openai.OpenAI(base_url=self.url + "/v1", api_key="none", max_retries=0, timeout=PATIENCE, **options)

    def signal(self, number=signal.SIGTERM):
        self.process.send_signal(number)

    def wait(self):
        code = self.process.wait(PATIENCE)
        self.reader.join(PATIENCE)
        return code

    def stop(self):
        if self.process.poll() is None:
            self.signal()
            try:
                self.wait()
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.wait()


@pytest.fixture(scope="session")
def server():
    one = Server()
    yield one
    one.stop()


@pytest.fixture()
def own_server():
    """For tests that end it."""
    one = Server()
    yield one
    one.stop()


@pytest.fixture(scope="session")
def client(server):
    return server.client()
