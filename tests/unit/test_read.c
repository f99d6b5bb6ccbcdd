// The ONNX reader: the wire scan against hostile bytes, elements of every type in every storage, values in .pb files.
#define _XOPEN_SOURCE 700
#include "onnx_writer.h"
#include "../../frontend/onnx/wire.h"

// ---- the wire scan ----

// Graphs inside attributes of nodes, written from the inside outwards: every length is known when it is written, backwards.
static Str nested_model(int levels) {
    size_t cap = (size_t)levels * 18 + 64, at = cap;
    char *buf = arena_alloc(arena, cap);
    const int path[3] = {ATTRIBUTE_G, NODE_ATTRIBUTE, GRAPH_NODE};
    for (int i = 0; i <= levels * 3; i++) {
        Str head = {0};
        put(&head, (uint64_t)(i == levels * 3 ? MODEL_GRAPH : path[i % 3]) << 3 | 2);
        put(&head, cap - at);
        at -= head.n;
        memcpy(buf + at, head.data, head.n);
        str_free(&head);
    }
    Str m = {0};
    str_addn(&m, buf + at, cap - at);
    return m;
}

START_TEST(deep_nesting_is_a_fault) {
    Str m = nested_model(200000);
    expect_fault(write_str("deep.onnx", &m), EXIT_MODEL, "nested more than 100 deep");
    m = nested_model(20);
    expect_fault(write_str("less.onnx", &m), EXIT_MODEL, "names no operator");
}
END_TEST

START_TEST(sizes_beyond_the_file_are_faults) {
    const uint64_t sizes[] = {1ull << 62, UINT64_MAX, 1ull << 31, 100};
    for (int i = 0; i < 4; i++) {
        Str m = {0};
        put(&m, MODEL_GRAPH << 3 | 2);
        put(&m, sizes[i]);
        expect_fault(write_str("size.onnx", &m), EXIT_MODEL, "longer than what holds it");
    }
    for (int wire = 3; wire < 8; wire++) {
        if (wire == 5) continue;
        Str m = {0};
        put(&m, (uint64_t)(MODEL_GRAPH << 3 | wire));
        expect_fault(write_str("group.onnx", &m), EXIT_MODEL, "unknown wire type");
    }
    expect_fault(write_file("long.onnx", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 11), EXIT_MODEL, "does not fit 64 bits");
    expect_fault(write_file("zero.onnx", "\x02\x00", 2), EXIT_MODEL, "no valid number");
    expect_fault(write_file("empty.onnx", "", 0), EXIT_MODEL, "empty");
    expect_fault(write_file("lfs.onnx", "version https://git-lfs.github.com/spec/v1\n", 43), EXIT_MODEL, "git lfs pull");
    expect_fault(path_of("none.onnx"), EXIT_IO, "cannot open");
}
END_TEST

START_TEST(counts_are_limited) {
    Str m = {0}, g = {0};
    for (int i = 0; i <= WIRE_MAX_ITEMS; i++) put_bytes(&g, GRAPH_NODE, "", 0);
    put_message(&m, MODEL_GRAPH, &g);
    expect_fault(write_str("many.onnx", &m), EXIT_LIMIT, "more than 4194304");
}
END_TEST

START_TEST(every_truncation_survives) {
    Str t = {0};
    tensor_head(&t, "w", 1, 1, (int64_t[]){3});
    put_bytes(&t, TENSOR_RAW, "\0\0\0\0\0\0\200?\0\0\0@", 12);
    Str m = model_with(&t);
    int good = 0;
    for (size_t n = 0; n <= m.n; n++) good += survives(write_file("cut.onnx", m.data, n));
    ck_assert_int_eq(good, 1);
    for (size_t i = 0; i < m.n; i++)
        for (int bit = 0; bit < 8; bit++) {
            m.data[i] = (char)(m.data[i] ^ 1 << bit);
            survives(write_file("flip.onnx", m.data, m.n));
            m.data[i] = (char)(m.data[i] ^ 1 << bit);
        }
    str_free(&m);
}
END_TEST

