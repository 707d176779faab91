/* What compiling (compile.c) hands to applying (program.c). */
#ifndef LEAT_OP_PROGRAM_INTERNAL_H
#define LEAT_OP_PROGRAM_INTERNAL_H

#include "kernels/kernels.h"
#include "op/program.h"
#include "op/stage.h"

enum leat_path {
    LEAT_PATH_COPY,    /* as stored */
    LEAT_PATH_CONVERT, /* an array through one conversion between types */
    LEAT_PATH_MAP,     /* an array through other functions of single values */
    LEAT_PATH_IMAGE,   /* through stages */
    LEAT_PATH_TURN,    /* of a part: from pixels to planes or back, and nothing else */
    LEAT_PATH_NATIVE   /* in parts, with functions of the user's between them */
};

struct leat_compiled {
    struct leat_output face;
    enum leat_path path;
    struct leat_use *uses;
    size_t n_uses;
    struct leat_type in, out;
    uint64_t in_bytes, elements; /* of a row (ragged: of one step of its first dimension) */
    leat_convert_fn convert;     /* CONVERT; NULL: leat_values_convert */
    struct leat_stage *stages;   /* IMAGE; of MAP one, for its maps and label */
    size_t n_stages;
    size_t first_time; /* index of its first step in a scratch's times */

    /* NATIVE: the chain is cut behind each function. The parts are made like the whole; their names are the whole's. */
    struct leat_compiled *parts;
    size_t n_parts;
    const struct leat_use *native; /* of a part: the function behind it; NULL: it is the last */
    bool idle;                     /* of a part: it hands on what it gets */
};

struct leat_program {
    json_t *json; /* keeps names alive */
    const struct leat_kernels *kernels;
    struct leat_op *ops;
    size_t n_ops;
    struct leat_compiled *outputs;
    size_t n_outputs, n_times;
    char **names; /* of fields, where the program came without JSON */
    uint64_t hash;
    struct leat_native *functions;
    size_t n_functions;
    uint64_t native_bytes; /* of the largest value that a function takes from or gives to a buffer */
    bool decodes;
    bool open; /* outputs may end in images of open size: leat_program_apply_open */
};

/* One field, whose outputs may end in images of open size. */
int leat_program_compile_open(const struct leat_field *field, const char *json, const struct leat_native *functions,
                              size_t n_functions, struct leat_program **out, struct leat_error *error);
/* One row of such an output: `image` describes it in memory of the scratch, until leat_scratch_trim. */
int leat_program_apply_open(const struct leat_program *program, size_t output, struct leat_scratch *scratch,
                            const struct leat_row *row, struct leat_image *image, struct leat_error *error);
void leat_scratch_trim(struct leat_scratch *scratch);

#endif
