"""Writes the C that runs a compiled model of models.py: its input sets against the expected outputs, and every way to call it wrongly.

check_NAME.c has one function `void check_NAME(mlc_pool *pool)`; models.c calls those of all models in a program. The text is C99 without a
libc, so the same file runs on the test's machine (host.c) and on a microcontroller (tests/firmware/start.c).
"""

import os
import re

import numpy as np

SHAPE, ARENA, CAPACITY, POINTER, CANCELLED = 1, 2, 5, 8, 10  # status codes, see ir/status.def
CTYPES = {"float32": "float", "float64": "double", "float16": "uint16_t", "bool": "uint8_t"}


def ctype(a):
    return CTYPES.get(a.dtype.name, a.dtype.name + "_t")


def literals(a):
    flat = a.ravel().view(np.uint16) if a.dtype == np.float16 else a.ravel()
    if a.dtype.kind == "f" and a.dtype != np.float16:
        return [float(v).hex() + ("f" if a.dtype == np.float32 else "") for v in flat]
    return [f"INT64_C({int(v)})" if a.dtype == np.int64 else str(int(v)) for v in flat]


def array(name, a):
    text = ", ".join(literals(a)) or "0"
    return f"static const {ctype(a)} {name}[{max(1, a.size)}] = {{{text}}};\n"


# Counts its calls; call number `stop` cancels. A call out of order is remembered.
HOOK = """
typedef struct {
    int calls, stop, bad, kernel;
} hook_log;

static int32_t hook(void *user, int32_t kernel, int32_t phase) {
    hook_log *log = user;
    if (phase != log->calls % 2 || kernel < 0 || kernel >= @_KERNELS || (phase == 1 && kernel != log->kernel)) log->bad = 1;
    log->kernel = kernel;
    return log->calls++ == log->stop;
}
"""


