// WordPiece, as BERT's uncased models have it, for English text.
#ifndef WORDPIECE_H
#define WORDPIECE_H

#include <stdint.h>

typedef struct vocabulary vocabulary;
vocabulary *vocabulary_read(const char *path); // one piece a line; NULL when it cannot be read
void vocabulary_free(vocabulary *v);

// [CLS], the text's pieces, [SEP]; what does not fit into max tokens is left out. The number of tokens.
int vocabulary_tokens(const vocabulary *v, const char *text, int64_t *tokens, int max);

#endif
