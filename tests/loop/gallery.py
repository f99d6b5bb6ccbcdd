"""The gallery: programs in loop text (gallery/*.loop) run by every way there is on seeded inputs, against NumPy.

usage: gallery.py [--gallery=COMMAND] [NAME...]

For each case of each program the test command (gallery.c) interprets the text, interprets it after the loop passes, runs it through LLVM and
through C (gcc and clang: C11 for this machine, C99 for any; with threads). All of them must give the same
bits, NaN as a class; the interpreter in shuffled order may differ by rounding; and the result must lie within a bound of NumPy's, which is
computed in f64. For AVX-512, which the machine may lack, the machine code of the 14x32 tile is looked at. The last line is
"N passed, N failed".
"""
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
WAYS = ["text", "shuffle", "passes", "llvm", "llvm-threads", "gcc", "gcc-threads", "clang", "gcc99", "clang99"]
EPS = 2.0**-23


class Case:
    """dims and inputs of a run, what must come out: {name: (array, bound)} with bound 0 for equality; or a status below 0."""

    def __init__(self, dims, inputs, want=None, status=0, runs=1):
        self.dims, self.inputs, self.want, self.status, self.runs = dims, inputs, want, status, runs


def f32(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def product(a, b, subscripts, n):
    """einsum in f64 with the error bound of n f32 additions: n * eps * sum |a||b|."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    return np.einsum(subscripts, a, b), n * EPS * np.einsum(subscripts, abs(a), abs(b))


# ---- matmul tiles ----
def matmul(rows, columns):
    def cases(rng):
        for p, q, k in ((1, 1, 1), (3, 2, 37), (2, 3, 256)):
            a, b = f32(rng, p, k, rows), f32(rng, q, k, columns)
            y, bound = product(a, b, "pki,qkj->piqj", k)
            shape = (rows * p, columns * q)
            yield Case({"P": p, "Q": q, "K": k}, {"a": a, "b": b}, {"y": (y.reshape(shape), bound.reshape(shape))})

    return cases


# ---- convolutions ----
def conv(x, w):
    """valid 3x3 convolution of [H, W, C] with [3, 3, C, K] in f64"""
    h, wd = x.shape[0] - 2, x.shape[1] - 2
    return sum(np.einsum("hwc,ck->hwk", x[i:i + h, j:j + wd], w[i, j]) for i in range(3) for j in range(3))


def winograd(rng):
    for ph, pw, cb, kb in ((1, 1, 1, 1), (3, 2, 2, 1), (2, 5, 1, 3)):
        x, w = f32(rng, 4 * ph + 2, 4 * pw + 2, 8 * cb), f32(rng, 3, 3, 8 * cb, 8 * kb)
        x64, w64 = x.astype(np.float64), w.astype(np.float64)
        # The transforms amplify rounding; measured errors of F(4, 3) lie below 40 units of the sum of magnitudes.
        bound = 40 * EPS * conv(abs(x64), abs(w64))
        yield Case({"PH": ph, "PW": pw, "CB": cb, "KB": kb}, {"x": x, "w": w}, {"y": (conv(x64, w64), bound)})


def ring(rng):
    for oh, ow in ((1, 1), (2, 7), (9, 4)):
        x, w1, w2 = f32(rng, oh + 4, ow + 4, 8), f32(rng, 3, 3, 8, 8), f32(rng, 3, 3, 8, 8)
        x64, a, b = (v.astype(np.float64) for v in (x, w1, w2))
        bound = 150 * EPS * conv(conv(abs(x64), abs(a)), abs(b))
        yield Case({"OH": oh, "OW": ow}, {"x": x, "w1": w1, "w2": w2}, {"y": (conv(np.maximum(conv(x64, a), 0), b), bound)})


# ---- attention, LSTM ----
def attention(rng):
    for h, s, t in ((1, 1, 1), (2, 5, 19), (3, 4, 4), (1, 3, 64)):
        q, k, v = f32(rng, h, s, 32) * 3, f32(rng, h, t, 32), f32(rng, h, t, 32)
        z = np.einsum("hsd,htd->hst", q.astype(np.float64), k) / np.sqrt(32)
        z = np.where(np.arange(t)[None, :] <= np.arange(s)[:, None] + t - s, z, -np.inf)
        p = np.exp(z - z.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        y, size = np.einsum("hst,htd->hsd", p, v), np.einsum("hst,htd->hsd", p, abs(v))
        yield Case({"H": h, "S": s, "T": t}, {"q": q, "k": np.ascontiguousarray(k.transpose(0, 2, 1)), "v": v}, {"y": (y, 200 * EPS * size)})


def lstm(rng):
    sigmoid = lambda v: 1 / (1 + np.exp(-v))
    for l, i, hb in ((1, 1, 1), (6, 5, 2), (3, 9, 7)):
        x, w, r, b = f32(rng, l, i), f32(rng, i, 4, 8 * hb) * 0.4, f32(rng, 8 * hb, 4, 8 * hb) * 0.2, f32(rng, 4, 8 * hb)
        h, c = np.zeros(8 * hb), np.zeros(8 * hb)
        for _ in range(2):  # the second run begins with the first one's state
            y = []
            for step in x.astype(np.float64):
                g = b + np.einsum("i,iqh->qh", step, w.astype(np.float64)) + np.einsum("j,jqh->qh", h, r.astype(np.float64))
                c = sigmoid(g[1]) * c + sigmoid(g[0]) * np.tanh(g[2])
                h = sigmoid(g[3]) * np.tanh(c)
                y.append(h)
        want = {"y": (np.array(y), 1e-5), "hn": (h, 1e-5), "cn": (c, 1e-5)}
        yield Case({"L": l, "I": i, "HB": hb}, {"x": x, "w": w, "r": r, "b": b}, want, runs=2)


# ---- sparse ----
def csr(rng):
    for r, c, density in ((1, 1, 1.0), (40, 70, 0.2), (5, 300, 0.5), (7, 9, 0.0)):
        dense = f32(rng, r, c) * (rng.random((r, c)) < density)
        x, mask = f32(rng, c), dense != 0
        ptr, col, val = np.concatenate([[0], np.cumsum(mask.sum(1))]).astype(np.int32), np.nonzero(mask)[1].astype(np.int32), dense[mask]
        y, bound = product(dense, x, "rc,c->r", c)
        dims, inputs = {"R": r, "C": c, "NNZ": len(col)}, {"ptr": ptr, "col": col, "val": val, "x": x}
        yield Case(dims, inputs, {"y": (y, bound)})
        if len(col) > 1:
            for at, value in ((0, c), (1, -1)):
                wrong = col.copy()
                wrong[at] = value
                yield Case(dims, {**inputs, "col": wrong}, status=-(3 + 256))
            wrong = ptr.copy()
            wrong[r // 2] = len(col) + 1
            yield Case(dims, {**inputs, "ptr": wrong}, status=-(3 + 256))


def rows(rng):
    for r, k, nb, live in ((1, 1, 1, 1), (23, 17, 2, 10), (16, 33, 1, 8), (9, 4, 1, 0)):
        x, w = f32(rng, r, k), f32(rng, k, 16 * nb)
        x *= rng.random(x.shape) < 1.5 / k  # hardly one element a row, so that every part of it counts
        x[rng.permutation(r)[live:]] = 0
        y, bound = product(x, w, "rk,kn->rn", k)
        yield Case({"R": r, "K": k, "NB": nb}, {"x": x, "w": w}, {"y": (y, bound)})


def moe(rng):
    for t, e, d, fb in ((1, 1, 1, 1), (13, 4, 19, 2), (30, 3, 8, 1)):
        x, w, gate = f32(rng, t, d), f32(rng, e, d, 8 * fb), rng.random((t, 2)).astype(np.float32)
        ids = rng.integers(0, e, (t, 2)).astype(np.int32)
        parts = [product(x, w[ids[:, s]], "td,tdf->tf", d + 2) for s in range(2)]
        want = sum(gate[:, s:s + 1] * parts[s][0] for s in range(2)), sum(gate[:, s:s + 1] * parts[s][1] for s in range(2))
        dims, inputs = {"T": t, "E": e, "D": d, "FB": fb}, {"x": x, "w": w, "ids": ids, "gate": gate}
        yield Case(dims, inputs, {"y": want})
        wrong = ids.copy()
        wrong[t // 2, 1] = e
        yield Case(dims, {**inputs, "ids": wrong}, status=-(3 + 256))


# ---- 4 bits ----
def q4k_values(blocks):
    """[..., 144] bytes -> [..., 256] weights: d * scale * q - dmin * min, scales and minima of six bits as GGUF packs them"""
    half = lambda at: np.ascontiguousarray(blocks[..., at:at + 2]).view(np.float16).astype(np.float64)
    head, middle, tail = (blocks[..., 4 + 4 * i:8 + 4 * i] for i in range(3))
    scale = np.concatenate([head & 63, tail & 15 | head >> 6 << 4], -1)
    least = np.concatenate([middle & 63, tail >> 4 | middle >> 6 << 4], -1)
    codes = blocks[..., 16:].reshape(*blocks.shape[:-1], 4, 1, 32)
    codes = np.concatenate([codes & 15, codes >> 4], -2).reshape(*blocks.shape[:-1], 8, 32)
    weights = (half(0) * scale)[..., None] * codes - (half(2) * least)[..., None]
    return weights.reshape(*blocks.shape[:-1], 256)


def q4k(rng):
    for n, kb in ((1, 1), (5, 3)):
        w, x = rng.integers(0, 256, (n, kb, 144), dtype=np.uint8), f32(rng, 256 * kb)
        w[..., :4] = np.ascontiguousarray(rng.standard_normal((n, kb, 2)).astype(np.float16)).view(np.uint8)
        weights = q4k_values(w).reshape(n, 256 * kb)
        # The two sums are subtracted, so the bound takes the magnitudes before.
        magnitude = abs(weights) + 2 * abs(np.repeat(q4k_values(np.where(np.arange(144) < 16, w, 0)), 1, -1).reshape(n, 256 * kb))
        yield Case({"N": n, "KB": kb}, {"w": w, "x": x}, {"y": (weights @ x.astype(np.float64), 100 * EPS * magnitude @ abs(x))})


# ---- what order and data decide ----
def sort(rng):
    for n, k in ((1, 1), (2, 0), (100, 7), (64, 64), (333, 5)):
        x = np.round(f32(rng, n), 1)  # with ties
        x[rng.random(n) < 0.1] = np.nan
        x[rng.random(n) < 0.1] = np.inf
        order = np.argsort(x, kind="stable")
        nan, rest = np.flatnonzero(np.isnan(x)), np.flatnonzero(~np.isnan(x))
        places = np.concatenate([nan, rest[np.argsort(-x[rest], kind="stable")]])[:k]
        want = {"sorted": (x[order], 0), "order": (order, 0), "best": (x[places], 0), "places": (places, 0)}
        yield Case({"N": n}, {"x": x, "most": np.array([k])}, want)


def overlaps(a, b, limit):
    """in f32, as the program computes it"""
    height = max(min(a[2], b[2]) - max(a[0], b[0]), np.float32(0))
    width = max(min(a[3], b[3]) - max(a[1], b[1]), np.float32(0))
    common, areas = height * width, (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1])
    return common > limit * (areas - common)


def nms(rng):
    for n, most, limit in ((1, 1, 0.5), (60, 100, 0.3), (60, 4, 0.3), (40, 0, 0.5), (50, 50, 0.9)):
        corner = rng.random((n, 2)).astype(np.float32)
        boxes = np.concatenate([corner, corner + rng.random((n, 2)).astype(np.float32) * np.float32(0.4)], 1)
        scores, least, limit = np.round(rng.random(n), 2).astype(np.float32), np.float32(0.2), np.float32(limit)
        chosen = []
        for i in np.argsort(-scores, kind="stable"):
            if len(chosen) == most or scores[i] <= least:
                break
            if not any(overlaps(boxes[i], boxes[c], limit) for c in chosen):
                chosen.append(i)
        one = lambda v, t: np.array([v], t)
        inputs = {"boxes": boxes, "scores": scores, "overlap": one(limit, np.float32), "least": one(least, np.float32), "most": one(most, np.int64)}
        yield Case({"N": n}, inputs, {"chosen": (np.array(chosen, np.int64), 0)})


def nonzero(rng):
    for r, c, density in ((1, 1, 1.0), (5, 19, 0.3), (40, 300, 0.5), (3, 8, 0.0), (0, 5, 1.0), (4, 0, 1.0)):
        x = f32(rng, r, c) * (rng.random((r, c)) < density)
        yield Case({"R": r, "C": c}, {"x": x}, {"at": (np.array(np.nonzero(x)), 0)})


PROGRAMS = {
    "matmul_14x32": matmul(14, 32), "matmul_6x16": matmul(6, 16), "winograd": winograd, "attention": attention, "lstm": lstm, "ring": ring,
    "csr": csr, "q4k": q4k, "rows": rows, "moe": moe, "sort": sort, "nms": nms, "nonzero": nonzero,
}


# ---- running ----
def same_bits(a, b):
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind == "f":
        nan = np.isnan(a)
        return np.array_equal(nan, np.isnan(b)) and np.array_equal(np.where(nan, 0, a).view(np.uint32), np.where(nan, 0, b).view(np.uint32))
    return np.array_equal(a, b)


def wrong(found, want, bound):
    """what is wrong, or None"""
    if found.shape != np.shape(want):
        return f"expected shape {np.shape(want)}, found {found.shape}"
    if np.isscalar(bound) and bound == 0:
        return None if np.array_equal(found, want, equal_nan=found.dtype.kind == "f") else "differs from NumPy"
    excess = abs(found - want) - bound
    if not found.size or np.all(excess <= 0):
        return None
    at = np.unravel_index(np.nanargmax(np.where(np.isnan(excess), np.inf, excess)), found.shape)
    return f"{[int(i) for i in at]}: expected {np.asarray(want)[at]:.9g}, found {found[at]:.9g}, allowed {np.broadcast_to(bound, found.shape)[at]:.2g}"


def write(case, folder):
    os.mkdir(folder)
    for key, value in case.inputs.items():
        np.save(os.path.join(folder, key + ".npy"), value)
    with open(os.path.join(folder, "dims.txt"), "w") as out:
        out.writelines(f"{key} {value}\n" for key, value in {**case.dims, "runs": case.runs}.items())


def faults_of(case, folder, status):
    """status: {way: its status}"""
    reference, faults = {}, []
    for way in WAYS:
        if way not in status:
            faults.append(f"{way}: did not run")
        elif status[way] != case.status:
            faults.append(f"{way}: expected status {case.status}, found {status[way]}")
        elif case.status == 0:
            for key, (want, bound) in case.want.items():
                found = np.load(os.path.join(folder, way, key + ".npy"))
                first = reference.setdefault(key, found)
                if way != "shuffle" and not same_bits(found, first):
                    faults.append(f"{way}: {key}: not the bits of the interpreter")
                fault = wrong(found, want, bound)
                if fault:
                    faults.append(f"{way}: {key}: {fault}")
    return faults


def run(command, name):
    """passed and failed cases of a program"""
    cases, failed = list(PROGRAMS[name](np.random.default_rng(7))), 0
    with tempfile.TemporaryDirectory() as top:
        folders = [os.path.join(top, str(i)) for i in range(len(cases))]
        for case, folder in zip(cases, folders):
            write(case, folder)
        done = subprocess.run([command, f"{HERE}/gallery/{name}.loop", ",".join(WAYS), *folders], capture_output=True, text=True)
        if done.returncode:
            print(done.stderr.rstrip())
        rows = [line.split() for line in done.stdout.splitlines()]
        for i, case in enumerate(cases):
            faults = faults_of(case, folders[i], {way: int(status) for way, at, status in rows if int(at) == i})
            if faults:
                print(f"FAIL {name} case {i} {case.dims}")
                print("\n".join("  " + fault for fault in faults))
            failed += bool(faults)
    return len(cases) - failed, failed


def avx512_faults(command):
    """the 14x32 tile for x86-64-v4: its accumulators stay in registers (28 products a step of k, hardly a vector on the stack)"""
    faults = []
    for way in ("llvm:x86-64-v4", "gcc:x86-64-v4", "clang:x86-64-v4"):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([command, "-o", f"{HERE}/gallery/matmul_14x32.loop", way, folder], capture_output=True, text=True)
            if done.returncode:
                faults.append(f"{way}: {done.stderr.strip()}")
                continue
            code = subprocess.run(["objdump", "-d", f"{folder}/{way}.o"], capture_output=True, text=True).stdout.splitlines()
            products, stack = (sum(bool(re.search(p, line)) for line in code) for p in (r"vfmadd.*zmm", r"\(%[er][sb]p\).*zmm|zmm.*\(%[er][sb]p\)"))
            if products < 28 or stack > 2:
                faults.append(f"{way}: expected at least 28 fmas of 16 lanes and at most 2 on the stack, found {products} and {stack}")
    return faults


def main():
    command = next((a.split("=", 1)[1] for a in sys.argv[1:] if a.startswith("--gallery=")), None)
    command = command or os.path.join(os.environ.get("BUILD", "build/release"), "tests", "gallery")
    names = [a for a in sys.argv[1:] if not a.startswith("--")] or list(PROGRAMS)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        counts = list(pool.map(lambda name: run(command, name), names))
    passed, failed = sum(c[0] for c in counts), sum(c[1] for c in counts)
    if "matmul_14x32" in names:
        faults = avx512_faults(command)
        print("".join(f"FAIL matmul_14x32 for AVX-512: {f}\n" for f in faults), end="")
        passed, failed = passed + (not faults), failed + bool(faults)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
