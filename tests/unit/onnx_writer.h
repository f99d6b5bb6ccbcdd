// ONNX files written by hand, field by field, for tests of the reader: the point is what no writer would write. Files go to a fresh folder
// a test.
#ifndef MLC_TEST_ONNX_WRITER_H
#define MLC_TEST_ONNX_WRITER_H

#include "../../frontend/onnx/read.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- writing messages ----

// Fields of the messages used here (onnx.proto).
enum { MODEL_IR = 1, MODEL_GRAPH = 7, MODEL_OPSET = 8, OPSET_VERSION = 2 };
enum { GRAPH_NODE = 1, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12, INFO_NAME = 1, INFO_TYPE = 2 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_OP = 4, NODE_ATTRIBUTE = 5, ATTRIBUTE_G = 6 };
enum {
    TENSOR_DIMS = 1,
    TENSOR_TYPE,
    TENSOR_FLOATS = 4,
    TENSOR_INT32S,
    TENSOR_STRINGS,
    TENSOR_INT64S,
    TENSOR_NAME,
    TENSOR_RAW,
    TENSOR_DOUBLES
};
enum { TENSOR_UINT64S = 11, TENSOR_EXTERNAL = 13, TENSOR_LOCATION };

static inline void put(Str *s, uint64_t v) {
    for (; v > 127; v >>= 7) str_addn(s, (char[]){(char)(v | 128)}, 1);
    str_addn(s, (char[]){(char)v}, 1);
}
static inline void put_int(Str *s, int field, uint64_t v) {
    put(s, (uint64_t)field << 3);
    put(s, v);
}
static inline void put_bytes(Str *s, int field, const void *data, size_t n) {
    put(s, (uint64_t)field << 3 | 2);
    put(s, n);
    str_addn(s, data, n);
}
static inline void put_text(Str *s, int field, const char *text) {
    put_bytes(s, field, text, strlen(text));
}
static inline void put_message(Str *s, int field, Str *inner) { // and frees it
    put_bytes(s, field, inner->n ? inner->data : "", inner->n);
    str_free(inner);
}
static inline void put_entry(Str *s, int field, const char *key, const char *value) {
    Str e = {0};
    put_text(&e, 1, key);
    put_text(&e, 2, value);
    put_message(s, field, &e);
}

static inline void tensor_head(Str *t, const char *name, int type, int rank, const int64_t *dims) {
    for (int i = 0; i < rank; i++) put_int(t, TENSOR_DIMS, (uint64_t)dims[i]);
    put_int(t, TENSOR_TYPE, (uint64_t)type);
    put_text(t, TENSOR_NAME, name);
}

// f32[n] as a ValueInfoProto.
static inline void put_info(Str *g, int field, const char *name, int64_t n) {
    Str dim = {0}, shape = {0}, tensor = {0}, type = {0}, info = {0};
    put_int(&dim, 1, (uint64_t)n);
    put_message(&shape, 1, &dim);
    put_int(&tensor, 1, 1);
    put_message(&tensor, 2, &shape);
    put_message(&type, 1, &tensor);
    put_text(&info, INFO_NAME, name);
    put_message(&info, INFO_TYPE, &type);
    put_message(g, field, &info);
}

// y = Identity(x), with one more initialiser: its TensorProto.
static inline Str model_with(Str *tensor) {
    Str node = {0}, g = {0}, opset = {0}, m = {0};
    put_text(&node, NODE_INPUT, "x");
    put_text(&node, NODE_OUTPUT, "y");
    put_text(&node, NODE_OP, "Identity");
    put_message(&g, GRAPH_NODE, &node);
    put_message(&g, GRAPH_INITIALIZER, tensor);
    put_info(&g, GRAPH_INPUT, "x", 3);
    put_info(&g, GRAPH_OUTPUT, "y", 3);
    put_int(&opset, OPSET_VERSION, 18);
    put_int(&m, MODEL_IR, 9);
    put_message(&m, MODEL_OPSET, &opset);
    put_message(&m, MODEL_GRAPH, &g);
    return m;
}

// ---- files ----

static char folder[64];
static Arena *arena;

static inline void set_up(void) {
    strcpy(folder, "/tmp/mlc-read-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    arena = arena_new();
}
static inline void tear_down(void) {
    ck_assert_int_eq(system(arena_printf(arena, "rm -rf '%s'", folder)), 0);
    arena_free(arena);
}

static inline const char *path_of(const char *name) {
    return arena_printf(arena, "%s/%s", folder, name);
}

static inline const char *write_file(const char *name, const void *data, size_t n) {
    const char *path = path_of(name);
    FILE *f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(data, 1, n, f), n);
    ck_assert_int_eq(fclose(f), 0);
    return path;
}
static inline const char *write_str(const char *name, Str *s) { // and frees it
    const char *path = write_file(name, s->n ? s->data : "", s->n);
    str_free(s);
    return path;
}

// Reads and imports; expects a fault whose text holds `what`.
static inline void expect_fault(const char *path, ExitCode code, const char *what) {
    Diag d = {0};
    FrontendOptions o = {0};
    Model *m = frontend_read(path, &d);
    Graph *g = m ? frontend_import(m, &o, &d) : NULL;
    ck_assert_msg(!g && d.errors > 0, "no fault, expected: %s", what);
    ck_assert_msg(strstr(d.text.data, what) != NULL, "expected '%s', found: %s", what, d.text.data);
    ck_assert_int_eq(d.code, code);
    frontend_close(m);
    diag_free(&d);
}

// Any end but a crash; true when it imports.
static inline bool survives(const char *path) {
    Diag d = {0};
    FrontendOptions o = {0};
    Model *m = frontend_read(path, &d);
    Graph *g = m ? frontend_import(m, &o, &d) : NULL;
    bool ok = g != NULL;
    ck_assert(ok == (d.errors == 0));
    graph_free(g);
    frontend_close(m);
    diag_free(&d);
    return ok;
}

// Reads a model whose one initialiser is t.
static inline Model *read_model(Str *t, const char *name) {
    Str m = model_with(t);
    Diag d = {0};
    Model *model = frontend_read(write_str(name, &m), &d);
    ck_assert_msg(model != NULL, "%s", d.text.data);
    diag_free(&d);
    return model;
}

#endif
