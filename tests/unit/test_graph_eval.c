// The reference evaluator: every core operation against values worked out by hand. A case is a graph whose outputs come in pairs, computed
// and expected; they must have one type and shape and the same bits (floats: NaN as a class, else within 1e-6 of the larger one's size).
#include "../../ir/graph.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool same_float(double a, double b) {
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    if (isinf(a) || isinf(b) || a == b) return a == b && signbit(a) == signbit(b);
    return fabs(a - b) <= 1e-6 * fmax(fabs(a), fabs(b));
}

static void expect_same(const char *name, const Tensor *a, const Tensor *b) {
    ck_assert_msg(a->type == b->type && a->rank == b->rank, "%s: type or rank", name);
    for (int i = 0; i < a->rank; i++)
        ck_assert_msg(a->shape[i] == b->shape[i], "%s: axis %d is %d, expected %d", name, i, (int)a->shape[i], (int)b->shape[i]);
    size_t size = (size_t)dtype_bytes(a->type);
    for (int64_t i = 0; i < tensor_count(a); i++) {
        const char *x = (const char *)a->data + (size_t)i * size, *y = (const char *)b->data + (size_t)i * size;
        if (dtype_is_float(a->type)) {
            double p = scalar_as_f64(scalar_read(a->type, x)), q = scalar_as_f64(scalar_read(b->type, y));
            ck_assert_msg(same_float(p, q), "%s: element %d is %.9g, expected %.9g", name, (int)i, p, q);
        } else if (a->type == DT_str) {
            StringElement s, u;
            memcpy(&s, x, sizeof s);
            memcpy(&u, y, sizeof u);
            ck_assert_msg(s.size == u.size && !memcmp(s.text, u.text, s.size), "%s: element %d", name, (int)i);
        } else {
            ck_assert_msg(!memcmp(x, y, size), "%s: element %d is %lld, expected %lld", name, (int)i,
                (long long)scalar_as_i64(scalar_read(a->type, x)), (long long)scalar_as_i64(scalar_read(b->type, y)));
        }
    }
}

// Runs a text without inputs; returns the status, with the reason in *why.
static int run_text(const char *text, Arena *arena, Tensor *out, int max, int *count, Diag *d) {
    Graph *g = graph_parse(text, "case", d);
    ck_assert_msg(g != NULL, "%s\n%s", d->errors ? d->text.data : "", text);
    ck_assert_msg(graph_verify(g, d), "%s\n%s", d->errors ? d->text.data : "", text);
    ck_assert(g->body->params.n == 0 && g->body->yields.n <= max);
    *count = g->body->yields.n;
    int status = graph_eval(g, NULL, out, arena, NULL, NULL, d);
    for (int i = 0; i < *count && status == 0; i++) {
        if (out[i].type != DT_str) continue;
        StringElement *e = out[i].data; // the text lives in the graph
        for (int64_t k = 0; k < tensor_count(&out[i]); k++) e[k].text = arena_strndup(arena, e[k].text, e[k].size);
    }
    graph_free(g);
    return status;
}

typedef struct {
    const char *name, *body;
} Case; // body: statements that define %x… and pairs of outputs

