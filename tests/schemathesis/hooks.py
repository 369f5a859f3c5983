"""Things that are really there, for requests that would otherwise only ever name what is not: sessions, questions,
prompts. Some requests keep what schemathesis made up. At the end: what each operation answered."""

import atexit
import collections
import json
import os
import random
import urllib.error
import urllib.parse
import urllib.request

import schemathesis

URL = os.environ["HOLDPOINT_URL"]
TOKEN = os.environ["HOLDPOINT_TOKEN"]
WORKSPACE = os.environ["HOLDPOINT_WORKSPACE"]
REAL = 0.75  # of the requests name something real, where they name something
REFILL = 20  # requests between two looks at what is there

chance = random.Random(int(os.environ.get("SCHEMATHESIS_SEED", "1")))
sessions, questions, prompts = [], [], []
calls = 0
answered = collections.defaultdict(collections.Counter)


def call(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(URL + path, data, method=method)
    request.add_header("Authorization", "Bearer " + TOKEN)
    request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=20) as response:
            return json.load(response)
    except urllib.error.HTTPError:
        return {}


def refill():
    """A session with a question that waits, and a prompt that waits behind it."""
    made = call("POST", "/session", {"sessionScope": "thread"})
    idle = call("POST", "/session", {"sessionScope": "thread"})
    if "sessionId" in made and "sessionId" in idle:
        sessions.extend((made, idle))
        del sessions[:-8]
        prompt = {"prompt": [{"type": "text", "text": "ask me"}]}
        for _ in range(2):
            accepted = call("POST", f"/session/{made['sessionId']}/prompt", prompt)
            if "promptId" in accepted:
                prompts.append((made["sessionId"], accepted["promptId"]))
        del prompts[:-8]
    questions[:] = call("GET", "/questions?limit=20").get("questions", [])


def real():
    return chance.random() < REAL


@schemathesis.hook
def before_call(context, case, kwargs):
    global calls
    if calls % REFILL == 0:
        refill()
    calls += 1
    path, at, body = case.operation.path, case.path_parameters or {}, case.body
    body = body if isinstance(body, dict) else None
    session = chance.choice(sessions) if sessions else {}
    question = chance.choice(questions) if questions else {}
    if "{cwd}" in path and real():
        at["cwd"] = urllib.parse.quote(WORKSPACE, safe="")
    if path.startswith("/session/{id}") and session and real():
        at["id"] = session["sessionId"]
        if "{request}" in path and question.get("requestId"):
            at["id"], at["request"] = question["sessionId"], question["requestId"]
        if "{prompt}" in path and prompts:
            at["id"], at["prompt"] = chance.choice(prompts)
        if case.headers and "X-Qwen-Client-Id" in case.headers:
            if chance.random() < 0.5:
                del case.headers["X-Qwen-Client-Id"]
            elif chance.random() < 0.5:
                case.headers["X-Qwen-Client-Id"] = session["clientId"]
    if path.startswith("/permission/") and question.get("requestId") and real():
        at["request"] = question["requestId"]
    if path.startswith("/questions/{id}") and question and real():
        at["id"] = question["questionId"]
        if body is not None and real():
            body["generation"] = question["generation"]
            if path.endswith("/answer") and real():
                for key in ("answers", "optionId", "decline"):
                    body.pop(key, None)
                parts = question.get("questions", [])
                body["answers"] = {part["answerKey"]: part["options"][0]["label"] for part in parts}
    if body is not None and "cwd" in body and real():
        body["cwd"] = WORKSPACE
    if path == "/sessions/delete" and body is not None and session and chance.random() < 0.3:
        body["sessionIds"] = [session["sessionId"]]


@schemathesis.hook
def after_call(context, case, response):
    answered[f"{case.method.upper()} {case.operation.path}"][response.status_code] += 1


@atexit.register
def report():
    print("\nWhat each operation answered, and how often:")
    for operation, statuses in sorted(answered.items()):
        if set(statuses) == {405}:
            continue
        line = "  ".join(f"{status}: {count}" for status, count in sorted(statuses.items()))
        print(f"  {operation:48} {line}" + ("" if any(s < 300 for s in statuses) else "   (never a success)"))
