// Domains: where, inside the kernel that computes a value, its inputs' elements are read. What fuse decides by where one value has several uses.
//
// The value that a kernel stores, or one that is computed inline at a place of its own (behind a view), is the root of a domain. A value read
// by the members of one domain only, always at the same place, is a member too: its element is computed once (lowering keeps it) however often it
// is used. A sweep is one run over a domain's elements: the store is one, each reduction and each pass of a softmax or norm another.
//
//   y = x * sigmoid(x)                     x, sigmoid(x): elements of y's domain, one sweep
//   y = e / sum(e), e = exp(x)             sum(e): a statistic of y's rows; e: elements in two sweeps
#ifndef MLC_DOMAIN_H
#define MLC_DOMAIN_H

#include "reads.h"

typedef enum {
    PLACE_OPEN,      // nothing of the kind: the value opens a domain
    PLACE_ELEMENT,   // at the element at hand, of the domain's root or of an operand of a reduction in it
    PLACE_STATISTIC, // once a row: its shape is the root's with the row's axes of extent 1 or left out
} Place;

typedef struct {
    Value *root;
    Place place;
    uint64_t sweeps; // of PLACE_ELEMENT: those that read it; 1: the root's own alone
    // Of PLACE_ELEMENT, whose index it is read at: the root's own, that of a view or reshape in between, or of a reduction that is no statistic.
    const void *position;
} Member;

typedef struct {
    const Value *space; // of a root with statistics: a value whose rows they are of
    uint32_t axes;      // its axes inside a row, those of extent 1 aside
    int group;          // number of the row group; 0: none
    bool occupied;      // holds a contraction, reduction, softmax, norm, concat or statistics
    int sweeps;         // numbers given
    int spent;          // on computing elements again in further sweeps
} Domain;

typedef struct {
    const Graph *g;
    const Uses *u;
    Member *member;   // [Value.id]
    Domain *domain;   // [Value.id] of roots
    bool *is_inline;  // [Value.id]
    uint64_t *sweeps; // [Value.id] of a reduction, softmax or norm: its own in its domain
    int groups;       // numbered so far
} Domains;
Domains domains_of(const Graph *g, const Uses *u, Arena *a);

// Where v is read, given its users' membership; PLACE_OPEN unless all of them agree.
Member domain_place(const Domains *d, const Value *v);
// v becomes a statistic of its root's rows, a reduction or what follows from one; false when the root's kernel has no room for it.
bool domain_join_rows(Domains *d, const Value *v, const Member *m);
// Notes that v is inline or not, and where (PLACE_OPEN, or not inline: it is the root of its own domain).
void domain_enter(Domains *d, Value *v, bool is_inline, Member m);

#endif