class Writer:
    def __init__(self, case, header):
        self.case, self.name, self.lines, self.data = case, case.name, [], []
        self.optional = set(re.findall(r"\*(\w+);.*may be null$", header, re.M))
        self.regions = re.findall(r"#define \w+_REGION_\w+_BYTES (\d+)", header)
        self.outputs = list(case.sets[0].outputs)
        self.tied = set(case.state.values())
        self.free = [o for o in self.outputs if o not in self.tied]  # what a run must give

    def line(self, text):
        self.lines.append("    " + text)

    def check(self, condition, what):
        self.line(f'CHECK({condition}, "{what}");')

    def status(self, call, code, what, node=0):
        self.line(f'CHECK_STATUS({call}, {-(code + 256 * node)}, "{what}");')

    def run_env(self, dims="&dims", inputs="&in", outputs="&out", env="&env"):
        return f"{self.name}_run_env({dims}, {inputs}, {outputs}, {env})"

    # ---- the sets ----
    def bind(self, number, inputs=None):
        """Statements that make dims, in and out ready for a set."""
        s = self.case.sets[number]
        for d, v in s.dims.items():
            self.line(f"dims.{d} = {v};")
        for i, a in {**s.inputs, **(inputs or {})}.items():
            data = f"{i}_{number}" if not inputs or i not in inputs else f"{i}_bad{len(self.data)}"
            if (text := array(data, a)) not in self.data:
                self.data.append(text)
            self.line(f"in.{i} = own_copy({data}, {a.nbytes});")
        for o, a in s.outputs.items():
            self.line(f"out.{o} = own({a.nbytes});")
            if o in self.case.dynamic:
                self.line(f"out.{o}_info.capacity = {a.size};")

    def arena(self):
        self.line(f"need = {self.name}_arena_bytes(&dims, 1);")
        self.line("env.arena = own(need);")
        self.line("env.arena_bytes = need;")

    def expect(self, number, without=()):
        for o, a in self.case.sets[number].outputs.items():
            if o in without:
                continue
            want = f"want_{o}_{number}"
            if a.size and (text := array(want, a)) not in self.data:
                self.data.append(text)
            if a.dtype == np.float32:
                call = f"close_f32(out.{o}, {want}, {a.size})"
            elif a.dtype == np.float64:
                call = f"close_f64(out.{o}, {want}, {a.size})"
            else:
                call = f"equal_bytes(out.{o}, {want}, {a.nbytes})"
            self.check(call if a.size else "!spoil", f"set {number}: output {o}")
            self.shape(o, a)

    def shape(self, o, a):
        for axis, extent in enumerate(a.shape):
            if o in self.case.dynamic:
                self.check(f"out.{o}_info.shape[{axis}] == {extent}", f"{o}: axis {axis}")

    def sets(self):
        for number, s in enumerate(self.case.sets):
            self.bind(number)
            self.arena()
            self.status(self.run_env(), 0, f"set {number}")
            self.expect(number)
            for o, a in s.outputs.items():
                self.line(f'output_bits(MODEL, {number}, "{o}", out.{o}, {a.nbytes});')
            if self.case.constant:
                self.bind(number)
                self.line("env.arena = own(need);")
                self.status(f"{self.name}_run(&in, &out, env.arena)", 0, f"set {number} by {self.name}_run")
                self.expect(number)

    # ---- wrong calls: the status, and that nothing was touched ----
    def refused(self, call, code, what):
        """The call writes neither outputs nor arena."""
        self.status(call, code, what)
        self.check("untouched(arena, need + 64)", f"{what}: arena")
        for o in self.outputs:
            self.check(f"untouched({o}, {self.case.sets[0].outputs[o].nbytes})", f"{what}: output {o}")

    def with_field(self, field, value, call, code, what):
        self.line(f"kept = {field};")
        self.line(f"{field} = {value};")
        self.refused(call, code, what)
        self.line(f"{field} = kept;")

    def wrong_arena(self):
        self.check("need > 1", "the model has an arena")
        self.line("env.arena_bytes = need - 1;")
        self.refused(self.run_env(), ARENA, "an arena one byte short")
        self.line("env.arena_bytes = need;")
        self.with_field("env.arena", "arena + 1", self.run_env(), ARENA, "an arena offset by one")
        self.with_field("env.arena", "NULL", self.run_env(), ARENA, "no arena")
        if self.case.constant:
            self.refused(f"{self.name}_run(&in, &out, arena + 1)", ARENA, f"{self.name}_run with an arena offset by one")
            self.refused(f"{self.name}_run(&in, &out, NULL)", ARENA, f"{self.name}_run without an arena")
        for r in range(len(self.regions)):
            self.with_field(f"regions[{r}]", "NULL", self.run_env(), ARENA, f"no region {r}")
            self.with_field(f"regions[{r}]", f"(unsigned char *)regions[{r}] + 1", self.run_env(), ARENA, f"region {r} offset by one")
            self.line(f"region_bytes[{r}]--;")
            self.refused(self.run_env(), ARENA, f"region {r} a byte short")
            self.line(f"region_bytes[{r}]++;")
        if self.regions:
            self.line("env.regions = NULL;")
            self.refused(self.run_env(), ARENA, "no regions")
            self.line("env.regions = regions;")

    def wrong_pointers(self):
        self.refused(self.run_env(inputs="NULL"), POINTER, "no inputs")
        self.refused(self.run_env(outputs="NULL"), POINTER, "no outputs")
        self.refused(self.run_env(env="NULL"), POINTER, "no environment")
        if self.case.bounds:
            self.refused(self.run_env(dims="NULL"), POINTER, "no dimensions")
        for i, a in self.case.sets[0].inputs.items():
            self.line(f"in.{i} = NULL;")
            self.refused(self.run_env(), POINTER, f"no input {i}")
            if a.itemsize > 1:
                self.line(f"in.{i} = (const void *)((const unsigned char *){i} + 1);")
                self.refused(self.run_env(), POINTER, f"input {i} offset by one")
            self.line(f"in.{i} = {i};")
        for o in self.free:
            if o not in self.optional:
                self.line(f"out.{o} = NULL;")
                self.refused(self.run_env(), POINTER, f"no output {o}")
            if self.case.sets[0].outputs[o].itemsize > 1:
                self.line(f"out.{o} = (void *)((unsigned char *){o} + 1);")
                self.refused(self.run_env(), POINTER, f"output {o} offset by one")
            self.line(f"out.{o} = {o};")
        if self.case.state:
            self.with_field("env.state", "NULL", self.run_env(), POINTER, "no state")
            self.with_field("env.state", "(unsigned char *)env.state + 1", self.run_env(), POINTER, "a state offset by one")

    def wrong_dims(self):
        for d, (lo, hi) in self.case.bounds.items():
            for bad in str(lo - 1), str(hi + 1), "-1", "INT64_MAX", "INT64_MIN":
                self.line(f"dims.{d} = {bad};")
                self.check(f"{self.name}_arena_bytes(&dims, 1) == SIZE_MAX", f"arena for {d} = {bad}")
                self.refused(self.run_env(), SHAPE, f"{d} = {bad}")
            self.line(f"dims.{d} = {self.case.sets[0].dims[d]};")

    def small_capacity(self):
        for o in self.case.dynamic:
            a = self.case.sets[0].outputs[o]
            self.line(f"out.{o}_info.capacity = {a.size - 1};")
            self.status(self.run_env(), CAPACITY, f"{o} has too little room")
            self.shape(o, a)
            self.check(f"untouched({o}, {a.nbytes})", f"{o} is not written")
            self.line(f"out.{o}_info.capacity = {a.size};")

    def unwanted(self):
        """Null outputs are not wanted; the others are as before. The state is put back first."""
        for o in self.free + list(self.tied):
            if o in self.optional:
                self.line(f"out.{o} = NULL;")
                self.restart()
                self.status(self.run_env(), 0, f"{o} is not wanted")
                self.expect(0, [o])
                self.line(f"out.{o} = {o};")

    def restart(self):
        if self.case.state:
            self.line(f"{self.name}_state_init(env.state);")

    def bad_data(self):
        for what, inputs, code, node in self.case.faults:
            self.bind(0, inputs)
            self.status(self.run_env(), code, what, node)
            name = self.case.model.graph.node[node - 1].name
            text = f"{self.name}_error_node({-(code + 256 * node)})"
            self.check(f'equal_bytes({text}, "{name}", {len(name) + 1})', f"{what}: its node")

    def texts(self):
        for code in range(1, 12):
            self.check(f"{self.name}_strerror({-code - 256})[0] != 0", f"text of status {code}")
        self.check(f"{self.name}_error_node(-1)[0] == 0 && {self.name}_error_node(-1 - 256 * 9999)[0] == 0", "no node")

    def older_caller(self):
        """A caller compiled against a shorter mlc_env: what it does not know is zero, whatever lies behind."""
        if self.case.state or self.regions:
            return
        self.line("env.struct_size = offsetof(mlc_env, regions);")
        self.line("env.pool = (mlc_pool *)(void *)arena;")
        self.status(self.run_env(), 0, "a shorter environment")
        self.expect(0)
        self.line("env.struct_size = sizeof env;")
        self.line("env.pool = pool;")

    def hooks(self):
        """The hook sees every kernel before and after; wherever it cancels, nothing runs after it."""
        if "--hooks" not in self.case.options:
            return
        self.line("hook_log log = {0, -1, 0, 0};")
        self.line("env.hook = hook;")
        self.line("env.user = &log;")
        self.restart()
        self.status(self.run_env(), 0, "a hook that goes on")
        self.expect(0)
        self.line("const int calls = log.calls;")
        self.check("calls >= 4 && calls % 2 == 0 && !log.bad", "what the hook is called with")
        self.line("for (int stop = 0; stop < calls; stop++) {")
        self.line("log = (hook_log){0, stop, 0, 0};")
        self.line(f"const int32_t status = {self.run_env()};")
        self.check(f"status < 0 && -status % 256 == {CANCELLED} && log.calls == stop + 1 && !log.bad", "a hook that cancels")
        self.check(f"(-status < 256) == ({self.name}_error_node(status)[0] == 0)", "the node where it was cancelled, if it has one")
        self.line("}")
        self.line("env.hook = NULL;")
        self.restart()
        self.status(self.run_env(), 0, "without a hook again")
        self.expect(0)

    def errors(self):
        self.bind(0)
        for i in self.case.sets[0].inputs:
            self.line(f"const void *const {i} = in.{i};")
        for o in self.outputs:
            self.line(f"void *const {o} = out.{o};")
        self.line(f"need = {self.name}_arena_bytes(&dims, 1);")
        self.line("unsigned char *const arena = own(need + 64);")
        self.line("void *kept = NULL;")
        self.line("(void)kept;")
        self.line("env.arena = arena;")
        self.line("env.arena_bytes = need;")
        for step in self.wrong_arena, self.wrong_pointers, self.wrong_dims, self.texts:
            step()
        self.restart()
        self.small_capacity()
        self.restart()
        self.status(self.run_env(), 0, "the same call made rightly")
        self.expect(0)
        self.check("untouched(arena + need, 64)", "what lies behind the arena")
        self.hooks()
        self.unwanted()
        self.older_caller()
        self.bad_data()

    def function(self, name, steps):
        self.lines = []
        n = self.name
        self.line(f"{n}_dims dims = {{0}};")
        self.line(f"{n}_inputs in = {{0}};")
        self.line(f"{n}_outputs out = {{0}};")
        self.line("mlc_env env = {0};")
        self.line("size_t need = 0;")
        self.line("env.struct_size = sizeof env;")
        self.line("env.pool = pool;")
        if self.regions:
            self.line(f"void *regions[] = {{{', '.join(f'own({b})' for b in self.regions)}}};")
            self.line("env.regions = regions;")
            self.line(f"size_t region_bytes[] = {{{', '.join(self.regions)}}};")
            self.line("env.region_bytes = region_bytes;")
        if self.case.state:
            self.line(f"env.state = own({n.upper()}_STATE_BYTES);")
            self.line(f"{n}_state_init(env.state);")
        steps()
        body = "\n".join(self.lines)
        return f"\nstatic void {name}(mlc_pool *pool) {{\n{body}\n}}\n"

    def text(self):
        functions = self.function("sets", self.sets) + self.function("errors", self.errors)
        hook = HOOK.replace("@", self.name.upper()) if "--hooks" in self.case.options else ""
        head = f'// Made by harness.py.\n#include "harness.h"\n#include "{self.name}.h"\n#define MODEL "{self.name}"\n'
        last = f"\nvoid check_{self.name}(mlc_pool *pool);\nvoid check_{self.name}(mlc_pool *pool) {{\n    sets(pool);\n    if (!show_bits) errors(pool);\n}}\n"
        return head + "".join(self.data) + hook + functions + last


def write_check(case, folder):
    """check_NAME.c beside the model's header."""
    with open(os.path.join(folder, case.name + ".h"), encoding="utf-8") as file:
        header = file.read()
    with open(os.path.join(folder, f"check_{case.name}.c"), "w", encoding="utf-8") as file:
        file.write(Writer(case, header).text())


def write_models(names, path, pool=True):
    """The file with run_models(pool) (or, without a pool, a main of its own) for a program of several models."""
    calls = "\n".join(f"    check_{n}({'pool' if pool else 'NULL'});" for n in names)
    declared = "\n".join(f"void check_{n}(mlc_pool *pool);" for n in names)
    head = f'// Made by harness.py.\n#include "harness.h"\ntypedef struct mlc_pool mlc_pool;\n{declared}\n'
    if pool:
        main = f"void run_models(mlc_pool *pool);\nvoid run_models(mlc_pool *pool) {{\n{calls}\n}}\n"
    else:
        main = f"int main(void) {{\n#ifdef SPOIL\n    spoil = 1;\n#endif\n{calls}\n    return finish();\n}}\n"
    with open(path, "w", encoding="utf-8") as file:
        file.write(head + main)
