"""Golden tests: input, command and expectation in one file. text_runner.py --mlc=PATH [--update] [FILE or FOLDER…]

A line that holds `RUN: COMMAND` gives a command for sh, in which %s is the file, %t a fresh temporary file name and `mlc` the program under test;
`RUN(N): COMMAND` expects exit status N. What the commands print (standard output and error) is checked against the lines that hold
`CHECK: TEXT`, in order: each must be found (blanks count as one) in some line after the previous one's; `CHECK-NEXT:` in the very next line;
`CHECK-NOT: TEXT` must not occur before the next CHECK. `…` in a text stands for anything. Lines begin with any comment sign.
`CHECK-ALL` alone: the output must be exactly the lines after it, each with the comment sign in front. --update writes these lines anew.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

SUFFIXES = (".graph", ".loop", ".test")
DIRECTIVE = re.compile(r"^(?P<sign>\s*(?:;|#|//)\s*)(?P<word>RUN|CHECK-NEXT|CHECK-NOT|CHECK-ALL|CHECK)(?:\((?P<status>\d+)\))?(?::\s*(?P<text>.*))?$")


def squeeze(text):
    return " ".join(text.split())


def pattern_of(text):
    return re.compile(".*".join(re.escape(part) for part in squeeze(text).split("…")))


class Test:
    def __init__(self, path):
        self.path = path
        self.lines = open(path, encoding="utf-8").read().split("\n")
        self.directives = []
        self.golden_at = None
        for number, line in enumerate(self.lines):
            match = DIRECTIVE.match(line)
            if not match:
                continue
            if match["word"] == "CHECK-ALL":
                self.golden_at, self.sign = number, match["sign"].rstrip() + " "
                break
            self.directives.append((match["word"], match["text"] or "", int(match["status"] or 0)))

    def run(self, mlc):
        """The combined output, and a fault or None."""
        output = ""
        with tempfile.TemporaryDirectory() as folder:
            for word, command, status in self.directives:
                if word != "RUN":
                    continue
                command = command.replace("%s", self.path).replace("%t", os.path.join(folder, "t"))
                env = dict(os.environ, PATH=os.path.dirname(os.path.abspath(mlc)) + os.pathsep + os.environ["PATH"], XDG_CACHE_HOME=folder)
                done = subprocess.run(["sh", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, timeout=120, check=False)
                output += done.stdout.decode(errors="replace").replace(folder, "%t")
                if done.returncode != status:
                    return output, f"`{command}` ended with status {done.returncode}, expected {status}"
        return output, None

    def check_golden(self, output, update):
        wanted = [line[len(self.sign) :] if line.startswith(self.sign) else line.strip(" ;#/") for line in self.lines[self.golden_at + 1 :] if line]
        found = output.rstrip("\n").split("\n")
        if wanted == found:
            return None
        if update:
            golden = [(self.sign + line).rstrip() for line in found]
            open(self.path, "w", encoding="utf-8").write("\n".join(self.lines[: self.golden_at + 1] + golden) + "\n")
            return None
        for index in range(max(len(wanted), len(found))):
            want = wanted[index] if index < len(wanted) else "(end)"
            have = found[index] if index < len(found) else "(end)"
            if want != have:
                return f"line {index + 1} of the output:\n    expected {want}\n    found    {have}"
        return None

    def check(self, output):
        lines = [squeeze(line) for line in output.split("\n")]
        at, forbidden = 0, []
        checks = [d for d in self.directives if d[0] != "RUN"]
        if not checks and self.golden_at is None and not any(d[2] for d in self.directives):
            return "the test checks nothing"
        for word, text, _ in checks:
            pattern = pattern_of(text)
            if word == "CHECK-NOT":
                forbidden.append((pattern, text))
                continue
            hits = [i for i in range(at, len(lines)) if pattern.search(lines[i])]
            if not hits or (word == "CHECK-NEXT" and hits[0] != at):
                return f"{word}: {text}\n    not found {'in' if word == 'CHECK-NEXT' else 'after'} line {at + 1}: {lines[at] if at < len(lines) else '(end)'}"
            for other, forbidden_text in forbidden:
                if any(other.search(line) for line in lines[at : hits[0]]):
                    return f"CHECK-NOT: {forbidden_text}\n    found"
            at, forbidden = hits[0] + 1, []
        for other, forbidden_text in forbidden:
            if any(other.search(line) for line in lines[at:]):
                return f"CHECK-NOT: {forbidden_text}\n    found"
        return None


def find_tests(places):
    for place in places:
        if os.path.isfile(place):
            yield place
        for folder, folders, names in os.walk(place):
            folders.sort()
            for name in sorted(names):
                path = os.path.join(folder, name)
                if name.endswith(SUFFIXES) and "RUN" in open(path, encoding="utf-8", errors="replace").read():
                    yield path


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mlc", required=True)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("places", nargs="*")
    args = parser.parse_args()
    here = os.path.dirname(os.path.abspath(__file__))
    os.chdir(os.path.dirname(here))
    passed = failed = 0
    for path in find_tests(args.places or ["tests"]):
        test = Test(path)
        if not any(d[0] == "RUN" for d in test.directives):
            continue
        try:
            output, fault = test.run(args.mlc)
        except subprocess.TimeoutExpired:
            output, fault = "", "took too long"
        fault = fault or test.check(output)
        if not fault and test.golden_at is not None:
            fault = test.check_golden(output, args.update)
        if fault:
            failed += 1
            print(f"FAIL {path}: {fault}")
            if "status" in fault:
                print("    " + output[-2000:].replace("\n", "\n    "))
        else:
            passed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