static const Case cases[] = {
    {"map broadcasts", "%a = const f32[2, 1] {1.0, 2.0}\n%b = const f32[3] {10.0, 20.0, 30.0}\n%y = map %a, %b body(a0 + a1) : f32[2, 3]\n"
                       "%w = const f32[2, 3] {11.0, 21.0, 31.0, 12.0, 22.0, 32.0}\n"},
    {"map of rank 0", "%a = const f32[] {3.0}\n%y = map %a body(a0 * a0) : f32[]\n%w = const f32[] {9.0}\n"},
    {"map of nothing", "%a = const f32[0, 3] {}\n%y = map %a body(exp(a0)) : f32[0, 3]\n%w = const f32[0, 3] {}\n"},
    {"max keeps NaN",
        "%a = const f32[3] {nan, -1.0, inf}\n%y = map %a body(max(a0, 0.0f32)) : f32[3]\n%w = const f32[3] {nan, 0.0, inf}\n"},
    {"integers truncate and wrap",
        "%a = const i8[4] {-7, 7, 127, -128}\n%b = const i8[4] {2, -2, 1, -1}\n%y = map %a, %b body(a0 / a1 + a1) : i8[4]\n"
        "%w = const i8[4] {-1, -5, -128, 127}\n"},
    {"a body reads its position", "%y = map body(cast.i64(dim(10 * d0 + d1))) : i64[2, 3]\n%w = const i64[2, 3] {0, 1, 2, 10, 11, 12}\n"},
    {"casts saturate",
        "%a = const f32[4] {nan, 300.0, -3.7, 2.5}\n%y = map %a body(cast.u8(a0)) : u8[4]\n%w = const u8[4] {0, 255, 0, 2}\n"},
    {"f16 rounds",
        "%a = const f16[2] {2048.0, 0.333251953125}\n%y = map %a body(a0 + 1.0f16) : f16[2]\n%w = const f16[2] {2048.0, 1.3330078125}\n"},
    {"strings are gathered", "%a = const str[3] {\"a\", \"ab\", \"\"}\n%i = const i64[2] {1, 2}\n%y = gather %a, %i index(v0) : str[2]\n%w "
                             "= const str[2] {\"ab\", \"\"}\n"},
    {"dims are values", "%y = dims dims(2, 5) : i64[2]\n%w = const i64[2] {2, 5}\n"},
    {"slice backwards", "%a = const i32[5] {0, 1, 2, 3, 4}\n%y = view %a index(4 - 2 * d0) : i32[3]\n%w = const i32[3] {4, 2, 0}\n"},
    {"transpose, then reshape",
        "%a = const i32[2, 3] {0, 1, 2, 3, 4, 5}\n%v = view %a index(d1, d0) : i32[3, 2]\n%y = reshape %v : i32[6]\n"
        "%w = const i32[6] {0, 3, 1, 4, 2, 5}\n"},
    {"pad",
        "%a = const i32[2] {7, 8}\n%y = view %a index(d0 - 1) guard(d0 - 1, 2 - d0) fill 9 : i32[5]\n%w = const i32[5] {9, 7, 8, 9, 9}\n"},
    {"pad two axes and crop",
        "%a = const i32[2, 2] {1, 2, 3, 4}\n%y = view %a index(d0 + 1, d1 - 1) guard(d1 - 1, 2 - d1) fill 0 : i32[1, 4]\n"
        "%w = const i32[1, 4] {0, 3, 4, 0}\n"},
    {"a guard inside the bounds",
        "%a = const i32[4] {1, 2, 3, 4}\n%y = view %a index(d0) guard(d0 - 2) fill 0 : i32[4]\n%w = const i32[4] {0, 0, 3, 4}\n"},
    {"guards of two axes", "%a = const i32[2, 2] {1, 2, 3, 4}\n%y = view %a index(d0, d1) guard(d0 - d1) fill 0 : i32[2, 2]\n%w = const "
                           "i32[2, 2] {1, 0, 3, 4}\n"},
    {"a guard that never holds",
        "%a = const i32[2] {1, 2}\n%y = view %a index(d0) guard(-d0 - 1) fill 5 : i32[2]\n%w = const i32[2] {5, 5}\n"},
    {"tile", "%a = const i32[3] {1, 2, 3}\n%y = view %a index(mod(d0, 3)) : i32[7]\n%w = const i32[7] {1, 2, 3, 1, 2, 3, 1}\n"},
    {"repeat", "%a = const i32[3] {1, 2, 3}\n%y = view %a index(floordiv(d0, 2)) : i32[6]\n%w = const i32[6] {1, 1, 2, 2, 3, 3}\n"},
    {"diagonal", "%a = const i32[2, 2] {1, 2, 3, 4}\n%y = view %a index(d0, d0) : i32[2]\n%w = const i32[2] {1, 4}\n"},
    {"view of a scalar", "%a = const i32[] {6}\n%y = view %a index() : i32[2]\n%w = const i32[2] {6, 6}\n"},
    {"view of nothing", "%a = const i32[0] {}\n%y = view %a index(d0) guard(-1 - d0) fill 3 : i32[2]\n%w = const i32[2] {3, 3}\n"},
    {"concat", "%a = const i32[2, 1] {1, 2}\n%b = const i32[2, 2] {3, 4, 5, 6}\n%c = const i32[2, 0] {}\n%y = concat %a, %c, %b axis 1 : "
               "i32[2, 3]\n"
               "%w = const i32[2, 3] {1, 3, 4, 2, 5, 6}\n"},
    {"gather rows",
        "%a = const f32[3, 2] {0.0, 1.0, 2.0, 3.0, 4.0, 5.0}\n%i = const i64[2, 1] {2, 0}\n%y = gather %a, %i index(v0, d1) : f32[2, 2]\n"
        "%w = const f32[2, 2] {4.0, 5.0, 0.0, 1.0}\n"},
    {"gather by two indices", "%a = const i32[2, 2] {1, 2, 3, 4}\n%i = const i8[3] {0, 1, 1}\n%j = const u8[3] {1, 0, 1}\n%y = gather %a, "
                              "%i, %j index(v0, v1) : i32[3]\n"
                              "%w = const i32[3] {2, 3, 4}\n"},
    {"gather guarded", "%a = const i32[2] {1, 2}\n%i = const i32[3] {-5, 1, 9}\n%y = gather %a, %i index(v0) guard(v0, 1 - v0) fill 7 : "
                       "i32[3]\n%w = const i32[3] {7, 2, 7}\n"},
    {"gather long rows", "%p = map body(cast.i32(dim(d0))) : i32[1000]\n%i = const i64[] {1}\n%y = gather %p, %i index(d0 * v0) : "
                         "i32[1000]\n%w = map %p body(a0 * 1i32) : i32[1000]\n"},
    {"scatter sets in order", "%a = const i32[3] {1, 2, 3}\n%u = const i32[2] {8, 9}\n%i = const i64[2] {1, 1}\n%y = scatter %a, %u, %i "
                              "index(v0) kind set : i32[3]\n"
                              "%w = const i32[3] {1, 9, 3}\n"},
    {"scatter adds each", "%a = const f32[3] {1.0, 2.0, 3.0}\n%u = const f32[3] {8.0, 9.0, 1.0}\n%i = const i64[3] {1, 1, -1}\n"
                          "%y = scatter %a, %u, %i index(v0) guard(v0) kind add : f32[3]\n%w = const f32[3] {1.0, 19.0, 3.0}\n"},
    {"scatter max", "%a = const f32[2] {1.0, 2.0}\n%u = const f32[2] {nan, 1.0}\n%i = const i32[2] {0, 1}\n%y = scatter %a, %u, %i "
                    "index(v0) kind max : f32[2]\n"
                    "%w = const f32[2] {nan, 2.0}\n"},
    {"sum rows",
        "%a = const f32[2, 3] {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}\n%y = reduce %a kind sum axes(1) : f32[2]\n%w = const f32[2] {6.0, 15.0}\n"},
    {"sum columns", "%a = const f32[2, 3] {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}\n%y = reduce %a kind sum axes(0) keep 1 : f32[1, 3]\n%w = const "
                    "f32[1, 3] {5.0, 7.0, 9.0}\n"},
    {"sum around an axis",
        "%a = const i32[2, 2, 2] {1, 2, 3, 4, 5, 6, 7, 8}\n%y = reduce %a kind sum axes(0, 2) : i32[2]\n%w = const i32[2] {14, 22}\n"},
    {"sums of nothing", "%a = const f32[0, 2] {}\n%y = reduce %a kind sum axes(0) : f32[2]\n%w = const f32[2] {0.0, 0.0}\n"},
    {"max of nothing", "%a = const i8[0] {}\n%y = reduce %a kind max axes(0) : i8[]\n%w = const i8[] {-128}\n"},
    {"min of nothing", "%a = const f32[0] {}\n%y = reduce %a kind min axes(0) : f32[]\n%w = const f32[] {inf}\n"},
    {"prod wraps", "%a = const u8[2] {100, 3}\n%y = reduce %a kind prod axes(0) : u8[]\n%w = const u8[] {44}\n"},
    {"max keeps NaN in rows",
        "%a = const f32[2, 2] {nan, 1.0, 2.0, -1.0}\n%y = reduce %a kind max axes(1) : f32[2]\n%w = const f32[2] {nan, 2.0}\n"},
    {"max of u64",
        "%a = const u64[2] {18446744073709551615, 1}\n%y = reduce %a kind max axes(0) : u64[]\n%w = const u64[] {18446744073709551615}\n"},
    {"min of u64", "%a = const u64[2] {18446744073709551615, 1}\n%y = reduce %a kind min axes(0) : u64[]\n%w = const u64[] {1}\n"},
    {"any",
        "%a = const bool[2, 2] {false, true, false, false}\n%y = reduce %a kind any axes(1) : bool[2]\n%w = const bool[2] {true, false}\n"},
    {"all",
        "%a = const bool[2, 2] {true, true, false, true}\n%y = reduce %a kind all axes(1) : bool[2]\n%w = const bool[2] {true, false}\n"},
    {"argmax takes the first",
        "%a = const f32[2, 3] {1.0, 3.0, 3.0, nan, 4.0, nan}\n%y = reduce %a kind argmax axes(1) : i64[2]\n%w = const i64[2] {1, 0}\n"},
    {"argmin takes the last", "%a = const i32[3] {1, 1, 3}\n%y = reduce %a kind argmin_last axes(0) : i64[]\n%w = const i64[] {1}\n"},
    {"a long sum is exact", "%o = const f32[100000] splat 0.1\n%y = reduce %o kind sum axes(0) : f32[]\n%w = const f32[] {10000.0}\n"},
    {"scan",
        "%a = const i32[2, 3] {1, 2, 3, 4, 5, 6}\n%y = scan %a kind sum axis 1 : i32[2, 3]\n%w = const i32[2, 3] {1, 3, 6, 4, 9, 15}\n"},
    {"scan backwards, exclusive", "%a = const f32[3] {1.0, 2.0, 3.0}\n%y = scan %a kind sum axis 0 exclusive 1 reverse 1 : f32[3]\n%w = "
                                  "const f32[3] {5.0, 3.0, 0.0}\n"},
    {"scan prod", "%a = const i32[3, 1] {2, 3, 4}\n%y = scan %a kind prod axis 0 : i32[3, 1]\n%w = const i32[3, 1] {2, 6, 24}\n"},
    {"scan max", "%a = const i64[3] {-5, -7, 2}\n%y = scan %a kind max axis 0 : i64[3]\n%w = const i64[3] {-5, -5, 2}\n"},
    {"matmul", "%a = const f32[2, 2] {1.0, 2.0, 3.0, 4.0}\n%b = const f32[2, 3] {1.0, 0.0, 2.0, 0.0, 1.0, 3.0}\n%y = contract %a, %b subs "
               "\"mk,kn->mn\" : f32[2, 3]\n"
               "%w = const f32[2, 3] {1.0, 2.0, 8.0, 3.0, 4.0, 18.0}\n"},
    {"outer product", "%a = const f32[2] {1.0, 2.0}\n%b = const f32[2] {3.0, 4.0}\n%y = contract %a, %b subs \"m,n->nm\" : f32[2, 2]\n%w = "
                      "const f32[2, 2] {3.0, 6.0, 4.0, 8.0}\n"},
    {"a sum over one operand alone", "%a = const i32[2, 2] {1, 2, 3, 4}\n%b = const i32[2] {10, 1}\n%y = contract %a, %b subs \"ij,i->i\" "
                                     ": i32[2]\n%w = const i32[2] {30, 7}\n"},
    {"trace", "%a = const f64[2, 2] {1.0, 2.0, 3.0, 4.0}\n%b = const f64[] {2.0}\n%y = contract %a, %b subs \"ii,->\" : f64[]\n%w = const "
              "f64[] {10.0}\n"},
    {"contraction of nothing", "%a = const f32[2, 0] {}\n%b = const f32[0, 2] {}\n%y = contract %a, %b subs \"mk,kn->mn\" : f32[2, 2]\n%w "
                               "= const f32[2, 2] {0.0, 0.0, 0.0, 0.0}\n"},
    {"int8 in i32", "%a = const u8[1, 2] {255, 255}\n%b = const i8[2, 1] {127, 127}\n%y = contract %a, %b subs \"mk,kn->mn\" : i32[1, "
                    "1]\n%w = const i32[1, 1] {64770}\n"},
    {"f16 accumulates wide", "%a = const f16[1, 3] {2048.0, 1.0, 1.0}\n%b = const f16[3, 1] {1.0, 1.0, 1.0}\n%y = contract %a, %b subs "
                             "\"mk,kn->mn\" : f16[1, 1]\n"
                             "%w = const f16[1, 1] {2050.0}\n"},
    {"softmax", "%a = const f32[2, 2] {0.0, 0.0, 1.0, 0.0}\n%y = softmax %a kind softmax axes(1) : f32[2, 2]\n%w = const f32[2, 2] {0.5, "
                "0.5, 0.7310586, 0.26894143}\n"},
    {"softmax over the first axis", "%a = const f64[2, 2] {0.0, 5.0, 0.0, 5.0}\n%y = softmax %a kind softmax axes(0) : f64[2, 2]\n%w = "
                                    "const f64[2, 2] {0.5, 0.5, 0.5, 0.5}\n"},
    {"softmax over both axes", "%a = const f32[2, 2] {0.0, 0.0, 0.0, 0.0}\n%y = softmax %a kind softmax axes(0, 1) : f32[2, 2]\n%w = const "
                               "f32[2, 2] {0.25, 0.25, 0.25, 0.25}\n"},
    {"logsoftmax of large ones", "%a = const f32[2] {1000.0, 1000.0}\n%y = softmax %a kind logsoftmax axes(0) : f32[2]\n%w = const f32[2] "
                                 "{-0.6931472, -0.6931472}\n"},
    {"layer norm", "%a = const f32[1, 4] {1.0, 2.0, 3.0, 4.0}\n%y = norm %a kind layer axes(1) eps 0.75 : f32[1, 4]\n"
                   "%w = const f32[1, 4] {-1.0606602, -0.35355339, 0.35355339, 1.0606602}\n"},
    {"rms norm",
        "%a = const f32[2] {3.0, 4.0}\n%y = norm %a kind rms axes(0) eps 0.0 : f32[2]\n%w = const f32[2] {0.84852814, 1.1313709}\n"},
    {"attention",
        "%q = const f32[1, 1, 1, 1] {1.0}\n%k = const f32[1, 1, 2, 1] {0.0, 0.0}\n%v = const f32[1, 1, 2, 2] {1.0, 2.0, 3.0, 4.0}\n"
        "%y = attention %q, %k, %v score(a0) prob(a0) scale 1.0 : f32[1, 1, 1, 2]\n%w = const f32[1, 1, 1, 2] {2.0, 3.0}\n"},
    {"causal attention with a mask",
        "%q = const f32[1, 1, 2, 1] {1.0, 1.0}\n%v = const f32[1, 1, 2, 1] {5.0, 7.0}\n%m = const f32[2, 1] {-inf, 0.0}\n"
        "%y = attention %q, %q, %v, %m score(select(dim(d2 - d3) >= dim(0), a0 + a1, -inff32)) prob(a0) scale 0.5 : f32[1, 1, 2, 1]\n"
        "%w = const f32[1, 1, 2, 1] {0.0, 6.0}\n"},
    {"sort is stable and puts NaN last",
        "%a = const f32[5] {2.0, nan, 1.0, 2.0, -inf}\n%v, %y = template %a kind sort axis 0 flags(0) : f32[5], i64[5]\n"
        "%w = const i64[5] {4, 2, 0, 3, 1}\n%vw = const f32[5] {-inf, 1.0, 2.0, 2.0, nan}\noutput %v\noutput %vw\n"},
    {"top k", "%a = const i32[2, 3] {1, 3, 3, 9, 7, 8}\n%v, %y = template %a kind topk axis 1 flags(1, 1) : i32[2, 2], i64[2, 2]\n%w = "
              "const i64[2, 2] {1, 2, 0, 2}\n"
              "%vw = const i32[2, 2] {3, 3, 9, 8}\noutput %v\noutput %vw\n"},
    {"top k of the first axis, k from data",
        "data dim k in 0..3\n%a = const i32[3, 1] {5, 4, 6}\n%n = const i64[1] {2}\n"
        "%v, %y = template %a, %n kind topk axis 0 dims(k) flags(0, 1) : i32[k, 1], i64[k, 1]\n%w = const i64[2, 1] {1, 0}\n"},
    {"nonzero", "data dim k in 0..\n%a = const f32[2, 2] {0.0, nan, -0.0, 1.0}\n%y = template %a kind nonzero dims(k) : i64[2, k]\n%w = "
                "const i64[2, 2] {0, 1, 1, 1}\n"
                "%d = dims dims(3 * k) : i64[1]\n%dw = const i64[1] {6}\noutput %d\noutput %dw\n"},
    {"nonzero of a scalar",
        "data dim k in 0..\n%a = const u64[] {1}\n%y = template %a kind nonzero dims(k) : i64[1, k]\n%w = const i64[1, 1] {0}\n"},
    {"unique in order of value",
        "data dim k in 0..\n%a = const i32[2, 2] {3, 1, 3, 2}\n%u, %f, %y, %c = template %a kind unique axis -1 dims(k) flags(1) : i32[k], "
        "i64[k], i64[4], i64[k]\n"
        "%w = const i64[4] {2, 0, 2, 1}\n%uw = const i32[3] {1, 2, 3}\n%fw = const i64[3] {1, 3, 0}\n%cw = const i64[3] {1, 1, 2}\n"
        "output %u\noutput %uw\noutput %f\noutput %fw\noutput %c\noutput %cw\n"},
    {"unique in order of appearance", "data dim k in 0..\n%a = const str[3] {\"b\", \"a\", \"b\"}\n%u, %y = template %a kind unique axis "
                                      "-1 dims(k) flags(0) : str[k], i64[k]\n"
                                      "%w = const i64[2] {0, 1}\n%uw = const str[2] {\"b\", \"a\"}\noutput %u\noutput %uw\n"},
    {"unique columns", "data dim k in 0..\n%a = const i32[2, 3] {1, 0, 1, 2, 5, 2}\n%y = template %a kind unique axis 1 dims(k) flags(1) : "
                       "i32[2, k]\n%w = const i32[2, 2] {0, 1, 5, 2}\n"},
    {"nms", "data dim k in 0..\n%b = const f32[1, 3, 4] {0.0, 0.0, 1.0, 1.0, 1.0, 1.1, 0.0, 0.1, 0.0, 10.0, 1.0, 11.0}\n%s = const f32[1, "
            "1, 3] {0.5, 0.9, 0.4}\n"
            "%m = const i64[] {5}\n%t = const f32[] {0.5}\n%c = const f32[] {0.0}\n%y = template %b, %s, %m, %t, %c kind nms dims(k) "
            "flags(0) : i64[k, 3]\n"
            "%w = const i64[2, 3] {0, 0, 1, 0, 0, 2}\n"},
    {"a size from data", "data dim k in 0..9\n%a = const i32[2] {4, 3}\ntemplate %a kind size dims(k) flags(1)\n%y = map "
                         "body(cast.i64(dim(d0))) : i64[k]\n%w = const i64[3] {0, 1, 2}\n"},
    {"if", "data dim n in 0..2\n%c = const bool[] {false}\n%a = const f32[1] {1.0}\n%b = const f32[2] {2.0, 3.0}\n"
           "%y = if %c {\n  %m = map %a body(neg(a0)) : f32[1]\n  yield %m\n} else {\n  %o = map %b body(a0 + 1.0f32) : f32[2]\n  yield "
           "%o\n} : f32[n]\n"
           "%w = const f32[2] {3.0, 4.0}\n%d = dims dims(n) : i64[1]\n%dw = const i64[1] {2}\noutput %d\noutput %dw\n"},
    {"loop with scans",
        "%n = const i64[] {3}\n%t = const bool[] {true}\n%a = const i64[] {1}\n"
        "%l, %y = loop %n, %t, %a scans 1 dims(3) {\n  param %i: i64[]\n  param %g: bool[]\n  param %v: i64[]\n"
        "  %v2 = map %v, %i body(a0 * 2i64 + a1) : i64[]\n  yield %g, %v2, %v\n} : i64[], i64[3]\n%w = const i64[3] {1, 2, 5}\n"
        "%lw = const i64[] {12}\noutput %l\noutput %lw\n"},
    {"loop that ends itself",
        "data dim trips in 0..\n%n = const i64[] {-1}\n%t = const bool[] {true}\n%a = const i64[] {1}\n"
        "%l, %y = loop %n, %t, %a scans 1 dims(trips) {\n  param %i: i64[]\n  param %g: bool[]\n  param %v: i64[]\n"
        "  %v2 = map %v body(a0 * 3i64) : i64[]\n  %on = map %v2 body(a0 < 20i64) : bool[]\n  yield %on, %v2, %i\n} : i64[], i64[trips]\n"
        "%w = const i64[3] {0, 1, 2}\n"},
    {"loop that does not start", "data dim trips in 0..\n%n = const i64[] {4}\n%t = const bool[] {false}\n%a = const i64[] {7}\n"
                                 "%y, %s = loop %n, %t, %a scans 1 dims(trips) {\n  param %i: i64[]\n  param %g: bool[]\n  param %v: "
                                 "i64[]\n  yield %g, %v, %v\n} : i64[], i64[trips]\n"
                                 "%w = const i64[] {7}\n%sw = const i64[0] {}\noutput %s\noutput %sw\n"},
    {"a loop that grows",
        "data dim p in 0..\ndata dim n in 0..\n%n3 = const i64[] {3}\n%t = const bool[] {true}\n%a = const i64[1] {9}\n"
        "%y = loop %n3, %t, %a {\n  param %i: i64[]\n  param %g: bool[]\n  param %v: i64[p]\n  %r = view %i index() : i64[1]\n"
        "  %v2 = concat %v, %r axis 0 : i64[p + 1]\n  yield %g, %v2\n} : i64[n]\n%w = const i64[4] {9, 0, 1, 2}\n"},
    {"a branch in a loop", "%n = const i64[] {4}\n%t = const bool[] {true}\n%a = const i64[] {0}\n"
                           "%y = loop %n, %t, %a {\n  param %i: i64[]\n  param %g: bool[]\n  param %v: i64[]\n  %odd = map %i body((a0 & "
                           "1i64) == 1i64) : bool[]\n"
                           "  %v2 = if %odd {\n    %s = map %v, %i body(a0 + a1) : i64[]\n    yield %s\n  } else {\n    yield %v\n  } : "
                           "i64[]\n  yield %g, %v2\n} : i64[]\n"
                           "%w = const i64[] {4}\n"},
    {"random is uniform",
        "%r = random kind uniform params(2.0, 3.0) : f32[1000]\n%lo = reduce %r kind min axes(0) : f32[]\n%hi = reduce %r kind max axes(0) "
        ": f32[]\n"
        "%y = map %lo, %hi body((a0 >= 2.0f32) & (a1 <= 3.0f32) & (a0 < 2.1f32) & (a1 > 2.9f32)) : bool[]\n%w = const bool[] {true}\n"},
    {"normal has its moments", "%r = random kind normal params(5.0, 2.0) : f32[20000] #3\n%s = reduce %r kind sum axes(0) : f32[]\n%q = "
                               "map %r body((a0 - 5.0f32) * (a0 - 5.0f32)) : f32[20000]\n"
                               "%v = reduce %q kind sum axes(0) : f32[]\n%y = map %s, %v body((abs(a0 - 100000.0f32) < 1500.0f32) & "
                               "(abs(a1 - 80000.0f32) < 4000.0f32)) : bool[]\n"
                               "%w = const bool[] {true}\n"},
    {"bernoulli and multinomial", "%p = const f32[2] {0.0, 1.0}\n%y = random %p kind bernoulli : i32[2]\n%w = const i32[2] {0, 1}\n%l = "
                                  "const f32[1, 3] {-inf, 0.0, -inf}\n"
                                  "%m = random %l kind multinomial : i32[1, 3]\n%mw = const i32[1, 3] {1, 1, 1}\noutput %m\noutput %mw\n"},
};

