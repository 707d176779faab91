/*
 * Where the tokens of prompts lie in memory.
 */
#ifndef LEAT_DATA_PROMPT_TOKENS_H
#define LEAT_DATA_PROMPT_TOKENS_H

#include "data/dataset.h"

struct leat_prompt_tokens {
    const uint8_t **at; /* of each prompt; read it inside leat_guarded, since a file may be cut under its mapping */
    uint32_t *lengths;  /* in tokens */
    unsigned width;     /* bytes of one */
    struct leat_prompt_file *files;
    size_t n_files, files_room;
    struct leat_prompt_copies *copies;
};

/* Finds those of a field: values in memory and in files that can be mapped stay where they are, after their checksums
 * were compared; others are copied. `stopped` is asked now and then, with how many prompts are done. Destroy it in any
 * case. Errors: as leat_prompts_group. */
int leat_prompt_tokens_find(struct leat_prompt_tokens *tokens, const struct leat_dataset *dataset, const char *field,
                            int (*stopped)(void *user, uint64_t done), void *user, struct leat_error *error);
void leat_prompt_tokens_destroy(struct leat_prompt_tokens *tokens);

#endif
