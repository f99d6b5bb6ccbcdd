// The one thing our JSON needs beyond printf: `, "key": "text"` with text escaped.
#ifndef MLC_JSON_H
#define MLC_JSON_H

#include "../ir/base.h"

void json_text(Str *s, const char *key, const char *text);

#endif
