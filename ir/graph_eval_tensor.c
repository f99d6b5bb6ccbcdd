// Strided tensors of the evaluator: copies, broadcasting walks, and reading and writing runs of elements as f64 or i64.
#include "graph_eval.h"
#include "strip.h"

#include <string.h>

int64_t strided_count(const Strided *x) {
    int64_t n = 1;
    for (int i = 0; i < x->rank; i++) n *= x->shape[i];
    return n;
}

bool strided_is_dense(const Strided *x) {
    int64_t step = 1;
    if (strided_count(x) == 0) return true;
    for (int i = x->rank - 1; i >= 0; i--) {
        if (x->shape[i] != 1 && x->stride[i] != step) return false;
        step *= x->shape[i];
    }
    return true;
}

void strided_set(Strided *x, DType t, int rank, const int64_t *shape, void *data) {
    x->type = t;
    x->rank = rank;
    x->data = data;
    x->buffer = NULL;
    int64_t step = 1;
    for (int i = rank - 1; i >= 0; i--) {
        x->shape[i] = shape[i];
        x->stride[i] = step;
        step *= shape[i];
    }
}

#define RUN(T)                                                                                                                             \
    do {                                                                                                                                   \
        T *d = dst;                                                                                                                        \
        const T *s = src;                                                                                                                  \
        if (stride == 0)                                                                                                                   \
            for (int64_t i = 0; i < n; i++) d[i] = *s;                                                                                     \
        else                                                                                                                               \
            for (int64_t i = 0; i < n; i++) d[i] = s[i * stride];                                                                          \
    } while (0)

typedef struct {
    uint64_t half[2];
} Wide;

void strided_run(int size, void *dst, const void *src, int64_t stride, int64_t n) {
    if (stride == 1) {
        if (n > 0) memcpy(dst, src, (size_t)n * (size_t)size);
        return;
    }
    switch (size) {
    case 1: RUN(uint8_t); break;
    case 2: RUN(uint16_t); break;
    case 4: RUN(uint32_t); break;
    case 8: RUN(uint64_t); break;
    default: RUN(Wide); break;
    }
}

void walk_fill(const Walk *w, const int64_t *stride, int size, const char *data, int64_t first, int n, void *dst) {
    int64_t at[GRAPH_MAX_RANK], offset = 0, rest = first;
    int last = w->rank - 1;
    if (last < 0) {
        strided_run(size, dst, data, 0, n);
        return;
    }
    for (int i = last; i >= 0; i--) {
        at[i] = rest % w->shape[i];
        rest /= w->shape[i];
        offset += at[i] * stride[i];
    }
    char *out = dst;
    for (int done = 0; done < n;) {
        int64_t run = w->shape[last] - at[last];
        if (run > n - done) run = n - done;
        strided_run(size, out + (size_t)done * (size_t)size, data + offset * size, stride[last], run);
        done += (int)run;
        offset += run * stride[last];
        at[last] += run;
        for (int i = last; i > 0 && at[i] == w->shape[i]; i--) {
            offset += stride[i - 1] - at[i] * stride[i];
            at[i] = 0;
            at[i - 1]++;
        }
    }
}

bool walk_broadcast(const Strided *x, int rank, const int64_t *shape, int64_t *stride) {
    int lead = rank - x->rank;
    if (lead < 0) return false;
    for (int i = 0; i < lead; i++) stride[i] = 0;
    for (int i = 0; i < x->rank; i++) {
        if (x->shape[i] != 1 && x->shape[i] != shape[lead + i]) return false;
        stride[lead + i] = x->shape[i] == 1 ? 0 : x->stride[i];
    }
    return true;
}

void strided_copy(void *dst, const Strided *x) {
    int size = dtype_bytes(x->type);
    int64_t count = strided_count(x);
    if (strided_is_dense(x)) {
        if (count) memcpy(dst, x->data, (size_t)count * (size_t)size);
        return;
    }
    Walk w = {.rank = x->rank};
    memcpy(w.shape, x->shape, sizeof w.shape);
    enum { STEP = 1 << 20 };
    for (int64_t at = 0; at < count; at += STEP) {
        int n = count - at < STEP ? (int)(count - at) : STEP;
        walk_fill(&w, x->stride, size, x->data, at, n, (char *)dst + at * size);
    }
}

bool strided_dense(Eval *e, const Node *n, const Strided *x, Strided *out) {
    if (strided_is_dense(x)) {
        *out = strided_share(x);
        char *data = out->data;
        EvalBuffer *buffer = out->buffer;
        strided_set(out, x->type, x->rank, x->shape, data); // strides of axes of extent 1 may have been anything
        out->buffer = buffer;
        return true;
    }
    if (!eval_alloc(e, n, x->type, x->rank, x->shape, out)) return false;
    strided_copy(out->data, x);
    return true;
}

int64_t *strided_offsets(Eval *e, int naxes, const int64_t *shape, const int64_t *stride, int64_t *count) {
    int64_t n = 1;
    for (int i = 0; i < naxes; i++) n *= shape[i];
    *count = n;
    int64_t *o = ARENA_ARRAY(eval_scratch(e), int64_t, n + 1), filled = 1;
    if (n == 0) return o;
    for (int i = 0; i < naxes; i++) {
        // The table so far, each entry spread over the new axis; from the end, so that it can be done in place.
        for (int64_t k = filled - 1; k >= 0; k--) {
            int64_t base = o[k];
            for (int64_t j = shape[i] - 1; j >= 0; j--) o[k * shape[i] + j] = base + j * stride[i];
        }
        filled *= shape[i];
    }
    return o;
}

// ---- conversion of runs ----

static void convert_run(DType from, DType to, const void *src, int64_t stride, int64_t n, void *dst) {
    char dense[EVAL_STRIP * 16];
    int size = dtype_bytes(from), to_size = dtype_bytes(to);
    for (int64_t i = 0; i < n; i += EVAL_STRIP) {
        int k = n - i < EVAL_STRIP ? (int)(n - i) : EVAL_STRIP;
        const char *s = (const char *)src + i * stride * size;
        char *d = (char *)dst + i * to_size;
        if (from == to) {
            strided_run(size, d, s, stride, k);
            continue;
        }
        if (stride != 1) strided_run(size, dense, s, stride, k);
        strip_op(X_cast, from, to, k, d, stride == 1 ? s : dense, NULL, NULL);
    }
}

void strided_read_f64(DType t, const void *src, int64_t stride, int64_t n, double *dst) {
    convert_run(t, DT_f64, src, stride, n, dst);
}
void strided_read_i64(DType t, const void *src, int64_t stride, int64_t n, int64_t *dst) {
    convert_run(t, DT_i64, src, stride, n, dst);
}
void strided_write_f64(DType t, void *dst, int64_t n, const double *src) {
    convert_run(DT_f64, t, src, 1, n, dst);
}
void strided_write_i64(DType t, void *dst, int64_t n, const int64_t *src) {
    convert_run(DT_i64, t, src, 1, n, dst);
}
