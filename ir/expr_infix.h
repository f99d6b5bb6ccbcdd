// The infix operators of the expression text: shared by its printer and its parser.
#ifndef MLC_EXPR_INFIX_H
#define MLC_EXPR_INFIX_H

#include "expr.h"

typedef struct {
    const char *text;
    XOp op;
    int level; // binds tighter when higher, as in C
} ExprInfix;
extern const ExprInfix expr_infix[]; // longer texts first, ends with a NULL text

#endif
