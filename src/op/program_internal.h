/* The data that compiling (compile.c) hands to applying (program.c). */
#ifndef LEAT_OP_PROGRAM_INTERNAL_H
#define LEAT_OP_PROGRAM_INTERNAL_H

#include "kernels/kernels.h"
#include "op/program.h"
#include "op/stage.h"

enum leat_path {
    LEAT_PATH_COPY,    /* as stored */
    LEAT_PATH_CONVERT, /* an array through one conversion between types */
    LEAT_PATH_MAP,     /* an array, or an image as it lies, through other functions of single values */
    LEAT_PATH_IMAGE,   /* through stages */
    LEAT_PATH_SLICES,  /* decoded to an array, slice by slice, and through functions of single values */
    LEAT_PATH_TURN,    /* of a part: from pixels to planes or back, and nothing else */
    LEAT_PATH_NATIVE   /* in parts, with functions of the user's between them */
};

struct leat_compiled {
    struct leat_output face;
    size_t index;      /* of the output */
    const char *field; /* its name */
    enum leat_path path;
    struct leat_use *uses;
    size_t n_uses;
    struct leat_type in, out;
    const struct leat_codec *codec; /* of stored values that are encoded, else NULL */
    uint64_t in_bytes, elements;    /* of a row (ragged: of one step of its first dimension) */
    leat_convert_fn convert;        /* CONVERT; NULL: leat_values_convert */
    struct leat_stage *stages;      /* IMAGE; for MAP one, for its maps and label; for SLICES those behind Decode */
    size_t n_stages;
    size_t first_time; /* the start of the times of its steps in a scratch's */

    /* NATIVE: the chain is cut behind each function. The parts are made like the whole; their names are the whole's. */
    struct leat_compiled *parts;
    size_t n_parts;
    const struct leat_use *native;      /* of a part: the function behind it; NULL: it is the last */
    bool idle;                          /* of a part: it hands on its input */
    bool bounded;                       /* of a chain: the length of some value between them follows from values */
    const struct leat_compiled *labels; /* of tokens whose labels are made in the same call; or NULL */
    bool beside;                        /* it is made so */

    uint64_t pad_steps; /* the chain ends in PadTo: steps of a row, made of values of `in_bytes` per step; else 0 */
    bool pad_cuts;
    uint8_t pad_fill[8]; /* one number of the output's type */

    /* of a tuple */
    enum leat_role role;
    bool normalized;
    bool pixels;     /* an image or a mask: made through its uses, which are those of the chain that concern it */
    bool gathers;    /* of several samples, the steps of all: of those whose images become one */
    bool follows;    /* steps are kept or dropped with the boxes */
    bool label;      /* of images that are mixed */
    uint16_t *pairs; /* of keypoints: 2 * n_pairs points, left and right of each other */
    size_t n_pairs;
    uint64_t classes; /* above 0: a whole number becomes a float32 vector of so many */
    bool stacked;     /* it may end in images of open size */
    /* Images of several samples become one, or one several: parts[0] has the stages up to this use, and `stages` begin
     * behind it. */
    const struct leat_use *gather;
    uint64_t view_bytes; /* above 0: a row has several images of so many bytes */
    size_t stored;       /* of masks of instances: their field; face.field is the one by whose rows they are counted */
};

/* A chain; for a tuple also all that does not belong to one of its outputs. These stand in the order of the fields,
 * behind them the geometry. */
struct leat_compiled_chain {
    struct leat_program_chain face;
    const char *name; /* of its first output */
    struct leat_use *uses;
    size_t n_uses;
    size_t first;   /* of its outputs */
    size_t *fields; /* the target of face, for a tuple */
    bool *decodes;
    size_t *outputs;
    const struct leat_use *gather; /* the part that makes one image of those of several samples (gather.h); or NULL */
    size_t canvas;                 /* the output of the image whose size the others go by; SIZE_MAX: there is none */
    size_t n_targets;              /* fields that are not pixels */
    char *geometry_name, *sizes_name;
    bool geometry, sanitizes, aims, draws; /* draws: masks of instances */
    bool measures;                         /* the rest of each box */
    /* Functions take the image of this member behind so many uses, and make a result that the others do not see; n_cut
     * SIZE_MAX: there are none. The image is hidden then, and behind the geometry stand two hidden outputs more: its
     * size, if that is open, and the moves drawn by targets behind the cut, if there are any, n_drawn of them. */
    size_t n_cut, cut, n_drawn;
    bool cut_open;
    bool stacks;  /* images may end in open size; there is an output of their sizes, the last one */
    bool single;  /* ... only because batches have one row */
    bool on_card; /* a card decodes its image; the last output describes that */
};