START_TEST(raw_data_stays_in_the_file) {
    size_t n = 1000;
    char *bytes = arena_alloc(arena, n * 4);
    for (size_t i = 0; i < n * 4; i++) bytes[i] = (char)i;
    Str t = {0};
    tensor_head(&t, "w", 1, 1, (int64_t[]){(int64_t)n});
    put_bytes(&t, TENSOR_RAW, bytes, n * 4);
    Model *m = read_model(&t, "raw.onnx");
    TensorData out;
    ck_assert_ptr_null(tensor_read(m, arena, m->proto->graph->initializer[0], &out));
    const uint8_t *p = out.data.bytes;
    ck_assert(p > m->data && p + n * 4 <= m->data + m->size);
    ck_assert_uint_eq(out.data.size, n * 4);
    ck_assert_int_eq(memcmp(p, bytes, n * 4), 0);
    frontend_close(m);
}
END_TEST

// ---- elements ----

// Elements in typed fields and what they are in memory; nbytes 0: a fault.
static const struct {
    DType type;
    int field, n;
    int64_t entries[4];
    int64_t count; // elements
    int nbytes;
    unsigned char bytes[16];
} typed[] = {
    {DT_f32, TENSOR_FLOATS, 2, {0x3f800000, 0xc0000000}, 2, 8, {0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0}},
    {DT_f64, TENSOR_DOUBLES, 1, {0x3ff0000000000000}, 1, 8, {0, 0, 0, 0, 0, 0, 0xf0, 0x3f}},
    {DT_c64, TENSOR_FLOATS, 2, {0x3f800000, 0x40000000}, 1, 8, {0, 0, 0x80, 0x3f, 0, 0, 0, 0x40}},
    {DT_c128, TENSOR_DOUBLES, 2, {0, 0x3ff0000000000000}, 1, 16, {[14] = 0xf0, [15] = 0x3f}},
    {DT_i8, TENSOR_INT32S, 3, {-1, 127, -128}, 3, 3, {255, 127, 128}},
    {DT_u8, TENSOR_INT32S, 2, {255, 0}, 2, 2, {255, 0}},
    {DT_i16, TENSOR_INT32S, 2, {-2, 300}, 2, 4, {254, 255, 44, 1}},
    {DT_u16, TENSOR_INT32S, 1, {65535}, 1, 2, {255, 255}},
    {DT_i32, TENSOR_INT32S, 1, {-5}, 1, 4, {251, 255, 255, 255}},
    {DT_i64, TENSOR_INT64S, 1, {-2}, 1, 8, {254, 255, 255, 255, 255, 255, 255, 255}},
    {DT_u32, TENSOR_UINT64S, 1, {0xfffffffe}, 1, 4, {254, 255, 255, 255}},
    {DT_u64, TENSOR_UINT64S, 1, {-1}, 1, 8, {255, 255, 255, 255, 255, 255, 255, 255}},
    {DT_bool, TENSOR_INT32S, 2, {1, 0}, 2, 2, {1, 0}},
    {DT_f16, TENSOR_INT32S, 2, {0x3c00, 0xbc00}, 2, 4, {0, 0x3c, 0, 0xbc}},
    {DT_bf16, TENSOR_INT32S, 1, {0xbf80}, 1, 2, {0x80, 0xbf}},
    {DT_f8e4m3fn, TENSOR_INT32S, 2, {0x38, 0xb8}, 2, 2, {0x38, 0xb8}},
    {DT_f8e5m2fnuz, TENSOR_INT32S, 1, {0x80}, 1, 1, {0x80}},
    {DT_f8e8m0, TENSOR_INT32S, 1, {127}, 1, 1, {127}},
    {DT_i4, TENSOR_INT32S, 2, {0x8f, 0x07}, 3, 3, {0xff, 0xf8, 7}},
    {DT_u4, TENSOR_INT32S, 2, {0x8f, 0x07}, 3, 3, {15, 8, 7}},
    {DT_i2, TENSOR_INT32S, 2, {0xe4, 0x02}, 5, 5, {0, 1, 0xfe, 0xff, 0xfe}},
    {DT_u2, TENSOR_INT32S, 1, {0xe4}, 4, 4, {0, 1, 2, 3}},
    {DT_f4e2m1, TENSOR_INT32S, 1, {0xa5}, 2, 2, {5, 10}},
    {DT_f6e2m3, TENSOR_INT32S, 2, {33, 63}, 2, 2, {33, 63}},
    {DT_i8, TENSOR_INT32S, 1, {128}, 1, 0, {0}},
    {DT_u8, TENSOR_INT32S, 1, {-1}, 1, 0, {0}},
    {DT_u16, TENSOR_INT32S, 1, {65536}, 1, 0, {0}},
    {DT_bool, TENSOR_INT32S, 1, {2}, 1, 0, {0}},
    {DT_u32, TENSOR_UINT64S, 1, {0x100000000}, 1, 0, {0}},
    {DT_f6e3m2, TENSOR_INT32S, 1, {64}, 1, 0, {0}},
    {DT_i4, TENSOR_INT32S, 1, {0x100}, 2, 0, {0}},
    {DT_f32, TENSOR_FLOATS, 2, {0, 0}, 3, 0, {0}},
    {DT_f32, TENSOR_INT32S, 2, {0, 0}, 2, 0, {0}},
    {DT_i4, TENSOR_INT32S, 1, {0x11}, 3, 0, {0}},
};