START_TEST(values_by_hand) {
    const Case *c = &cases[_i];
    char text[4096];
    // The pair %y, %w comes after the case's own pairs.
    ck_assert_int_lt(snprintf(text, sizeof text, "graph x\n%soutput %%y\noutput %%w\n", c->body), (int)sizeof text);
    Arena *arena = arena_new();
    Diag d = {0};
    Tensor out[16];
    int n;
    int status = run_text(text, arena, out, 16, &n, &d);
    ck_assert_msg(status == 0, "%s: %s", c->name, d.errors ? d.text.data : "");
    for (int i = 0; i + 1 < n; i += 2) expect_same(c->name, &out[i], &out[i + 1]);
    diag_free(&d);
    arena_free(arena);
}
END_TEST

typedef struct {
    const char *name, *text;
    StatusCode code;
    int node;
} Fault;
static const Fault faults[] = {
    {"division", "graph x\n%a = const i32[2] {1, 0}\n%y = map %a body(1i32 / a0) : i32[2] @\"d\" (Div) #7\noutput %y\n", CODE_DIVISION, 7},
    {"index", "graph x\n%a = const i32[2] {1, 0}\n%i = const i64[1] {2}\n%y = gather %a, %i index(v0) : i32[1] #2\noutput %y\n", CODE_INDEX,
        2},
    {"scatter index",
        "graph x\n%a = const i64[2] {1, 0}\n%i = const i64[1] {-1}\n%y = scatter %a, %i, %i index(v0) kind set : i64[2]\noutput %y\n",
        CODE_INDEX, 0},
    {"view index", "graph x\n%a = const i32[2] {1, 0}\n%y = view %a index(d0 + 1) : i32[2]\noutput %y\n", CODE_INDEX, 0},
    {"check", "graph x\n%a = const bool[] {false}\ncheck %a code assert #1\noutput %a\n", CODE_ASSERT, 1},
    {"guard",
        "graph x\ndata dim k in 0..\n%a = const i64[] {3}\ntemplate %a kind size dims(k) flags(0)\ncheck guard(k - 4) code shape "
        "#5\noutput %a\n",
        CODE_SHAPE, 5},
    {"bound", "graph x\ndata dim k in 0..2\n%a = const i64[] {3}\ntemplate %a kind size dims(k) flags(0) #4\noutput %a\n", CODE_SHAPE, 4},
    {"reshape",
        "graph x\ndata dim k in 0..\n%a = const i64[1] {3}\ntemplate %a kind size dims(k) flags(0)\n%y = reshape %a : i64[k] #6\noutput "
        "%y\n",
        CODE_SHAPE, 6},
    {"huge",
        "graph x\ndata dim k in 0..\n%a = const i64[1] {1099511627776}\ntemplate %a kind size dims(k) flags(0)\n%y = view %a index(0) "
        "guard(k - 5 - d0) fill 1 : i64[k] #6\noutput %y\n",
        CODE_MEMORY, 6},
    {"argmax of nothing", "graph x\n%a = const f32[2, 0] {}\n%y = reduce %a kind argmax axes(1) : i64[2] #9\noutput %y\n", CODE_SHAPE, 9},
    {"k too large",
        "graph x\ndata dim k in 0..\n%a = const f32[2] {1.0, 2.0}\n%n = const i64[] {3}\n%y = template %a, %n kind topk axis 0 dims(k) "
        "flags(1, 1) : f32[k] #1\noutput %y\n",
        CODE_SHAPE, 1},
};

