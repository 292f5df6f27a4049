"""Nothing but an op's own places may name its kind (ir/README.md, "Adding an op").

op_kinds.py ROOT: for each op of ir/ops.def, the production files that name it: by its enumerator, or by its spelling as
a string. Its own places are free: its record (ir/ops), the tables of kernels and steps and the kernels themselves
(backends/kernels), and what builds it (frontend: parts of a block, and the graph around them, an embedding's dense layers included). A pass may name
the kinds that it makes or rewrites: the list below, which is held exactly. Everything else counts, and the count must
be zero.
"""
import pathlib
import re
import sys

OWN = ("ir/ops/", "ir/ops.def", "backends/kernels/", "frontend/parts/", "frontend/build_module.cpp", "frontend/graph.cpp",
       "frontend/wiring.cpp", "frontend/pooling.cpp")
# What a pass makes or rewrites. linear's product is oneDNN's own.
REWRITES = {
    "passes/absorb_mla.cpp": {"Attention", "Concat", "HeadLinear", "KvAppend", "Linear", "Reshape"},
    "passes/canonicalize.cpp": {"Reshape"},
    "passes/fuse_add_rms_norm.cpp": {"Add", "RmsNorm", "AddRmsNorm"},
    "passes/fuse_qkv.cpp": {"Linear"},
    "passes/plan_schedule.cpp": {"Attention", "AttentionGroups", "AttentionMerge"},
    "passes/quantize_activations.cpp": {"Quantize", "Round"},
    "passes/specialize_phases.cpp": {"LastRows"},
}
FOLDERS = ("ir", "passes", "backends", "frontend", "runtime", "tools")


def code_of(path):
    """The file without comments, so that prose may name ops."""
    text = path.read_text()
    return re.sub(r"//[^\n]*", "", text)


def switch_defaults(root):
    """Switches over a kind of op that have a default: a new op would pass through unseen."""
    faults = []
    for path in sources(root):
        code = code_of(root / path)
        for match in re.finditer(r"switch \([^)]*\bkind\b[^)]*\) \{", code):
            depth, at = 1, match.end()
            while depth > 0 and at < len(code):
                depth += {"{": 1, "}": -1}.get(code[at], 0)
                at += 1
            body = code[match.end():at]
            if "OpKind::" in body and "default:" in body:
                faults.append(f"{path}: a switch over op kinds has a default")
    return faults


def sources(root):
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".cpp", ".h", ".def"):
                yield path.relative_to(root).as_posix()


def main():
    root = pathlib.Path(sys.argv[1])
    ops = re.findall(r'^OP\((\w+), "(\w+)"\)', (root / "ir/ops.def").read_text(), re.M)
    assert len(ops) > 10, "ir/ops.def isn't read"
    faults, named = switch_defaults(root), {}
    for path in sources(root):
        if path.startswith(OWN):
            continue
        code = code_of(root / path)
        for kind, spelling in ops:
            # Short spellings are everyday words ("add", "act"): as strings they only count where ops are meant.
            pattern = rf"\bOpKind::{kind}\b"
            if "_" in spelling:
                pattern += rf'|"{spelling}"'
            if re.search(pattern, code):
                named.setdefault(path, set()).add(kind)
    for path, kinds in sorted(named.items()):
        for kind in sorted(kinds - REWRITES.get(path, set())):
            known = "REWRITES doesn't list that it makes or rewrites it" if path.startswith("passes/") else "it may not (ir/README.md, Adding an op)"
            faults.append(f"{path} names {kind}: {known}")
    for path, kinds in sorted(REWRITES.items()):
        for kind in sorted(kinds - named.get(path, set())):
            faults.append(f"op_kinds.py lists {kind} for {path}, which doesn't name it")
    for fault in faults:
        print(fault)
    print(f"{len(ops)} ops, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
