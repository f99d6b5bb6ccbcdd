// The .npy format (NumPy Enhancement Proposal 1): magic, version, a Python dict with descr, fortran_order and shape, then the elements.
//
// The dict is read by a parser for exactly that form. Types that NumPy lacks are stored as its void types of the same size, as ml_dtypes
// does.
#include "npy.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>

enum { MAX_RANK = 32 };

typedef struct {
    char descr[16];
    bool fortran;
    int rank;
    int64_t shape[MAX_RANK];
    int64_t count;
    const uint8_t *data;
    size_t left;
} Header;

static bool fault(Diag *d, const char *name, const char *what) {
    diag_error(d, EXIT_MODEL, "%s: %s", name, what);
    return false;
}

// The text after 'key': in the dict, or NULL.
static const char *find_key(const char *dict, const char *key) {
    const char *p = strstr(dict, key);
    if (!p) return NULL;
    p += strlen(key);
    while (*p == ' ') p++;
    if (*p++ != ':') return NULL;
    while (*p == ' ') p++;
    return p;
}

static bool parse_shape(const char *p, Header *h) {
    if (*p++ != '(') return false;
    h->count = 1;
    for (;;) {
        while (*p == ' ' || *p == ',') p++;
        if (*p == ')') return true;
        if (!isdigit((unsigned char)*p) || h->rank == MAX_RANK) return false;
        char *end;
        int64_t v = strtoll(p, &end, 10);
        if (v < 0 || __builtin_mul_overflow(h->count, v, &h->count)) return false;
        h->shape[h->rank++] = v;
        p = end + (*end == 'L');
    }
}

static bool parse_header(const uint8_t *b, size_t size, Header *h) {
    if (size < 10 || memcmp(b, "\x93NUMPY", 6)) return false;
    size_t start = b[6] == 1 ? 10 : 12, len = (size_t)b[8] | (size_t)b[9] << 8;
    if (b[6] != 1) {
        if (size < 12) return false;
        len |= (size_t)b[10] << 16 | (size_t)b[11] << 24;
    }
    char dict[4096];
    if (len >= sizeof dict || start + len > size) return false;
    memcpy(dict, b + start, len);
    dict[len] = 0;
    const char *descr = find_key(dict, "'descr'"), *order = find_key(dict, "'fortran_order'"), *shape = find_key(dict, "'shape'");
    if (!descr || !order || !shape || *descr != '\'') return false;
    size_t n = strcspn(descr + 1, "'");
    if (n >= sizeof h->descr) return false;
    memcpy(h->descr, descr + 1, n);
    h->descr[n] = 0;
    h->fortran = !strncmp(order, "True", 4);
    h->data = b + start + len;
    h->left = size - start - len;
    return parse_shape(shape, h);
}

// The type of a descriptor without its byte order ("f4"), DT_none when there is none.
static DType type_of(const char *kind, DType want) {
    if (want != DT_none) {
        int bytes = atoi(kind + 1);
        bool same_size = dtype_bytes(want) == bytes;
        if (kind[0] == 'V' && same_size) return want;
        if (strchr("ui", kind[0]) && bytes == 1 && (dtype_info(want)->bits < 8 || !dtype_info(want)->npy[0]) && same_size) return want;
        if (kind[0] == 'u' && same_size && !dtype_info(want)->npy[0]) return want;
    }
    for (int t = 1; t < DT_COUNT; t++)
        if (dtype_info((DType)t)->npy[0] && dtype_info((DType)t)->onnx && !strcmp(dtype_info((DType)t)->npy + 1, kind)) return (DType)t;
    return DT_none;
}

static void swap_bytes(uint8_t *p, size_t n, size_t size) {
    for (size_t i = 0; i < n; i++, p += size)
        for (size_t k = 0; k < size / 2; k++) {
            uint8_t x = p[k];
            p[k] = p[size - 1 - k];
            p[size - 1 - k] = x;
        }
}

// Elements in Fortran order into C order.
static void copy_fortran(const Header *h, uint8_t *dst, size_t size) {
    int64_t at[MAX_RANK] = {0};
    for (int64_t i = 0; i < h->count; i++) {
        int64_t src = 0;
        for (int k = h->rank - 1; k >= 0; k--) src = src * h->shape[k] + at[k];
        memcpy(dst + (size_t)i * size, h->data + (size_t)src * size, size);
        for (int k = h->rank - 1; k >= 0 && ++at[k] == h->shape[k]; k--) at[k] = 0;
    }
}