START_TEST(faults_have_a_status) {
    const Fault *f = &faults[_i];
    Arena *arena = arena_new();
    Diag d = {0};
    Tensor out[4];
    int n, status = run_text(f->text, arena, out, 4, &n, &d);
    ck_assert_msg(status == -((int)f->code + 256 * f->node), "%s: status %d, %s", f->name, status, d.errors ? d.text.data : "");
    ck_assert_int_eq(d.errors, 1);
    diag_free(&d);
    arena_free(arena);
}
END_TEST

// ---- inputs with symbolic shapes ----

static void seen(void *ctx, const Value *v, const Tensor *x) {
    (void)v;
    *(int64_t *)ctx += tensor_count(x);
}

START_TEST(symbols_come_from_inputs) {
    Diag d = {0};
    Graph *g = graph_parse("graph x\ndim N in 1..4\ninput %x: f32[N, 2]\ninput %y: f32[2 * N]\n%f = reshape %x : f32[2 * N]\n%z = map %f, "
                           "%y body(a0 + a1) : f32[2 * N]\noutput %z\n",
        "x", &d);
    ck_assert_msg(g != NULL, "%s", d.errors ? d.text.data : "");
    Arena *arena = arena_new();
    int64_t s2[2] = {3, 2}, s1[1] = {6}, count = 0;
    Tensor in[2] = {tensor_new(arena, DT_f32, 2, s2), tensor_new(arena, DT_f32, 1, s1)}, out;
    for (int i = 0; i < 6; i++) ((float *)in[0].data)[i] = (float)i, ((float *)in[1].data)[i] = 10;
    ck_assert_int_eq(graph_eval(g, in, &out, arena, seen, &count, &d), 0);
    ck_assert_int_eq(count, 24);
    ck_assert(((float *)out.data)[5] == 15);
    in[1].shape[0] = 5; // not 2 * N
    ck_assert_int_eq(graph_eval(g, in, &out, arena, NULL, NULL, &d), -CODE_SHAPE);
    in[0].shape[0] = 5; // over the bound
    ck_assert_int_eq(graph_eval(g, in, &out, arena, NULL, NULL, &d), -CODE_SHAPE);
    in[0].type = DT_f64;
    ck_assert_int_eq(graph_eval(g, in, &out, arena, NULL, NULL, &d), -CODE_SHAPE);
    graph_free(g);
    arena_free(arena);
    diag_free(&d);
}
END_TEST

