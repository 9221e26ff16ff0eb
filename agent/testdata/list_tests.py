"""Lists the tests in the source distributions of langchain and langgraph-prebuilt, for TestCoverage.

    pip download --no-deps --no-binary :all: --dest . langchain==1.5.2 langgraph-prebuilt==1.1.3
    python list_tests.py langchain-1.5.2.tar.gz langgraph_prebuilt-1.1.3.tar.gz >tests.txt

A line is a file, and a function in it that pytest collects. The forms of one test by parameters are one.
"""

import ast
import sys
import tarfile

ROOTS = ("tests/unit_tests/agents/", "tests/")


def tests(body, prefix=""):
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test"):
            yield prefix + node.name
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            yield from tests(node.body, prefix + node.name + ".")


for dist in sys.argv[1:]:
    with tarfile.open(dist) as tar:
        top = tar.getnames()[0].split("/")[0]
        root = top + "/" + (ROOTS[0] if top.startswith("langchain-") else ROOTS[1])
        for name in sorted(tar.getnames()):
            file = name.removeprefix(root)
            if file != name and file.split("/")[-1].startswith("test_") and file.endswith(".py"):
                for test in dict.fromkeys(tests(ast.parse(tar.extractfile(name).read()).body)):
                    print(f"{top.rsplit('-', 1)[0]} {file.removesuffix('.py')} {test}")