static size_t add_utf8(char *out, uint32_t c) {
    if (c < 0x80) return out[0] = (char)c, 1;
    int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const unsigned char lead[] = {0, 0xC0, 0xE0, 0xF0};
    for (int k = more; k > 0; k--, c >>= 6) out[k] = (char)(0x80 | (c & 0x3F));
    out[0] = (char)(lead[more] | c);
    return (size_t)more + 1;
}

// '<U5' (UTF-32, padded with zeros) or '|S5' (bytes) as char*.
static bool read_strings(const Header *h, size_t width, Arena *a, Tensor *t, const char *name, Diag *d) {
    size_t unit = h->descr[1] == 'U' ? 4 : 1, bytes;
    if (h->fortran && h->rank > 1) return fault(d, name, "strings in Fortran order are not supported");
    if (__builtin_mul_overflow((size_t)h->count, width * unit, &bytes) || bytes > h->left)
        return fault(d, name, "the file is shorter than its header says");
    *t = tensor_new(a, DT_str, h->rank, h->shape);
    char *buf = arena_alloc(a, width * 4 + 1);
    for (int64_t i = 0; i < h->count; i++) {
        const uint8_t *p = h->data + (size_t)i * width * unit;
        size_t n = 0;
        for (size_t k = 0; k < width; k++) {
            uint32_t c =
                unit == 1 ? p[k]
                          : (uint32_t)p[4 * k] | (uint32_t)p[4 * k + 1] << 8 | (uint32_t)p[4 * k + 2] << 16 | (uint32_t)p[4 * k + 3] << 24;
            if (!c) break;
            if (unit == 1)
                buf[n++] = (char)c;
            else
                n += add_utf8(buf + n, c & 0x1FFFFF);
        }
        ((StringElement *)t->data)[i] = (StringElement){arena_strndup(a, buf, n), n};
    }
    return true;
}

bool npy_parse(const void *bytes, size_t size, const char *name, DType want, Arena *a, Tensor *t, Diag *d) {
    Header h = {0};
    if (!parse_header(bytes, size, &h)) return fault(d, name, "not a .npy file, or one with a damaged header");
    if (h.descr[1] == 'U' || h.descr[1] == 'S') {
        long width = strtol(h.descr + 2, NULL, 10);
        if (width < 0 || width > 1 << 20) return fault(d, name, "strings of this length are not supported");
        return read_strings(&h, (size_t)width, a, t, name, d);
    }
    DType type = type_of(h.descr + 1, want);
    if (type == DT_none) {
        diag_error(d, EXIT_MODEL, "%s: elements of type '%s' cannot be read as %s", name, h.descr,
            want == DT_none ? "any type of a model" : dtype_name(want));
        return false;
    }
    size_t elem = (size_t)dtype_bytes(type), total;
    if (__builtin_mul_overflow((size_t)h.count, elem, &total) || total > h.left)
        return fault(d, name, "the file is shorter than its header says");
    *t = tensor_new(a, type, h.rank, h.shape);
    if (h.fortran && h.rank > 1)
        copy_fortran(&h, t->data, elem);
    else if (total)
        memcpy(t->data, h.data, total);
    size_t part = dtype_info(type)->cls == 'C' ? elem / 2 : elem;
    if (h.descr[0] == '>') swap_bytes(t->data, total / (part ? part : 1), part);
    return true;
}

bool npy_read(const char *path, DType want, Arena *a, Tensor *t, Diag *d) {
    size_t size;
    const void *bytes = file_map(path, &size, d);
    if (!bytes) return false;
    bool ok = npy_parse(bytes, size, path, want, a, t, d);
    file_unmap(bytes, size);
    return ok;
}

