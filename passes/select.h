// Which passes run and what is said about them: shared by the two runners.
#ifndef MLC_SELECT_H
#define MLC_SELECT_H

#include "passes.h"

bool pass_selected(const char *name, int level, const PassOptions *o);
bool pass_dumped(const char *name, const PassOptions *o);
double pass_clock(void);                                                     // seconds
void pass_report_time(const char *name, double start, const PassOptions *o); // a line on stderr under --time-passes
bool name_in_list(const char *list, const char *name);                       // list: comma separated, NULL is empty

#endif
