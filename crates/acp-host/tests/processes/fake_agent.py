#!/usr/bin/env python3
"""An ACP agent for tests. A prompt's text is a script of commands, separated by ';'.

What it receives, and how it ends, is appended to the file $RECORD, one line each."""

import json
import os
import signal
import subprocess
import sys
import threading

FLAGS = set(sys.argv[1:])
OURS = "--ours" in FLAGS
out_lock = threading.Lock()
answers = {}
answered = threading.Condition()
counter = 0
deaf = False


def record(text):
    path = os.environ.get("RECORD")
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(text + "\n")


def raw(text):
    with out_lock:
        sys.stdout.write(text)
        sys.stdout.flush()


def send(**message):
    raw(json.dumps({"jsonrpc": "2.0", **message}) + "\n")


def update(session, text, **meta):
    body = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    if meta:
        body["_meta"] = meta
    send(method="session/update", params={"sessionId": session, "update": body})


def request(method, params):
    global counter
    with answered:
        counter += 1
        key = f"r{counter}"
    send(id=key, method=method, params=params)
    with answered:
        while key not in answers:
            answered.wait()
        return answers.pop(key)


def permission(session, call):
    tool = {"toolCallId": call, "status": "pending", "title": "Ask", "_meta": {"toolName": "ask_user_question"}}
    return {"sessionId": session, "options": [], "toolCall": tool}


def run(session, script):
    """Runs a prompt's script; returns the stop reason, or None if the prompt shall not end."""
    for command in (part.strip() for part in script.split(";")):
        verb, _, rest = command.partition(" ")
        if verb == "say":
            update(session, rest)
        elif verb == "ask":
            answer = request("session/request_permission", permission(session, rest or "call-1"))
            update(session, json.dumps(answer.get("result", answer.get("error"))))
        elif verb == "request":
            method, _, other = rest.partition(" ")
            answer = request(method, permission(other or session, "call-1"))
            update(session, json.dumps(answer.get("result", answer.get("error"))))
        elif verb == "stray-requests":
            for number in range(int(rest)):
                send(id=f"stray{number}", method="fs/read_text_file", params={})
        elif verb == "flood":
            for number in range(int(rest)):
                update(session, str(number))
        elif verb == "garbage":
            for number in range(int(rest)):
                raw(f"garbage {number} {os.environ.get('MY_SECRET', '')}\n")
        elif verb == "array":
            raw("[]\n")
        elif verb == "stray-answer":
            send(id="nobody asked", result={})
        elif verb == "long":
            raw("x" * int(rest))
        elif verb == "torn":
            raw('{"jsonrpc":"2.0","method":"session/upd')
        elif verb == "print":
            print(rest, file=sys.stderr, flush=True)
        elif verb == "secret":
            print("my secret is", os.environ["MY_SECRET"], file=sys.stderr, flush=True)
        elif verb == "spawn":
            # A process of the same group that holds all three pipes open.
            child = subprocess.Popen(["sleep", "600"])
            update(session, str(child.pid))
        elif verb == "exit":
            os._exit(int(rest))
        elif verb == "signal":
            os.kill(os.getpid(), int(rest))
            threading.Event().wait()
        elif verb == "close-stdout":
            os.close(1)
            threading.Event().wait()
        elif verb == "hang":
            return None
        elif verb == "deaf":
            global deaf
            deaf = True
        elif verb == "error":
            raise RuntimeError(rest)
        elif verb:
            raise RuntimeError("no command " + verb)
    return "end_turn"


def prompt(key, params):
    session, meta = params["sessionId"], params.get("_meta", {})
    script = ";".join(block["text"] for block in params["prompt"])
    if meta.get("qwen.daemon.restoreAskUserQuestion"):
        script = "ask restored"
    elif meta.get("holdpoint.continue"):
        script = "say continued"
    try:
        reason = run(session, script)
    except RuntimeError as error:
        send(id=key, error={"code": -32603, "message": "Internal error", "data": {"details": str(error)}})
        return
    if reason:
        send(id=key, result={"stopReason": reason, "_meta": {"promptId": meta["qwen-code/invocation"]["promptId"]}})


def initialize():
    if "--hang" in FLAGS:
        print("I am thinking about it", file=sys.stderr, flush=True)
        threading.Event().wait()
    if "--exit" in FLAGS:
        print("no configuration found", file=sys.stderr, flush=True)
        os._exit(7)
    if "--chatty" in FLAGS:
        for number in range(50):
            raw(f"welcome {number}\n")
    if "--garbage" in FLAGS:
        for number in range(1000):
            raw(f"Usage: {number}\n")
        threading.Event().wait()
    result = {
        "protocolVersion": 2 if "--v2" in FLAGS else 1,
        "agentInfo": {"name": "fake", "version": "0.1"},
        "agentCapabilities": {
            "loadSession": "--no-load" not in FLAGS,
            "sessionCapabilities": {} if "--no-resume" in FLAGS else {"resume": {}},
        },
    }
    if "--close" in FLAGS or OURS:
        result["agentCapabilities"]["sessionCapabilities"]["close"] = {}
    if OURS:
        result["_meta"] = {"holdpoint.agent": {"v": 1, "restore": True, "model": "scripted"}}
    return result


def take_up(key, method, params):
    session, meta = params["sessionId"], params.get("_meta", {})
    if session.startswith("unknown"):
        send(id=key, error={"code": -32603, "message": "Internal error", "data": {"details": "Session not found"}})
        return
    result_meta = {"qwen.daemon.restoreAskUserQuestion": True}
    result_meta["holdpoint.tail"] = {"turnRecord": "rec-1", "open": ["call-1"], "settled": [], "lastPromptId": "p-0"}
    updates = [{"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": f"old {n}"}} for n in range(3)]
    if method == "session/load":
        if "--bulk" in FLAGS:
            result_meta["qwen.session.loadReplay"] = {"v": 1, "updates": updates}
            update(session, "meanwhile")
        else:
            for one in updates:
                send(method="session/update", params={"sessionId": session, "update": one})
    else:
        update(session, "meanwhile")
    send(id=key, result={"modes": {"method": method, "meta": meta}, "_meta": result_meta})
    update(session, "live")


def handle(message):
    method, key, params = message.get("method"), message.get("id"), message.get("params", {})
    if method is None:
        with answered:
            answers[key] = message
            answered.notify_all()
    elif method == "initialize":
        send(id=key, result=initialize())
    elif method == "session/new":
        if params["_meta"].get("holdpoint.approvalMode") == "never":
            return
        session = params["_meta"].get("holdpoint.sessionId") if OURS else "theirs-1"
        update(session, "early")
        send(id=key, result={"sessionId": session, "modes": {"currentModeId": "default"}})
        update(session, "after")
    elif method in ("session/load", "session/resume"):
        take_up(key, method, params)
    elif method == "session/prompt":
        threading.Thread(target=prompt, args=(key, params), daemon=True).start()
    elif method == "session/set_mode":
        if params["modeId"] == "bad":
            send(id=key, error={"code": -32602, "message": "no such mode"})
        else:
            send(id=key, result={})
    elif key is not None:
        send(id=key, result={})


def on_term(_number, _frame):
    record("sigterm")
    if "--ignore-term" not in FLAGS:
        os._exit(0)


signal.signal(signal.SIGTERM, on_term)
record("started")
for line in sys.stdin:
    if deaf:
        threading.Event().wait()
    record(line.rstrip("\n"))
    handle(json.loads(line))
    if deaf:
        threading.Event().wait()
record("eof")
