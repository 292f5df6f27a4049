"""Holds llmc's chat templates against transformers: every template below the given places, with generated conversations, byte for byte.

    tools/venv tools/check_templates.py [--conversations 300] [--program build/release/render_templates] PLACE...

PLACE: a folder, a .jinja file, a tokenizer_config.json, or an archive of a package (.whl, .zip, .tar.gz). Templates are files *.jinja (and *.j2) that
speak of messages, values "chat_template" of JSON files, and string constants of Python files that are Jinja and speak of messages. Each is rendered by
transformers' own code and by llmc with conversations of many shapes (tools, calls and results, system and developer messages, empty and null values,
several turns, Unicode, reasoning, blocks of content); where one fails the other must fail too. A template that transformers can't compile must be refused.
Prints a line a template that differs, and the counts.
"""
import argparse
import ast
import hashlib
import json
import logging
import pathlib
import random
import subprocess
import sys
import tarfile
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).parent / "golden"))
from templates import SPECIAL, chat  # noqa: E402  (the clock stands still)

logging.disable(logging.ERROR)

WORDS = ["Hi", "  spaced \n", "", "é 😀 中文", "<think>\nreason</think>\n\nanswer", "a\"b'c\\", "{{ x }} {% if %}", "<|im_end|>", "line\nline\r\n", "1 < 2 & 3",
         "[TOOL_CALLS]", "ß ſ İ", "\u2028\u00a0x\u3000", "what is 3333+777?", "</think>tail", "<tool_call>\n{}\n</tool_call>", "0", "null", "\t", "```py\nx = 1\n```"]


def text(rng):
    return rng.choice(WORDS) if rng.random() < 0.7 else " ".join(rng.choices(WORDS, k=rng.randrange(2, 5)))


def scalar(rng):
    return rng.choice([1, -7, 0, 2.5, 1e20, 1e-7, True, False, None, "s", text(rng), 12345678901234567890, [], {}, [1, "a"], {"k": {"n": [None]}}])


def schema(rng, depth=0):
    kind = rng.choice(["string", "integer", "number", "boolean", "array", "object", ["string", "null"]])
    result = {"type": kind}
    if rng.random() < 0.7:
        result["description"] = text(rng)
    if rng.random() < 0.3:
        result["enum"] = [text(rng) for _ in range(rng.randrange(1, 4))]
    if rng.random() < 0.2:
        result["default"] = scalar(rng)
    if kind == "array":
        result["items"] = schema(rng, depth + 1) if depth < 2 else {"type": "string"}
    if kind == "object":
        result["properties"] = {name: schema(rng, depth + 1) for name in rng.sample(["a", "b", "c"], rng.randrange(0, 3))} if depth < 2 else {}
        if rng.random() < 0.5:
            result["required"] = list(result["properties"])[:1]
    return result


def tool(rng, number):
    properties = {name: schema(rng) for name in rng.sample(["city", "unit", "n", "items", "opts"], rng.randrange(0, 4))}
    parameters = {"type": "object", "properties": properties}
    if rng.random() < 0.8:
        parameters["required"] = [name for name in properties if rng.random() < 0.5]
    function = {"name": f"f{number}", "description": text(rng), "parameters": parameters}
    if rng.random() < 0.2:
        function["return"] = {"type": "string", "description": text(rng)}
    return {"type": "function", "function": function} if rng.random() < 0.9 else function


def content(rng, role):
    draw = rng.random()
    if draw < 0.92:
        return text(rng)
    if draw < 0.97:
        return [{"type": "text", "text": text(rng)} if rng.random() < 0.8 else {"type": "image", "image": "i"} for _ in range(rng.randrange(1, 4))]
    return None if role == "assistant" or draw > 0.98 else text(rng)


def calls(rng):
    result = []
    for number in range(rng.randrange(1, 3)):
        arguments = {name: scalar(rng) for name in rng.sample(["city", "unit", "n"], rng.randrange(0, 3))}
        function = {"name": f"f{rng.randrange(2)}", "arguments": arguments if rng.random() < 0.7 else json.dumps(arguments)}
        call = {"type": "function", "function": function} if rng.random() < 0.9 else function
        if rng.random() < 0.6:
            call["id"] = rng.choice(["abcdefghi", "call_1", "123456789"])
        result.append(call)
    return result


def conversation(rng):
    messages = []
    if rng.random() < 0.5:
        messages.append({"role": rng.choice(["system"] * 6 + ["developer"]), "content": content(rng, "system")})
    for _ in range(rng.randrange(1, 5)):
        messages.append({"role": "user", "content": content(rng, "user")})
        if rng.random() < 0.15:
            break
        answer = {"role": "assistant", "content": content(rng, "assistant")}
        if rng.random() < 0.3:
            answer[rng.choice(["reasoning_content", "thinking", "reasoning"])] = rng.choice([text(rng), None])
        messages.append(answer)
        if rng.random() < 0.35:
            answer["tool_calls"] = calls(rng)
            for call in answer["tool_calls"]:
                if rng.random() < 0.9:
                    result = {"role": rng.choice(["tool"] * 6 + ["ipython"]), "content": rng.choice([text(rng), "{\"r\": 1}", [{"type": "text", "text": "t"}], {"r": 1}])}
                    if rng.random() < 0.6:
                        result["name"] = call.get("function", call)["name"]
                    if rng.random() < 0.6:
                        result["tool_call_id"] = call.get("id")
                    messages.append(result)
            if rng.random() < 0.6:
                messages.append({"role": "assistant", "content": text(rng)})
        elif rng.random() < 0.1:
            answer["tool_calls"] = rng.choice([[], None])
    if rng.random() < 0.6 and messages[-1]["role"] == "assistant":
        messages.append({"role": "user", "content": text(rng)})
    if rng.random() < 0.03:
        messages = messages[::-1]
    request = {"messages": messages, "add_generation_prompt": rng.random() < 0.7}
    if rng.random() < 0.4:
        request["tools"] = [tool(rng, number) for number in range(rng.randrange(0, 3))]
    for name, values in {"enable_thinking": [True, False], "thinking": [True, False], "reasoning_effort": ["low", "high"], "documents": [[{"title": "T", "text": "x"}]],
                         "date_string": ["26 Jul 2024"], "builtin_tools": [["brave_search", "code_interpreter"]], "tools_in_user_message": [True, False],
                         "keep_cot": [True], "tool_choice": ["auto"], "response_format": [{"type": "json"}], "custom_tools": [[]]}.items():
        if rng.random() < 0.12:
            request[name] = rng.choice(values)
    return request