/* The place of those outputs of a tuple that functions alone see; there may be none. */
static inline size_t leat_tuple_cut_outputs(const struct leat_compiled_chain *chain)
{
    return chain->face.n_fields + chain->geometry;
}
/* Settles the outputs of a tuple whose fields and uses are known: tuple_compile.c. */
int leat_tuple_compile(struct leat_program *program, struct leat_compiled_chain *chain, const struct leat_field *fields,
                       struct leat_error *error);
/* Whether some image of a chain ends in open size. Its results are set again when the outputs are settled. */
bool leat_tuple_is_open(struct leat_program *program, struct leat_compiled_chain *chain,
                        const struct leat_field *fields);
/* For an output of masks of instances that was compiled as a mask is, once arrays were (instances.c). TYPE, INVALID. */
int leat_instances_settle(const struct leat_program *program, const struct leat_compiled_chain *chain,
                          struct leat_compiled *c, struct leat_error *error);
/* The share of its rows in a scratch. */
struct leat_tuple_work;
struct leat_tuple_work *leat_tuple_work_new(const struct leat_program *program);
void leat_tuple_work_free(struct leat_tuple_work *work);

/* variants.c: sizes of a program that are drawn per batch, and operators for some epochs. NULL: there are none. */
struct leat_variants;
int leat_variants_find(json_t *json, struct leat_variants **out, struct leat_error *error);
void leat_variants_free(struct leat_variants *variants);
size_t leat_variants_count(const struct leat_variants *variants);
/* The program of one combination, to be compiled; a new reference, or NULL. */
json_t *leat_variants_text(const struct leat_variants *variants, size_t variant);
/* Puts the programs together: *out, the one whose rows are the largest, owns the others and the variants. */
int leat_variants_settle(struct leat_variants *variants, struct leat_program **programs, struct leat_program **out,
                         struct leat_error *error);
/* Variants of one phase of the epochs stand together, as many of each. */
size_t leat_variants_phases(const struct leat_variants *variants);
struct leat_program *leat_variants_get(const struct leat_variants *variants, size_t variant);

struct leat_program {
    struct leat_variants *variants; /* of the root; NULL: there is but one */
    json_t *json;                   /* keeps names alive */
    const struct leat_kernels *kernels;
    struct leat_op *ops;
    size_t n_ops;
    struct leat_compiled *outputs;
    struct leat_compiled_chain *chains;
    size_t n_outputs, n_chains, n_times, n_aims;
    char **names; /* of fields, if the program came without JSON */
    uint64_t hash;
    struct leat_native *functions;
    size_t n_functions;
    uint64_t native_bytes; /* of the largest value that a function takes from or gives to a buffer */
    bool decodes;
    bool mixes;  /* some chain ends in operators on whole batches */
    bool single; /* outputs of open size that did not ask for it */
    enum leat_open open;
};
static inline struct leat_compiled *leat_tuple_member(const struct leat_program *program,
                                                      const struct leat_compiled_chain *chain, size_t i)
{
    return &program->outputs[chain->first + i];
}

/* Whether it takes or makes lists of any length, so that values between functions are as long as each row's. */
static inline bool leat_compiled_is_list(const struct leat_compiled *c)
{
    return c->path == LEAT_PATH_NATIVE && c->in.kind == LEAT_KIND_ARRAY && (c->in.ndim == 1 || c->in.columns) &&
           (c->in.shape[0] < 0 || c->bounded);
}
/* Bytes of such a value that each of a scratch's buffers has room for: 32,768 tokens. A longer row has its own. */
#define LEAT_LIST_BYTES (UINT64_C(256) << 10)
/* program_memory.c: the bytes of the longest value between the functions of a row, from the bytes of its list. */
uint64_t leat_list_bytes(const struct leat_compiled *c, uint64_t length);
/* program_memory.c: the elements that a list of n becomes, by an operator and by a chain; at most so many, if it is
 * bounded. */
uint64_t leat_use_count(const struct leat_use *use, uint64_t n);
uint64_t leat_compiled_count(const struct leat_compiled *c, uint64_t n);
/* The bytes of a value of a type, a list of n elements if it varies. */
uint64_t leat_value_size(const struct leat_type *type, uint64_t n);
/* Whether its own first stage decodes. */
static inline bool leat_compiled_decodes(const struct leat_compiled *c)
{
    return c->face.decodes && !c->gather;
}
/* slices.c: a row of a value that is decoded to an array. */
int leat_slices_apply(const struct leat_compiled *c, struct leat_stage_work *work, const struct leat_row *row,
                      void *dst, struct leat_error *error);