static void put_entries(Str *t, int field, int n, const int64_t *entries) {
    Str packed = {0};
    for (int i = 0; i < n; i++) {
        if (field == TENSOR_FLOATS)
            str_addn(&packed, (const char *)&entries[i], 4);
        else if (field == TENSOR_DOUBLES)
            str_addn(&packed, (const char *)&entries[i], 8);
        else
            put(&packed, (uint64_t)entries[i]);
    }
    put_message(t, field, &packed);
}

START_TEST(typed_fields_become_elements) {
    Str t = {0};
    tensor_head(&t, "w", dtype_info(typed[_i].type)->onnx, 1, &typed[_i].count);
    put_entries(&t, typed[_i].field, typed[_i].n, typed[_i].entries);
    Model *m = read_model(&t, "typed.onnx");
    TensorData out;
    const char *fault = tensor_read(m, arena, m->proto->graph->initializer[0], &out);
    ck_assert_msg((fault == NULL) == (typed[_i].nbytes > 0), "%s", fault ? fault : "no fault");
    if (!fault) {
        ck_assert_int_eq(out.type, typed[_i].type);
        ck_assert_int_eq(out.count, typed[_i].count);
        ck_assert_uint_eq(out.data.size, typed[_i].nbytes);
        ck_assert_mem_eq(out.data.bytes, typed[_i].bytes, typed[_i].nbytes);
    }
    frontend_close(m);
}
END_TEST

static const struct {
    DType type;
    int n;
    unsigned char raw[4];
    int64_t count;
    int nbytes;
    unsigned char bytes[8];
} packed[] = {
    {DT_i4, 2, {0x8f, 0x07}, 3, 3, {0xff, 0xf8, 7}},
    {DT_u2, 1, {0xe4}, 4, 4, {0, 1, 2, 3}},
    {DT_i2, 1, {0xe4}, 3, 3, {0, 1, 0xfe}},
    {DT_f4e2m1, 1, {0xa5}, 1, 1, {5}},
    // 6 bits: 1, 2, 33, 63, 5 as a stream, low bits first
    {DT_f6e2m3, 4, {0x81, 0x10, 0xfe, 0x05}, 5, 5, {1, 2, 33, 63, 5}},
    {DT_bool, 3, {0, 1, 7}, 3, 3, {0, 1, 1}},
    {DT_u8, 3, {1, 2, 3}, 3, 3, {1, 2, 3}},
    {DT_i4, 2, {0, 0}, 5, 0, {0}},
    {DT_i4, 3, {0, 0, 0}, 3, 0, {0}},
    {DT_f32, 3, {0}, 1, 0, {0}},
    {DT_str, 1, {0}, 1, 0, {0}},
    {DT_u8, 1, {0}, -1, 0, {0}},
    {DT_u8, 1, {0}, INT64_MAX, 0, {0}},
};

START_TEST(raw_data_becomes_elements) {
    Str t = {0};
    tensor_head(&t, "w", dtype_info(packed[_i].type)->onnx, 1, &packed[_i].count);
    put_bytes(&t, TENSOR_RAW, packed[_i].raw, (size_t)packed[_i].n);
    Model *m = read_model(&t, "packed.onnx");
    TensorData out;
    const char *fault = tensor_read(m, arena, m->proto->graph->initializer[0], &out);
    ck_assert_msg((fault == NULL) == (packed[_i].nbytes > 0), "%s", fault ? fault : "no fault");
    if (!fault) {
        ck_assert_uint_eq(out.data.size, packed[_i].nbytes);
        ck_assert_mem_eq(out.data.bytes, packed[_i].bytes, packed[_i].nbytes);
    }
    frontend_close(m);
}
END_TEST

