"""Rules of the tree that a program can check. Usage: style.py ROOT; prints what is wrong and exits with 1.

No source file over 1,000 lines; a first line that says what the file is for; nothing left open; no compiled code that compares with a preset's name
(frontend/arch/*.json): code branches on choices, architectures are data; every op and every pass has its place on the page of its layer; no two types of one name; every Markdown link to a file of the tree leads somewhere; nothing at the top
level beyond the agreed layout.
"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
folders = ["ir", "frontend", "passes", "backends", "runtime", "tools", "tests"]
presets = [path.stem for path in (root / "frontend" / "arch").glob("*.json")]
bad = []
for folder in folders:
    for path in sorted((root / folder).rglob("*")):
        if path.suffix not in {".cpp", ".h", ".def", ".py"}:
            continue
        name, text = path.relative_to(root).as_posix(), path.read_text()
        if text.count("\n") > 1000:
            bad.append(f"{name}: {text.count(chr(10))} lines, at most 1000")
        if path.suffix != ".py" and not text.startswith("//"):
            bad.append(f"{name}: the first line is no comment that says what the file is for")
        if name != "tests/style/style.py" and re.search(r"\b(TODO|FIXME|XXX)\b", text):
            bad.append(f"{name}: something is left open")
        if folder not in {"tests", "tools"} and path.suffix in {".cpp", ".h"}:
            for preset in presets:
                if re.search(rf'arch\w*\s*[!=]=\s*"{preset}"', text):
                    bad.append(f"{name}: branches on the architecture {preset}")
# Two types of one name in one namespace are one to the linker, which keeps the inline functions of either.
types = {}
for folder in folders:
    for path in sorted((root / folder).rglob("*.h")):
        text = path.read_text()
        namespace = re.search(r"^namespace ([\w:]+)", text, re.M)
        for name in re.findall(r"^(?:struct|class|enum class) (?:alignas\(\w+\) )?(\w+)[^;\n]*\{", text, re.M):
            types.setdefault((namespace and namespace[1], name), set()).add(path.relative_to(root).as_posix())
for (namespace, name), paths in types.items():
    if namespace and namespace.startswith("llmc") and len(paths) > 1:
        bad.append(f"{' and '.join(sorted(paths))}: both define {namespace}::{name}")
for path in [root / "README.md", *(p for f in folders for p in (root / f).rglob("*.md"))]:
    if path.exists():
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text()):
            if not (path.parent / link).exists():
                bad.append(f"{path.relative_to(root)}: no such file: {link}")
# What a table names in its first column: the word in backticks, or all before the bar.
def first_column(page, heading):
    text = (root / page).read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return [name for row in re.findall(r"^\| ([^|]+) \|", text, re.M) for name in re.findall(r"[a-z][a-z0-9_-]+", re.sub(r"\]\([^)]*\)", "", row))]


ops = re.findall(r'^OP\(\w+, "(\w+)"\)', (root / "ir/ops.def").read_text(), re.M)
described = first_column("ir/README.md", "Ops")
headings = re.findall(r"^### (.+)$", (root / "ir/README.md").read_text(), re.M)
for op in ops:
    if op not in described:
        bad.append(f"ir/README.md: the table of ops has no row of {op}")
    if not any(op in heading.split(", ") for heading in headings):
        bad.append(f"ir/README.md: no section has the constraints of {op}")
passes = re.findall(r'^PASS\(\w+, "([\w-]+)"', (root / "passes/passes.def").read_text(), re.M)
listed = [name for name in first_column("passes/README.md", "The pipeline, in order") if name != "pass"]
if listed != passes:
    bad.append(f"passes/README.md: the pipeline's table has {' '.join(listed)}; passes.def has {' '.join(passes)}")
top = {"CMakeLists.txt", "CMakePresets.json", "LICENSE", "README.md", "build", *folders}
bad += [f"{path.name}: not part of the top level" for path in root.iterdir() if path.name not in top and not path.name.startswith(".")]
tests_of = {
    "ir": ["ir"],
    "frontend": ["frontend", "tokenizer", "golden"],
    "passes": ["passes"],
    "backends": ["backends", "e2e"],
    "tools": ["cli"],
}
for layer, suites in tests_of.items():
    tests = "".join(p.read_text() for suite in suites for p in sorted((root / "tests" / suite).rglob("*")) if p.suffix in {".cpp", ".py", ".llmc"})
    made = {kind for p in (root / layer).rglob("*.cpp") for kind in re.findall(r"DiagKind::(\w+)", p.read_text())}
    for kind in sorted(kind for kind in made if not re.search(rf"\b{kind}\b", tests)):
        bad.append(f"{layer}: no test of {', '.join(suites)} names the diagnostic {kind}")
print("\n".join(bad) or "style: nothing to say")
sys.exit(bool(bad))