def strings(source):
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def json_templates(value):
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "chat_template" and isinstance(item, str):
                yield item
            elif key == "chat_template" and isinstance(item, list):
                yield from (one["template"] for one in item if isinstance(one, dict) and isinstance(one.get("template"), str))
            else:
                yield from json_templates(item)
    elif isinstance(value, list):
        for item in value:
            yield from json_templates(item)


def of_file(name, read):
    suffix = pathlib.PurePosixPath(name).suffix
    if suffix not in {".jinja", ".j2", ".json", ".py", ".jinja2"}:
        return
    try:
        source = read().decode("utf-8")
    except (UnicodeDecodeError, KeyError):
        return
    if suffix == ".json" and "chat_template" in source:
        try:
            found = list(json_templates(json.loads(source)))
        except ValueError:
            return
    elif suffix == ".py":
        found = [one for one in strings(source) if "{%" in one and "%}" in one and "messages" in one] if "{%" in source and "messages" in source else []
    elif suffix != ".json":
        found = [source] if "messages" in source else []
    else:
        found = []
    for one in found:
        yield name, one


def templates(place):
    path = pathlib.Path(place)
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.is_file():
                yield from (templates(file) if file.suffix in {".whl", ".zip", ".gz"} else of_file(str(file), file.read_bytes))
    elif path.suffix in {".whl", ".zip"}:
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                yield from of_file(name, lambda name=name: archive.read(name))
    elif path.suffix == ".gz":
        with tarfile.open(path) as archive:
            for member in archive:
                if member.isfile():
                    yield from of_file(member.name, lambda member=member: archive.extractfile(member).read())
    else:
        yield from of_file(str(path), path.read_bytes)


def reference(source, request):
    """What transformers gives: ("text", t), ("failed", why) or ("refused", why)."""
    try:
        chat._compile_jinja_template(source)
    except Exception as error:
        return "refused", f"{type(error).__name__}: {error}"
    try:
        arguments = {**SPECIAL, **request}
        messages = chat._normalize_chat_messages(arguments.pop("messages"))
        return "text", chat.render_jinja_template(conversations=[messages], chat_template=source, **arguments)[0][0]
    except Exception as error:
        return "failed", f"{type(error).__name__}: {error}"


def check(source, requests, program):
    lines = "".join(json.dumps({"source": source, "request": json.dumps(request), "variables": SPECIAL}) + "\n" for request in requests)
    done = subprocess.run([program], input=lines, capture_output=True, text=True, env={"TZ": "UTC"})
    outputs = [json.loads(line) for line in done.stdout.split("\n")[:-1]]
    same = failures = 0
    first = None
    for request, output in zip(requests, outputs):
        (kind, found), = output.items()
        want_kind, want = reference(source, request)
        equal = kind == want_kind and (kind != "text" or found == want)
        same += equal
        failures += want_kind != "text"
        if not equal and first is None:
            first = (request, (want_kind, want), (kind, found))
    if len(outputs) < len(requests):
        first = first or (requests[len(outputs)], ("", ""), ("crash", done.stderr[-300:]))
    return same, failures, first


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("places", nargs="+")
    parser.add_argument("--conversations", type=int, default=300)
    parser.add_argument("--program", default="build/release/render_templates")
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    seen, good, renders, same_renders, failed_renders = {}, 0, 0, 0, 0
    for place in arguments.places:
        for name, source in templates(place):
            seen.setdefault(hashlib.sha256(source.encode()).hexdigest(), (name, source))
    for number, (name, source) in enumerate(seen.values()):
        rng = random.Random(number)
        requests = [conversation(rng) for _ in range(arguments.conversations)]
        same, failures, first = check(source, requests, arguments.program)
        renders += len(requests)
        same_renders += same
        failed_renders += failures
        good += first is None
        if arguments.verbose:
            print(f"{name}: {same} of {len(requests)} the same, {failures} of them failures")
        if first is not None:
            request, want, found = first
            at = next((i for i, (a, b) in enumerate(zip(want[1], found[1])) if a != b), min(len(want[1]), len(found[1]))) if want[0] == found[0] else 0
            print(f"{name}: {same} of {len(requests)} the same; want {want[0]} {want[1][max(0, at - 60):at + 200]!r}, found {found[0]} {found[1][max(0, at - 60):at + 200]!r}")
            if arguments.verbose:
                print("  " + json.dumps(request))
    print(f"{good} of {len(seen)} templates the same, {same_renders} of {renders} renderings ({failed_renders} of them failures on both sides)")
    sys.exit(good != len(seen))