START_TEST(strings_keep_their_zero_bytes) {
    Str t = {0};
    tensor_head(&t, "w", 8, 1, (int64_t[]){3});
    put_bytes(&t, TENSOR_STRINGS, "ab\0c", 4);
    put_bytes(&t, TENSOR_STRINGS, "", 0);
    put_text(&t, TENSOR_STRINGS, "z");
    Model *m = read_model(&t, "strings.onnx");
    TensorData out;
    ck_assert_ptr_null(tensor_read(m, arena, m->proto->graph->initializer[0], &out));
    const StringElement *e = out.data.bytes;
    ck_assert_uint_eq(e[0].size, 4);
    ck_assert_mem_eq(e[0].text, "ab\0c", 5);
    ck_assert_uint_eq(e[1].size, 0);
    ck_assert_str_eq(e[2].text, "z");
    frontend_close(m);
}
END_TEST

START_TEST(unknown_types_are_faults) {
    Str t = {0};
    tensor_head(&t, "w", 99, 1, (int64_t[]){1});
    Str m = model_with(&t);
    expect_fault(write_str("type.onnx", &m), EXIT_MODEL, "initializer 'w' has unknown element type 99");
}
END_TEST

// ---- values ----

static void float_tensor(Str *t, float v) {
    put_int(t, TENSOR_DIMS, 1);
    put_int(t, TENSOR_TYPE, 1);
    put_bytes(t, TENSOR_RAW, &v, 4);
}

START_TEST(values_are_read) {
    Diag d = {0};
    FrontendValue v;
    Str t = {0}, seq = {0}, outer = {0};
    float_tensor(&t, 3);
    Tensor tensor;
    ck_assert(frontend_read_tensor(write_str("t.pb", &t), arena, &tensor, &d));
    ck_assert(tensor.type == DT_f32 && tensor.rank == 1 && tensor.shape[0] == 1 && *(float *)tensor.data == 3);
    put_int(&seq, 2, 1);
    for (int i = 0; i < 3; i++) {
        float_tensor(&t, (float)i);
        put_message(&seq, 3, &t);
    }
    const char *path = write_file("s.pb", seq.data, seq.n);
    ck_assert(frontend_read_value(path, VALUE_KIND_SEQUENCE, arena, &v, &d));
    ck_assert_int_eq(v.n, 3);
    ck_assert(*(float *)v.items[2].tensor.data == 2);
    put_message(&outer, 5, &seq);
    path = write_str("o.pb", &outer);
    ck_assert(frontend_read_value(path, VALUE_KIND_OPTIONAL, arena, &v, &d));
    ck_assert(v.n == 1 && v.items[0].kind == VALUE_KIND_SEQUENCE && v.items[0].n == 3);
    ck_assert(frontend_read_value(write_file("none.pb", "", 0), VALUE_KIND_OPTIONAL, arena, &v, &d));
    ck_assert_int_eq(v.n, 0);
    ck_assert_int_eq(d.errors, 0);
    ck_assert(!frontend_read_tensor(write_file("bad.pb", "\x0a\xff", 2), arena, &tensor, &d));
    ck_assert_int_gt(d.errors, 0);
    diag_free(&d);
}
END_TEST

START_TEST(nested_values_are_limited) {
    Str inner = {0};
    for (int i = 0; i < 1000; i++) {
        Str outer = {0};
        put_message(&outer, 5, &inner);
        inner = outer;
    }
    Diag d = {0};
    FrontendValue v;
    ck_assert(!frontend_read_value(write_str("deep.pb", &inner), VALUE_KIND_SEQUENCE, arena, &v, &d));
    ck_assert(strstr(d.text.data, "nested too deep"));
    diag_free(&d);
}
END_TEST

static Suite *suite(void) {
    Suite *s = suite_create("read");
    TCase *c = tcase_create("read");
    tcase_add_checked_fixture(c, set_up, tear_down);
    tcase_set_timeout(c, 120);
    tcase_add_test(c, deep_nesting_is_a_fault);
    tcase_add_test(c, sizes_beyond_the_file_are_faults);
    tcase_add_test(c, counts_are_limited);
    tcase_add_test(c, every_truncation_survives);
    tcase_add_test(c, raw_data_stays_in_the_file);
    tcase_add_loop_test(c, typed_fields_become_elements, 0, sizeof typed / sizeof *typed);
    tcase_add_loop_test(c, raw_data_becomes_elements, 0, sizeof packed / sizeof *packed);
    tcase_add_test(c, strings_keep_their_zero_bytes);
    tcase_add_test(c, unknown_types_are_faults);
    tcase_add_test(c, values_are_read);
    tcase_add_test(c, nested_values_are_limited);
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