// ---- convolution through windows and a contraction, against the definition ----

typedef struct {
    int n, c, h, w, m, k, stride, dilation, pad;
} Conv;
static const Conv convs[] = {{1, 1, 5, 5, 1, 3, 1, 1, 0}, {2, 3, 9, 8, 4, 3, 1, 1, 1}, {1, 2, 12, 11, 3, 3, 2, 1, 1},
    {1, 2, 13, 13, 2, 3, 1, 2, 2}, {1, 4, 7, 20, 5, 1, 1, 1, 0}, {1, 2, 6, 6, 3, 5, 3, 1, 2}};

static float noise(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return (float)(int32_t)*state / 2147483648.0f;
}

static double conv_at(const Conv *q, const float *x, const float *w, int n, int m, int y, int z) {
    double sum = 0;
    for (int c = 0; c < q->c; c++)
        for (int i = 0; i < q->k; i++)
            for (int j = 0; j < q->k; j++) {
                int row = y * q->stride + i * q->dilation - q->pad, col = z * q->stride + j * q->dilation - q->pad;
                if (row < 0 || row >= q->h || col < 0 || col >= q->w) continue;
                sum += (double)x[((n * q->c + c) * q->h + row) * q->w + col] * w[((m * q->c + c) * q->k + i) * q->k + j];
            }
    return sum;
}

