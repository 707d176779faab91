/*
 * Lists of positions, and their text in a state.
 */
#ifndef LEAT_PLAN_LIST_H
#define LEAT_PLAN_LIST_H

#include "plan/spec.h"

struct leat_list {
    uint64_t n, hash;
    int64_t *positions; /* NULL with n > 0: released, see log.c */
    bool selects;       /* the order is that of the plan, over these samples; else the rows are these, as they are */
    struct leat_list *next; /* of those that are known; see leat_plan_know_list */
};
int leat_list_new(const int64_t *positions, uint64_t n, uint64_t count, struct leat_list **out,
                  struct leat_error *error);
void leat_list_free(struct leat_list *list);
/* Freed with leat_free. *out stays NULL if the text would be longer than `room` or the positions were released. */
int leat_list_to_text(const struct leat_list *list, uint64_t room, char **out);
int leat_list_from_text(const char *text, uint64_t count, struct leat_list **out, struct leat_error *error);
/* Text freed with leat_free, or NULL. */
char *leat_to_base64(const uint8_t *bytes, uint64_t n);
/* The bytes of base64 text, at most 3 / 4 of its length. False: it is not base64. */
bool leat_from_base64(const char *text, uint8_t *out, uint64_t *n);

#define LEAT_VARINT_BYTES 10
/* A number, zigzag-coded, as a base-128 varint: the number of bytes; and back, from `*at` on. */
uint64_t leat_varint_put(int64_t value, uint8_t *out);
bool leat_varint_take(const uint8_t *bytes, uint64_t n, uint64_t *at, int64_t *out);

/* A list of numbers from 0 on as text, freed with leat_free, and back: `n` of them. Errors: NOMEM, INVALID. */
int leat_positions_to_text(const int64_t *positions, uint64_t n, char **out);
int leat_positions_from_text(const char *text, uint64_t n, int64_t **out, struct leat_error *error);

#endif
