// Escaped texts; see json.h.
#include "json.h"

void json_text(Str *s, const char *key, const char *text) {
    str_printf(s, ", \"%s\": \"", key);
    for (; *text; text++) {
        if ((unsigned char)*text < 0x20)
            str_printf(s, "\\u%04x", (unsigned)(unsigned char)*text);
        else
            str_printf(s, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
    }
    str_add(s, "\"");
}
