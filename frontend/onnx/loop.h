// What is found out about a loop's body before it is imported for good; see loop_study.c.
#ifndef MLC_LOOP_STUDY_H
#define MLC_LOOP_STUDY_H

#include "importer.h"

typedef struct {
    Value *trip, *cond; // of the Loop as given: trip's constant -1 is none
    int ncarried;
    Value **init; // of the carried values
    bool *fixed;  // set: the body gives carried value i back unchanged, so it need not be carried
    bool counted; // set: the condition does nothing but count; then trip says how often, and cond is true
} LoopStudy;

// Imports the body of Loop n into a region that is thrown away and fills in fixed (ncarried entries), counted, trip and cond. false after a
// fault.
bool loop_study(ImportNode *n, LoopStudy *s);

#endif
