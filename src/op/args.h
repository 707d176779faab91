/*
 * Reading the arguments of an operator from JSON. Each getter notes the name it asked for, so that leat_args_end can
 * refuse names that nobody asked for; the first error sticks and later getters do nothing.
 */
#ifndef LEAT_OP_ARGS_H
#define LEAT_OP_ARGS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "leat/leat.h"

struct leat_args {
    const json_t *object;
    const char *operator_type; /* for messages */
    const char *asked[16];
    unsigned n_asked;
    int status;
    struct leat_error *error;
};

/* The value of an argument; NULL if it is absent or null. */
const json_t *leat_args_get(struct leat_args *args, const char *name);
/* Marks the arguments as wrong: "<type>: <name> must be <wanted>". */
void leat_args_wrong(struct leat_args *args, const char *name, const char *wanted);

void leat_args_bool(struct leat_args *args, const char *name, bool fallback, bool *out);
/* An integer of [low, high]. Absent: `fallback`. */
void leat_args_int(struct leat_args *args, const char *name, int64_t low, int64_t high, int64_t fallback, int64_t *out);
void leat_args_double(struct leat_args *args, const char *name, double low, double high, double fallback, double *out);
/* One number or a list of `low` to `high` finite numbers; returns how many, 0 if absent. */
unsigned leat_args_doubles(struct leat_args *args, const char *name, unsigned low, unsigned high, double *out);
/* One integer or a list of `low` to `high`, each of [least, most]; returns how many, 0 if absent. */
unsigned leat_args_ints(struct leat_args *args, const char *name, unsigned low, unsigned high, int64_t least,
                        int64_t most, int64_t *out);
/* The index of a word in `words` (ended by NULL). Absent: `fallback`. */
void leat_args_word(struct leat_args *args, const char *name, const char *const *words, unsigned fallback,
                    unsigned *out);
/* The text of an argument, or NULL. */
const char *leat_args_text(struct leat_args *args, const char *name);
/* Refuses arguments that were not asked for. Returns the status. */
int leat_args_end(struct leat_args *args);

#endif
