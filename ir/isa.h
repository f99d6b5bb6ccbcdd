// Hardware instructions: rows of isa_*.def. A row is a feature, its C text, its LLVM intrinsic and its meaning as an expression of the loop
// language.
#ifndef MLC_ISA_H
#define MLC_ISA_H

#include "expr.h"

typedef struct {
    const char *name;    // "fmadd_f32x8"
    const char *feature; // what the target must have: "avx2", "fma", "avx512f", "avx512vnni" …
    const char *result;  // type text: "f32x8"
    const char *args;    // "f32x8 f32x8 f32x8"
    const char *c;       // C text with $0 $1 $2: an intrinsic of immintrin.h / arm_acle.h; "(__m256i)" casts written out
    const char *llvm;    // intrinsic name "llvm.x86.…" called with the operands, or "" to build the meaning
    const char *meaning; // expression text over a0 a1 a2: "fma(a0, a1, a2)"; what the interpreter runs and the selector matches
} IsaRow;

int isa_count(void);
const IsaRow *isa_row(int i);
int isa_find(const char *name, size_t n); // -1 when unknown
const Expr *isa_meaning(Arena *a, int row, const Expr *const *operands);
VType vtype_parse(const char *text, size_t n); // "f32x8", "m32x8" is bool x 8; type DT_none on a fault
void vtype_print(Str *s, VType t);             // "f32", "f32x8", "boolx8"; vtype_parse reads it back
// The row of a feature in `features` (space separated) whose meaning has e's shape; -1: none. operands gets the matched operands.
int isa_match(const Expr *e, const char *features, const Expr **operands);

#endif
