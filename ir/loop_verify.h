// What the two halves of the Program's verifier share: loop_verify.c (statements, functions) and loop_verify_expr.c (names, indices,
// expressions).
#ifndef MLC_LOOP_VERIFY_H
#define MLC_LOOP_VERIFY_H

#include "loop.h"
#include "loop_names.h"
#include "ptr_map.h"

// What the verifier knows of a name; negative for unknown ones.
typedef enum { NAME_LIVE, NAME_ENDED, NAME_CROSSED } NameState;

typedef struct {
    const Stmt *s; // FOR, REDUCE or WHILE
    bool sure;     // every iteration is reached: not empty, no break
    bool unrolled; // with constant bounds
} OpenLoop;

typedef struct {
    const void *what; // a symbol or a variable
    bool buffer;
} LiveName;

typedef struct {
    const Program *p;
    Diag *d;
    const Kernel *kernel; // NULL: main
    Arena *arena;
    PtrMap state;        // symbol or variable -> NameState
    PtrMap depth;        // variable -> number of open loops at its definition
    VEC(LiveName) names; // stack of live definitions
    VEC(OpenLoop) loops;
    LoopNames *words; // names of this function
    const Stmt *at;
    const Dim *team; // its member, NULL outside
    int conditional; // number of conditions around the place
} Verifier;

// Reports the breach of a rule at the present statement.
void verify_fault(Verifier *v, int rule, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

void verify_word(Verifier *v, const char *name); // a new name of the function
void verify_define(Verifier *v, const void *what, const char *name, bool buffer);
void verify_define_symbol(Verifier *v, const Dim *sym);
void verify_define_var(Verifier *v, const Var *var);
void verify_end_names(Verifier *v, int mark, NameState state); // of the stack from mark on
void verify_use(Verifier *v, const void *what, const char *name);
void verify_use_symbol(void *ctx, const Dim *sym);

void verify_dim(Verifier *v, const Dim *d);
void verify_visit_dim(void *ctx, const Dim **d);
// An access of all lanes, `stride` elements apart. What stands under a condition may be dead and is not judged.
void verify_bounds(Verifier *v, const Var *buf, const Dim *index, int lanes, int64_t stride, DType as);
void verify_tile_index(Verifier *v, const Var *tile, const Dim *const *idx);

void verify_visit_expr(void *ctx, const Expr **e);
void verify_type(Verifier *v, const char *what, VType expected, VType found);

#endif