/* program.c: n elements of a type through the maps of a chain; whether a value of n steps may become a row of fixed
 * length, and what is filled of that behind them. */
void leat_map_elements(const struct leat_compiled *c, enum leat_dtype from, const uint8_t *src, uint8_t *dst,
                       uint64_t n);
int leat_pad_check(const struct leat_compiled *c, uint64_t n, struct leat_error *error);
void leat_pad_fill(const struct leat_compiled *c, uint64_t n, uint8_t *dst);
/* compile_operators.c: the operators of a program from its JSON; the names of their instances, once chains are known;
 * and an operator, with those in its branches, mixed into a hash. */
int leat_parse_operators(struct leat_program *program, struct leat_error *error);
int leat_name_instances(struct leat_program *program, struct leat_error *error);
uint64_t leat_op_hash(const struct leat_op *op, uint64_t hash);
/* compile_outputs.c: the outputs of a program, from its JSON; every field that is not derived, if there is none. */
int leat_parse_outputs(struct leat_program *program, const struct leat_field *fields, size_t n_fields,
                       struct leat_error *error);
int leat_all_fields(struct leat_program *program, const struct leat_field *fields, size_t n_fields,
                    struct leat_error *error);
/* program.c: counts a row that a card decodes; all that it took here is decoding. */
void leat_scratch_count(struct leat_scratch *scratch, const struct leat_compiled *c, int64_t begin_ns);
/* on_card.c: the output of an image that a card decodes (TYPE: it does not), and a row of it, which `card` then
 * describes: a struct leat_card_photo. */
int leat_on_card_settle(struct leat_compiled *c, struct leat_error *error);
int leat_on_card_apply(const struct leat_program *program, const struct leat_compiled *c, struct leat_scratch *scratch,
                       const struct leat_row *row, void *card, struct leat_error *error);
/* compile.c, for tuples: the types of a chain; shape, strides and bytes of its rows. */
int leat_compiled_infer(const struct leat_program *program, struct leat_compiled *c, struct leat_error *error);
int leat_compile_no_memory(struct leat_error *error); /* fills it in: NOMEM */
int leat_compiled_finish(struct leat_program *program, struct leat_compiled *c, struct leat_error *error);
/* The last operator's statement on padding. INVALID: the output's type does not hold its fill. */
int leat_compiled_pad(struct leat_compiled *c, const struct leat_op *op, struct leat_error *error);
/* program_memory.c: the needs of a thread for images of known size, so that making them allocates nothing; false: there
 * is no memory. And roughly the needs of a thread for the images of a program. */
bool leat_program_reserve(const struct leat_program *program, struct leat_stage_work *work);
uint64_t leat_program_images_bytes(const struct leat_program *program);
/* gather.c: by which the operators before a mosaic draw for the piece of this number. */
uint64_t leat_piece_key(uint64_t row_key, unsigned piece);
/* program.c: the needs of stages and tuples in a thread's scratch. */
struct leat_stage_work *leat_scratch_stages(struct leat_scratch *scratch);
struct leat_tuple_work *leat_scratch_tuples(struct leat_scratch *scratch);
/* program.c: one value of `n` steps into a row whose length PadTo has fixed. DECODE: it is too long. */
int leat_padded_row(const struct leat_compiled *c, uint64_t key, const void *data, uint64_t n, void *dst,
                    struct leat_error *error);

/* Whether an image's height or width is not known before the value is seen. */
bool leat_type_is_open(const struct leat_type *type);
/* One row of an output that may end in images of open size: `image` describes it, in memory of the scratch until
 * leat_scratch_trim, or of an open output in that of its room. */
int leat_program_apply_open(const struct leat_program *program, size_t output, struct leat_scratch *scratch,
                            const struct leat_row *row, struct leat_image *image, struct leat_error *error);
/* The image of one of the samples that a row is made of, as it is before they become one; in memory of the scratch. */
int leat_program_apply_part(const struct leat_program *program, size_t output, struct leat_scratch *scratch,
                            const struct leat_row *row, struct leat_image *image, struct leat_error *error);
void leat_scratch_trim(struct leat_scratch *scratch);

#endif