START_TEST(convolution) {
    const Conv *q = &convs[_i];
    Graph *g = graph_new("conv");
    DimTable *t = g->dims;
    Builder b = {.g = g, .region = g->body};
    int span = (q->k - 1) * q->dilation + 1, oh = (q->h + 2 * q->pad - span) / q->stride + 1,
        ow = (q->w + 2 * q->pad - span) / q->stride + 1;
    const Dim *xs[4] = {dim_int(t, q->n), dim_int(t, q->c), dim_int(t, q->h), dim_int(t, q->w)};
    const Dim *ws[4] = {dim_int(t, q->m), dim_int(t, q->c), dim_int(t, q->k), dim_int(t, q->k)};
    const Dim *out[2] = {dim_int(t, oh), dim_int(t, ow)}, *kernel[2] = {ws[2], ws[3]}, *pad[2] = {dim_int(t, q->pad), dim_int(t, q->pad)};
    const int64_t stride[2] = {q->stride, q->stride}, dilation[2] = {q->dilation, q->dilation};
    Value *x = graph_param(g->body, "x", DT_f32, 4, xs), *w = graph_param(g->body, "w", DT_f32, 4, ws);
    Value *y =
        g_contract(&b, "ncyxij,mcij->nmyx", g_windows(&b, x, 2, out, kernel, stride, dilation, pad, scalar_float(DT_f32, 0)), w, DT_f32);
    vec_push(g->arena, &g->body->yields, y);
    vec_push(g->arena, &g->output_names, (const char *)"y");
    Diag d = {0};
    ck_assert(graph_verify(g, &d));
    Arena *arena = arena_new();
    int64_t xd[4] = {q->n, q->c, q->h, q->w}, wd[4] = {q->m, q->c, q->k, q->k};
    Tensor in[2] = {tensor_new(arena, DT_f32, 4, xd), tensor_new(arena, DT_f32, 4, wd)}, r;
    uint32_t state = 1;
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; i < tensor_count(&in[k]); i++) ((float *)in[k].data)[i] = noise(&state);
    ck_assert_int_eq(graph_eval(g, in, &r, arena, NULL, NULL, &d), 0);
    ck_assert(r.shape[2] == oh && r.shape[3] == ow);
    for (int64_t i = 0; i < tensor_count(&r); i++) {
        int z = (int)(i % ow), v = (int)(i / ow % oh), m = (int)(i / ow / oh % q->m), n = (int)(i / ow / oh / q->m);
        ck_assert_double_eq_tol(((float *)r.data)[i], conv_at(q, in[0].data, in[1].data, n, m, v, z), 1e-6);
    }
    graph_free(g);
    arena_free(arena);
    diag_free(&d);
}
END_TEST

