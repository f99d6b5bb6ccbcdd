// What the scalar functions mean, on strips of elements: the one implementation behind constant folding, graph_eval and the loop
// interpreter.
#ifndef MLC_STRIP_H
#define MLC_STRIP_H

#include "expr.h"

// dst[i] = op(a[i], b[i], c[i]) for i < n. type is the operands' type (CMP and LOGIC results are bool / same), to the result's type of
// casts; pointers are to elements as in programs' memory (bool: one byte 0 or 1; f16: 2 bytes; sub-byte: 1). select: a is bool, b and c of
// `type`. MATH functions and arithmetic on non-native floats are computed through their definitions (expr_define). dst may equal an
// operand. Neither this nor the builders that fold are for several threads at once: the definitions' code is made at first use and kept.
void strip_op(XOp op, DType type, DType to, int n, void *dst, const void *a, const void *b, const void *c);

// Evaluates a scalar expression (lanes == 1 throughout) on n elements at a time. leaf fills dst with n elements of an X_arg, X_dim, X_var
// or X_load node. Shared nodes are computed once. e must have been prepared: strip_prepare gives an evaluation order and temporaries once
// for many calls.
typedef struct StripCode StripCode;
StripCode *strip_prepare(Arena *a, const Expr *const *roots, int nroots, int max_n);
// Runs; root i's result is in strip_result(code, i) afterwards, n elements, valid until the next run.
void strip_run(StripCode *code, int n, void (*leaf)(void *ctx, const Expr *e, int n, void *dst), void *ctx);
const void *strip_result(const StripCode *code, int i);
// Inside leaf, for a node that has operands (the offsets of a load, the operand of an index, …): their values, n elements each.
const void *const *strip_operands(const StripCode *code);

#endif
