// The fields of a Node as a table made from GRAPH_FIELDS, for the printer, the parser and the verifier.
#ifndef MLC_GRAPH_FIELDS_H
#define MLC_GRAPH_FIELDS_H

#include "graph.h"

typedef enum { FK_int, FK_f64, FK_text, FK_ints, FK_params, FK_dims, FK_expr, FK_scalar, FK_data, FK_code, FK_regions } FieldKind;
typedef struct {
    const char *name;
    FieldKind kind;
    size_t offset; // in Node
} GField;

const GField *graph_field(int i); // NULL past the end
const GField *graph_field_find(const char *name, size_t n);
bool graph_field_used(GOp op, const GField *f); // the operation's row names it
#define FIELD_AT(T, node, field) ((T *)(void *)((char *)(node) + (field)->offset))
#define FIELD_IN(T, node, field) ((T const *)(const void *)((const char *)(node) + (field)->offset))

const char *graph_store_name(int kind); // "auto", "buffer" …; NULL past the end

bool graph_const_is_splat(const Value *v, const Data *data); // more than GRAPH_INLINE elements, all with the same bits
bool graph_const_is_blob(const Value *v, const Data *data);  // more than GRAPH_INLINE elements, not all the same
int64_t graph_const_count(const Value *v);                   // elements of a constant shape, -1 when it is symbolic

#endif