// ---- every way through the contraction: operand layouts and sizes around the block and the dot product ----

START_TEST(contraction_layouts) {
    static const char *const subs[] = {"bmk,bkn->bmn", "bmk,bnk->bmn", "bkm,bkn->bmn", "bkm,bnk->bmn", "bmk,bkn->nbm"};
    static const int sizes[][4] = {{1, 1, 1, 1}, {2, 3, 17, 5}, {1, 2, 9, 300}, {3, 5, 64, 2}, {1, 130, 8, 129}};
    const char *s = subs[_i % 5];
    const int *z = sizes[_i / 5];
    DType types[] = {DT_f32, DT_f64, DT_i32};
    Arena *arena = arena_new();
    Diag d = {0};
    for (int k = 0; k < 3; k++) {
        int64_t extent[128] = {['b'] = z[0], ['m'] = z[1], ['k'] = z[2], ['n'] = z[3]};
        char text[256];
        int64_t xs[3], ys[3];
        for (int i = 0; i < 3; i++) xs[i] = extent[(int)s[i]], ys[i] = extent[(int)s[4 + i]];
        const char *o = s + 9;
        const char *dt = dtype_name(types[k]);
        snprintf(text, sizeof text,
            "graph x\ninput %%x: %s[%d, %d, %d]\ninput %%y: %s[%d, %d, %d]\n%%z = contract %%x, %%y subs \"%s\" : %s[%d, %d, %d]\noutput "
            "%%z\n",
            dt, (int)xs[0], (int)xs[1], (int)xs[2], dt, (int)ys[0], (int)ys[1], (int)ys[2], s, dt, (int)extent[(int)o[0]],
            (int)extent[(int)o[1]], (int)extent[(int)o[2]]);
        Graph *g = graph_parse(text, "x", &d);
        ck_assert_msg(g != NULL, "%s", d.errors ? d.text.data : "");
        Tensor in[2] = {tensor_new(arena, types[k], 3, xs), tensor_new(arena, types[k], 3, ys)}, r;
        for (int64_t i = 0; i < tensor_count(&in[0]); i++)
            scalar_write(scalar_int(types[k], i * 7 % 11 - 5), (char *)in[0].data + i * dtype_bytes(types[k]));
        for (int64_t i = 0; i < tensor_count(&in[1]); i++)
            scalar_write(scalar_int(types[k], i * 5 % 13 - 6), (char *)in[1].data + i * dtype_bytes(types[k]));
        ck_assert_int_eq(graph_eval(g, in, &r, arena, NULL, NULL, &d), 0);
        int64_t at[128] = {0}, index = 0;
        for (at[(int)o[0]] = 0; at[(int)o[0]] < extent[(int)o[0]]; at[(int)o[0]]++)
            for (at[(int)o[1]] = 0; at[(int)o[1]] < extent[(int)o[1]]; at[(int)o[1]]++)
                for (at[(int)o[2]] = 0; at[(int)o[2]] < extent[(int)o[2]]; at[(int)o[2]]++, index++) {
                    int64_t sum = 0;
                    for (at['k'] = 0; at['k'] < extent['k']; at['k']++) {
                        int64_t p = 0, q = 0;
                        for (int i = 0; i < 3; i++) p = p * xs[i] + at[(int)s[i]], q = q * ys[i] + at[(int)s[4 + i]];
                        sum += (p * 7 % 11 - 5) * (q * 5 % 13 - 6);
                    }
                    ck_assert_int_eq(scalar_as_i64(scalar_read(types[k], (char *)r.data + index * dtype_bytes(types[k]))), sum);
                }
        graph_free(g);
    }
    diag_free(&d);
    arena_free(arena);
}
END_TEST

