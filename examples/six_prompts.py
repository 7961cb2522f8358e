"""Which of six prompts is best, asked of a pretended paid endpoint that fails now and then.

In one terminal, and then in another one, which you may stop at any time and start again:

    python examples/six_prompts.py endpoint
    python examples/six_prompts.py race

The endpoint answers 62 to 86 % of questions correctly, depending on the prompt, and counts what was
paid for. Replace `score` by a call of your own model.
"""

from __future__ import annotations

import json
import random
import sys
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import fairtrial as ft

PORT = 8123
PROMPTS = {
    "short": "Answer with a number: {question}",
    "steps": "Think step by step: {question}",
    "expert": "You are a mathematician: {question}",
    "careful": "Be careful: {question}",
    "french": "Translate into French, then answer: {question}",
    "check": "Check your answer twice: {question}",
}
SKILLS = {"short": 0.62, "steps": 0.86, "expert": 0.70, "careful": 0.66, "french": 0.55}
QUESTIONS = [{"question": f"{number} times 2?", "answer": number * 2} for number in range(500)]


class Endpoint(ThreadingHTTPServer):
    """A pretended paid endpoint.

    Parameters
    ----------
    port : int
        Its port on this machine; 0 for any.
    failing : float
        The share of requests that fail.
    """

    def __init__(self, port: int = PORT, failing: float = 0.05) -> None:
        super().__init__(("127.0.0.1", port), _Answers)
        self.failing = failing
        self.paid = 0


class _Answers(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, Endpoint)
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if random.random() < server.failing:
            self.send_error(503, "overloaded")
            return
        server.paid += 1
        name = next(name for name, prompt in PROMPTS.items() if prompt == asked["prompt"])
        number = int(asked["question"].split()[0])
        is_right = random.Random(f"{name} {number}").random() < SKILLS.get(name, 0.8)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(number * 2 if is_right else -1).encode())

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def race(storage: Path | str = "sqlite:///race.db", port: int = PORT) -> ft.races.RaceResult:
    """Race the prompts, or continue a race that was stopped."""

    def score(prompt: str, item: dict[str, object]) -> float:
        body = json.dumps({"prompt": prompt, "question": item["question"]}).encode()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}", body) as reply:
            return float(json.load(reply) == item["answer"])

    return ft.race(
        PROMPTS,
        QUESTIONS,
        score,
        reward_range=(0, 1),
        tolerance=0.05,
        cost=0.01,
        parallel=16,
        storage=storage,
        progress=True,
    )


if __name__ == "__main__":
    if sys.argv[1:] == ["endpoint"]:
        Endpoint().serve_forever()
    result = race()
    print(result)
    print(result.guarantee.label, "-", result.guarantee.statement)
    for row in result.rows():
        print(row["candidate"], row["state"], row["evaluations"], row["mean"])