bool npz_read(const char *path, const char *key, DType want, Arena *a, Tensor *t, Diag *d) {
    int code = 0;
    zip_t *zip = zip_open(path, ZIP_RDONLY, &code);
    if (!zip) {
        diag_error(d, EXIT_IO, "cannot open %s as an archive", path);
        return false;
    }
    const char *name = arena_printf(a, "%s:%s", path, key);
    zip_stat_t st;
    bool found = !zip_stat(zip, key, 0, &st) || !zip_stat(zip, arena_printf(a, "%s.npy", key), 0, &st);
    zip_file_t *file = found ? zip_fopen_index(zip, st.index, 0) : NULL;
    bool ok = file && st.size < (zip_uint64_t)1 << 40;
    if (ok) {
        uint8_t *bytes = arena_alloc(a, (size_t)st.size + 1);
        ok = zip_fread(file, bytes, st.size) == (zip_int64_t)st.size && npy_parse(bytes, (size_t)st.size, name, want, a, t, d);
    }
    if (!file) diag_error(d, EXIT_MODEL, "%s: there is no array of this name", name);
    if (file && !ok && !d->errors) fault(d, name, "cannot be read");
    if (file) zip_fclose(file);
    zip_discard(zip);
    return ok;
}

// ---- writing ----
static void add_header(Str *out, const char *descr, const Tensor *t) {
    Str dict = {0};
    str_printf(&dict, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (int i = 0; i < t->rank; i++) str_printf(&dict, "%lld,%s", (long long)t->shape[i], i + 1 < t->rank ? " " : "");
    str_add(&dict, "), }");
    while ((10 + dict.n + 1) % 64) str_add(&dict, " ");
    str_add(&dict, "\n");
    unsigned char head[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)(dict.n & 255), (unsigned char)(dict.n >> 8)};
    str_addn(out, (const char *)head, sizeof head);
    str_addn(out, dict.data, dict.n);
    str_free(&dict);
}

// One code point of UTF-8 at *p before end; bytes that are not UTF-8 become one code point each.
static uint32_t next_utf8(const unsigned char **p, const unsigned char *end) {
    uint32_t c = *(*p)++;
    int more = c >= 0xF0 ? 3 : c >= 0xE0 ? 2 : c >= 0xC0 ? 1 : 0;
    for (int k = 0; k < more; k++)
        if (*p + k >= end || ((*p)[k] & 0xC0) != 0x80) return c;
    if (more) c &= 0x3Fu >> more;
    for (; more > 0; more--) c = c << 6 | (*(*p)++ & 0x3F);
    return c;
}

static void add_strings(Str *out, const Tensor *t) {
    const StringElement *s = t->data;
    int64_t n = tensor_count(t);
    size_t width = 1;
    for (int64_t i = 0; i < n; i++) {
        size_t len = 0;
        for (const unsigned char *p = (const unsigned char *)s[i].text, *end = p + s[i].size; p < end; len++) next_utf8(&p, end);
        if (len > width) width = len;
    }
    char descr[24];
    Str text = {0};
    str_printf(&text, "<U%zu", width);
    memcpy(descr, text.data, text.n + 1);
    str_free(&text);
    add_header(out, descr, t);
    for (int64_t i = 0; i < n; i++) {
        const unsigned char *p = (const unsigned char *)s[i].text, *end = p + s[i].size;
        for (size_t k = 0; k < width; k++) {
            uint32_t c = p < end ? next_utf8(&p, end) : 0;
            unsigned char le[4] = {(unsigned char)c, (unsigned char)(c >> 8), (unsigned char)(c >> 16), (unsigned char)(c >> 24)};
            str_addn(out, (const char *)le, 4);
        }
    }
}

bool npy_format(const Tensor *t, Str *out, Diag *d) {
    if (t->type == DT_str) {
        add_strings(out, t);
        return true;
    }
    const DTypeInfo *info = dtype_info(t->type);
    if (t->type == DT_none || !info->onnx) {
        diag_error(d, EXIT_INTERNAL, "a tensor of type %s cannot be written as .npy", dtype_name(t->type));
        return false;
    }
    const char *descr = info->npy;
    if (!descr[0]) descr = info->cls == 'I' ? "|i1" : info->cls == 'U' ? "|u1" : dtype_bytes(t->type) == 2 ? "<V2" : "|V1";
    add_header(out, descr, t);
    str_addn(out, t->data, (size_t)tensor_count(t) * (size_t)dtype_bytes(t->type));
    return true;
}
