/*
 * Native: a function of the user's in a chain. The text of a program names it by an index in a table of functions that the
 * program is compiled with, so that text alone can never make anything run.
 *
 *     photo -> [Decode, Resize] -> buffer -> function -> buffer -> [Normalize] -> row of the batch
 *                    part                                              part
 *
 * The chain is cut behind each function into parts, which are compiled and carried out like chains of their own; between
 * them values lie in two buffers of the scratch, in turns. What is at rest in mapped memory is copied first: a fault
 * there abandons whatever runs, which must not be foreign code.
 */
#ifndef LEAT_OP_NATIVE_H
#define LEAT_OP_NATIVE_H

#include "op/stage.h"

/* Finds the function that the arguments name. INVALID: the table has no such. `functions` outlives `args`. */
int leat_native_bind(void *args, const struct leat_native *functions, size_t n_functions, struct leat_error *error);

/* "Native(libimage.so:blur)", for messages and statistics; lives as long as the program. */
const char *leat_native_label(const void *args);

/* Calls the function of `use` for one value of `length` bytes. `out` is of the type use->out, aligned, and overwritten. OPERATOR: it
 * failed; DECODE: the length is not one of this type. */
int leat_native_run(const struct leat_use *use, const char *output, const struct leat_row *row, const void *in, uint64_t length, void *out,
                    struct leat_error *error);

/* Bytes of a value, UINT64_MAX where they vary. */
uint64_t leat_type_bytes(const struct leat_type *type);

#endif
