// External data: offsets and lengths, paths that must stay in the model's folder, the layout of Hugging Face caches, files of several GB.
#define _XOPEN_SOURCE 700
#include "onnx_writer.h"

#include <fcntl.h>
#include <sys/resource.h>

static Str external_model(const char *location, const char *offset, const char *length, int64_t n) {
    Str t = {0};
    tensor_head(&t, "w", 1, 1, &n);
    put_entry(&t, TENSOR_EXTERNAL, "location", location);
    if (offset) put_entry(&t, TENSOR_EXTERNAL, "offset", offset);
    if (length) put_entry(&t, TENSOR_EXTERNAL, "length", length);
    put_int(&t, TENSOR_LOCATION, 1);
    return model_with(&t);
}

static void expect_element(const char *path, float want) {
    Diag d = {0};
    Model *m = frontend_read(path, &d);
    ck_assert_msg(m != NULL, "%s", d.text.data);
    TensorData out;
    const char *fault = tensor_read(m, arena, m->proto->graph->initializer[0], &out);
    ck_assert_msg(!fault, "%s", fault);
    float v;
    memcpy(&v, out.data.bytes, sizeof v);
    ck_assert(v == want);
    ck_assert(survives(path));
    frontend_close(m);
    diag_free(&d);
}

START_TEST(external_data_is_found) {
    const float data[4] = {1, 2, 3, 4};
    write_file("w.bin", data, sizeof data);
    Str m = external_model("w.bin", NULL, NULL, 4);
    expect_element(write_str("a.onnx", &m), 1);
    m = external_model("./w.bin", "8", "8", 2);
    expect_element(write_str("b.onnx", &m), 3);
    m = external_model("w.bin", "12", NULL, 2);
    expect_fault(write_str("c.onnx", &m), EXIT_MODEL, "lies at bytes 12 to 20");
    m = external_model("w.bin", "18446744073709551615", "8", 2);
    expect_fault(write_str("d.onnx", &m), EXIT_MODEL, "lies at bytes");
    m = external_model("w.bin", "0", "12", 4);
    expect_fault(write_str("e.onnx", &m), EXIT_MODEL, "needs 16");
    m = external_model("w.bin", "-4", NULL, 4);
    expect_fault(write_str("f.onnx", &m), EXIT_MODEL, "is not a size");
    m = external_model("none.bin", NULL, NULL, 4);
    expect_fault(write_str("g.onnx", &m), EXIT_MODEL, "is not in the model's folder");
}
END_TEST

START_TEST(external_paths_stay_inside) {
    const float data[1] = {7};
    ck_assert_int_eq(mkdir(path_of("in"), 0700), 0);
    ck_assert_int_eq(mkdir(path_of("in/sub"), 0700), 0);
    write_file("secret", data, sizeof data);
    write_file("in/w.bin", data, sizeof data);
    const char *const bad[] = {"../secret", "/etc/passwd", "sub/../../secret", ".."};
    for (int i = 0; i < 4; i++) {
        Str m = external_model(bad[i], NULL, NULL, 1);
        expect_fault(write_str("in/m.onnx", &m), EXIT_MODEL, "must be a path inside");
    }
    ck_assert_int_eq(symlink("../secret", path_of("in/link")), 0);
    ck_assert_int_eq(symlink("w.bin", path_of("in/inner")), 0);
    Str m = external_model("link", NULL, NULL, 1);
    expect_fault(write_str("in/m.onnx", &m), EXIT_MODEL, "outside of the model's folder through a symbolic link");
    m = external_model("sub", NULL, NULL, 1);
    expect_fault(write_str("in/m.onnx", &m), EXIT_MODEL, "not a regular file");
    m = external_model("inner", NULL, NULL, 1);
    expect_element(write_str("in/m.onnx", &m), 7);
}
END_TEST

START_TEST(hugging_face_caches_work) {
    const float data[1] = {5};
    const char *const folders[] = {"blobs", "snapshots", "snapshots/rev"};
    for (int i = 0; i < 3; i++) ck_assert_int_eq(mkdir(path_of(folders[i]), 0700), 0);
    write_file("blobs/2222", data, sizeof data);
    Str m = external_model("model.onnx_data", NULL, NULL, 1);
    write_str("blobs/1111", &m);
    ck_assert_int_eq(symlink("../../blobs/1111", path_of("snapshots/rev/model.onnx")), 0);
    ck_assert_int_eq(symlink("../../blobs/2222", path_of("snapshots/rev/model.onnx_data")), 0);
    expect_element(path_of("snapshots/rev/model.onnx"), 5);
}
END_TEST

// A sparse file stands for 3 GB of weights: what is mapped and not touched costs no memory.
START_TEST(large_external_data_is_mapped) {
    const int64_t n = (3ll << 30) / 4;
    int fd = open(path_of("big.bin"), O_CREAT | O_WRONLY, 0600);
    float mark = 9;
    ck_assert(fd >= 0 && ftruncate(fd, n * 4) == 0);
    ck_assert_int_eq(pwrite(fd, &mark, 4, (n - 1) * 4), 4);
    close(fd);
    Str m = external_model("big.bin", NULL, NULL, n);
    Diag d = {0};
    FrontendOptions o = {0};
    Model *model = frontend_read(write_str("big.onnx", &m), &d);
    Graph *g = model ? frontend_import(model, &o, &d) : NULL;
    ck_assert_msg(g != NULL, "%s", d.text.data);
    TensorData out;
    ck_assert_ptr_null(tensor_read(model, arena, model->proto->graph->initializer[0], &out));
    const size_t touched = 64 << 20;
    float last, sum = 0;
    memcpy(&last, (const char *)out.data.bytes + (n - 1) * 4, 4);
    ck_assert(last == 9);
    for (size_t i = 0; i < touched; i += 4096) sum += ((const char *)out.data.bytes)[i];
    ck_assert(sum == 0);
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    long limit = (long)(touched / 1024 * 13 / 10) + 100 * 1024;
    ck_assert_msg(use.ru_maxrss <= limit, "%ld KB resident, expected at most %ld", use.ru_maxrss, limit);
    graph_free(g);
    frontend_close(model);
    diag_free(&d);
}
END_TEST

static Suite *suite(void) {
    Suite *s = suite_create("external");
    TCase *c = tcase_create("external");
    tcase_add_checked_fixture(c, set_up, tear_down);
    tcase_set_timeout(c, 120);
    tcase_add_test(c, external_data_is_found);
    tcase_add_test(c, external_paths_stay_inside);
    tcase_add_test(c, hugging_face_caches_work);
    tcase_add_test(c, large_external_data_is_mapped);
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
