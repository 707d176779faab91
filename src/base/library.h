/*
 * Libraries that are loaded when a sample needs them: decoders of rarer formats. Neither the build nor a wheel links
 * them, so that leat installs and starts without them, and that their code is in a process only if a sample wants it.
 * If one is missing the sample is broken, and the error says what to install. Types and prototypes of those of photos
 * are those of the library's own header when leat was built (LEAT_HAVE_*, meson.build); without it the error says so.
 *
 *     #define FUNCTIONS(X) X(TIFFClose) X(TIFFReadTile)
 *     static struct functions { FUNCTIONS(LEAT_LIBRARY_MEMBER) } tiff;
 *     static const struct leat_library_symbol symbols[] = {FUNCTIONS(LEAT_LIBRARY_SYMBOL){NULL, 0}};
 */
#ifndef LEAT_BASE_LIBRARY_H
#define LEAT_BASE_LIBRARY_H

#include <stddef.h>

#include "leat/leat.h"

struct leat_library_symbol {
    const char *name;
    size_t at; /* of the pointer to the function, in the struct of functions */
};
#define LEAT_LIBRARY_MEMBER(function) __typeof__(function) *function;
#define LEAT_LIBRARY_SYMBOL(function) {#function, offsetof(struct functions, function)},

struct leat_library {
    const char *format;                        /* "TIFF" */
    const char *const *files;                  /* "libtiff.so.6", ..., the best one first; ended by NULL */
    const char *advice;                        /* "apt install libtiff6, and start again" */
    const struct leat_library_symbol *symbols; /* ended by a name NULL */
    void *functions;                           /* the destination of the pointers: the struct of functions */
    _Atomic int state;                         /* 0: not yet looked for */
};

/* Looks for the library, once in a process, and fills its functions. Any thread. DECODE: it is not there, or lacks a
 * function. */
int leat_library_load(struct leat_library *library, struct leat_error *error);

#endif
