"""Writes the node cases of the installed onnx package, and our own (own_*.py), in the backend-test layout: generate.py FOLDER.

Beside them: cases.txt with a line "name rtol atol" a case, operators.txt with every operator that a case uses. Does nothing when the folder
holds the cases of this version already.
"""

import glob
import hashlib
import os
import shutil
import sys

import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases

import own_cases
import own_contrib

WRITERS = {"map_type": numpy_helper.from_dict, "sequence_type": numpy_helper.from_list, "optional_type": numpy_helper.from_optional}


def to_proto(value, info):
    """A value of a case as the message that its file holds."""
    if isinstance(value, onnx.TensorProto):
        return value
    write = WRITERS.get(info.type.WhichOneof("value"), numpy_helper.from_array)
    return write(value, info.name)


def write_file(path, message):
    with open(path, "wb") as file:
        file.write(message.SerializeToString())


def operators(graph):
    """(domain, operator) of all nodes, subgraphs included."""
    for node in graph.node:
        yield node.domain, node.op_type
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from operators(attribute.g)


def write_case(folder, case):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    write_file(os.path.join(folder, "model.onnx"), case.model)
    graph = case.model.graph
    for number, (inputs, outputs) in enumerate(case.data_sets):
        data = os.path.join(folder, f"test_data_set_{number}")
        os.makedirs(data, exist_ok=True)
        for kind, values, infos in ("input", inputs, graph.input), ("output", outputs, graph.output):
            for index, (value, info) in enumerate(zip(values, infos, strict=False)):
                write_file(os.path.join(data, f"{kind}_{index}.pb"), to_proto(value, info))


def main(root):
    marker = os.path.join(root, "version.txt")
    own = sorted(glob.glob(os.path.join(os.path.dirname(os.path.abspath(__file__)), "own_*.py")))
    version = onnx.__version__ + " " + hashlib.sha256(b"".join(open(path, "rb").read() for path in own)).hexdigest()
    if os.path.exists(marker) and open(marker).read() == version:
        return
    cases = sorted([*collect_testcases(None), *own_cases.collect(), *own_contrib.collect()], key=lambda case: case.name)
    used = set()
    with_lines = []
    for case in cases:
        write_case(os.path.join(root, case.name), case)
        used.update(operators(case.model.graph))
        with_lines.append(f"{case.name} {case.rtol} {case.atol}\n")
    with open(os.path.join(root, "cases.txt"), "w") as file:
        file.writelines(with_lines)
    with open(os.path.join(root, "operators.txt"), "w") as file:
        file.writelines(f"{domain}{'.' if domain else ''}{name}\n" for domain, name in sorted(used))
    with open(marker, "w") as file:
        file.write(version)
    print(f"wrote {len(cases)} cases")


if __name__ == "__main__":
    main(sys.argv[1])
