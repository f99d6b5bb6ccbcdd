# Turns text files into one C file: cmake -DOUT=x.c -DSYMBOL=name -DFILES="a|b" -P embed.cmake
#
# The C file defines `const struct { const char *name, *text; } NAME[]`, ended by {0, 0}; name is the file's name without folder and last suffix.
# Texts become character arrays, for a string literal over 4095 bytes is not portable C.
string(REPLACE "|" ";" FILES "${FILES}")
set(arrays "")
set(rows "")
set(i 0)
foreach(file IN LISTS FILES)
    get_filename_component(name "${file}" NAME_WLE)
    file(READ "${file}" hex HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
    string(APPEND arrays "static const unsigned char text_${i}[] = {${bytes}0};\n")
    string(APPEND rows "    {\"${name}\", (const char *)text_${i}},\n")
    math(EXPR i "${i} + 1")
endforeach()
file(WRITE "${OUT}.tmp" "typedef struct { const char *name, *text; } EmbeddedText;
extern const EmbeddedText ${SYMBOL}[];
${arrays}const EmbeddedText ${SYMBOL}[] = {\n${rows}    {0, 0},\n};\n")
file(RENAME "${OUT}.tmp" "${OUT}")