START_TEST(one_node_for_folding) {
    Diag d = {0};
    Graph *g = graph_parse("graph x\ndim N in 1..\n%a = const f32[2] {1.0, 2.0}\n%b = map %a body(a0 * 2.0f32) : f32[2]\n%c = view %a "
                           "index(0) : f32[N]\noutput %b\noutput %c\n",
        "x", &d);
    ck_assert_ptr_nonnull(g);
    Arena *arena = arena_new();
    int64_t shape[1] = {2};
    Tensor in = tensor_new(arena, DT_f32, 1, shape), out;
    memcpy(in.data, g->body->nodes.data[0]->data.bytes, 8);
    ck_assert(graph_eval_node(g->body->nodes.data[1], &in, &out, arena));
    ck_assert(((float *)out.data)[1] == 4);
    ck_assert(!graph_eval_node(g->body->nodes.data[2], &in, &out, arena)); // N is not known
    graph_free(g);
    arena_free(arena);
    diag_free(&d);
}
END_TEST

static Suite *suite(void) {
    Suite *s = suite_create("graph_eval");
    TCase *c = tcase_create("graph_eval");
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, values_by_hand, 0, (int)(sizeof cases / sizeof *cases));
    tcase_add_loop_test(c, faults_have_a_status, 0, (int)(sizeof faults / sizeof *faults));
    tcase_add_test(c, symbols_come_from_inputs);
    tcase_add_loop_test(c, convolution, 0, (int)(sizeof convs / sizeof *convs));
    tcase_add_loop_test(c, contraction_layouts, 0, 25);
    tcase_add_test(c, one_node_for_folding);
    suite_add_tcase(s, c);
    return s;
}

int main(void) {
    SRunner *r = srunner_create(suite());
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
