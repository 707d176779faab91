/*
 * A program: for each output of a loader the chain of operators that turns a field's value into a row of a tensor.
 * Compiling infers and checks types, value ranges, layouts and shapes, and fuses neighbours; applying is a pure
 * function of (value, key).
 *
 * The JSON form (leat_loader_options.program):
 *
 *     {"operators": {"a": {"type": "Decode", "mode": "RGB"}, "b": {"type": "RandomResizedCrop", "size": [224, 224]}},
 *      "outputs": {"image": {"field": "image", "chain": ["a", "b"]}, "label": {"field": "label", "chain": []}}}
 *
 * "type" and arguments are those of leat.ops; "name" names an instance. Outputs keep the order in which they stand.
 *
 * One chain may run over a tuple of fields, which it moves together (docs/targets.md), and give one output per field:
 *
 *     "image": {"fields": ["image", "boxes"], "outputs": ["image", "boxes"], "chain": ["a", "b"], "geometry": true}
 *
 * It stands under the name of its first output; "outputs" are named like the fields if that is left out. With
 * "geometry", of an ordinary chain too, there is one output more, "image.geometry": LEAT_GEOMETRY_COLUMNS float32 per
 * row. With "stack", "list" or "pad", likewise, images may differ in size from row to row; the consumer of the batch
 * then decides their form.
 *
 * With "decode": "card" an output of one field is left to a card, by what it can do: Decode, crops, a resize and flips,
 * to uint8 images of one size. It then has bytes, as many as a row needs, and there is one output more, "image.card",
 * with what the card is to do with those of each row (codec/jpeg/card_plan.h):
 *
 *     "image": {"field": "image", "chain": ["a", "b"], "decode": "card"}
 *
 * Functions that run outside of the library stand behind a chain, whose output is then their input and is not delivered
 * itself; their result is an output of the same name. Several may take the same:
 *
 *     "a": {"field": "x", "chain": ["a"], "calls": [{"segment": 1, "kind": 1, "dtype": "float32", "shape": [3, 8]}]}
 *     "b": {"input": "a", "calls": [{"segment": 1, "kind": 1, "dtype": "int64", "shape": []}]}
 *
 * In the chain of a tuple they take one image of it, the "image"-th field, as the first operators have made it, so many
 * as "after" says. Other fields, and the sizes of images, are those behind the whole chain. Behind a geometry stand the
 * size of that image, if it is "open", and the draws of targets for the other operators, "draws" of them, both for the
 * functions alone. A result of open size gives the meaning of its numbers by "channels" and "axes" (enum leat_axes):
 *
 *     "cut": {"image": 0, "after": 2, "open": true, "draws": 1}
 *
 * If "calls" are several, each takes the result of the one before. Segments of odd numbers take a batch row by row,
 * those of even numbers as a whole. "strides", in elements, say how a row lies in memory that is not in the usual
 * order.
 */
#ifndef LEAT_OP_PROGRAM_H
#define LEAT_OP_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codec/codec.h"
#include "leat/leat.h"

struct leat_program; /* immutable after compile; any thread */
struct leat_scratch; /* the memory that one thread needs to apply a program; one thread at a time */

struct leat_output {
    const char *name;
    size_t field;        /* index in the schema; for the geometry: that of its image */
    size_t chain;        /* that it comes from */
    enum leat_kind kind; /* ARRAY, or of a value delivered as stored: BYTES, STR, JSON, IMAGE */
    enum leat_dtype dtype;
    bool ragged;    /* the first dimension varies from row to row */
    bool bounded;   /* ... and follows only from making the row: leat_program_ragged_bytes is an upper bound */
    bool open;      /* images of open size: ragged, of so many numbers; not known before the row is made (leat_room) */
    bool instances; /* ... of several masks of such a size, one after the other */
    bool drawn;     /* masks of instances, of shape[1] x shape[2], one for each row of the values of `field` */
    bool on_card;   /* ... of a photo that a card decodes; the output of its chain's sizes has struct leat_card_photo */
    bool sizes;     /* height and width of the images of its chain, int64: for those of open size */
    bool in_place;  /* the field has fixed size: rows come as mapped memory; else as fetched bytes */
    bool keyed;     /* some operator draws random numbers */
    bool grows;     /* an array, and the size of large images between its operators is drawn, or it is made through
                     * lists: leat_program_decode_bytes gives the needs of a row, whose value is never mapped memory */
    bool decodes;   /* the value is decoded: it can be found broken, and is scanned to its end if unchecked */
    bool lenient;   /* ... with warnings, if that is possible */
    bool turns;     /* ... as its EXIF orientation says: all of a turned photo is kept while it is made */
    bool hidden;    /* functions take it, nobody else */
    bool called;    /* it is the result of functions: no chain makes it, and its `field` and `chain` are SIZE_MAX */
    size_t input;   /* ... which take this output, */
    unsigned segment; /* ... in this segment of the program, from 1 on: the chains are segment 0 */
    unsigned ndim;    /* of one row; for a ragged one the first dimension is shape[0] = -1 */
    int64_t shape[LEAT_MAX_DIMS];
    int64_t strides[LEAT_MAX_DIMS]; /* in elements, of one row (a channels_last row is dense but permuted) */
    uint8_t channels;               /* of open images; 0: of a mask, which has no axis for them */
    enum leat_axes { LEAT_PLANES = 0, LEAT_PIXELS, LEAT_CHANNELS_LAST } axes; /* ... and how theirs stand */
    uint64_t row_bytes;   /* dense: bytes of a row; ragged: bytes of one step of the first dimension */
    enum leat_dtype item; /* of sparse rows as they are stored: of their values, */
    int64_t columns;      /* ... and how many columns there are; 0: it is none */
};

/* From fields to outputs: an ordinary chain takes one and gives one. That of a tuple takes and gives several, or one
 * field with its geometry; its rows are made by leat_program_apply_tuple, all outputs of a row at once. */
struct leat_program_chain {
    bool tuple;
    bool keyed; /* some operator draws random numbers */
    size_t n_fields, n_outputs;
    const size_t *fields;  /* [n_fields] indices in the schema, each once */
    const bool *decodes;   /* [n_fields] the value is decoded */
    const size_t *outputs; /* [n_outputs] indices of outputs, rising */
    size_t canvas;         /* of a tuple: the field of the image whose size the others go by; SIZE_MAX: there is none */
    unsigned pieces;       /* samples that a row may be made of: above 1 in the chain of a tuple with Mosaic */
    size_t sizes;          /* the output that says how large images of open size are, or what a card does with the bytes
                            * of each; SIZE_MAX: there are none */
};

/* The columns of a geometry: the part of the decoded image that an output row shows, in its pixels (x, y of the upper
 * left corner, width, height; beyond the image if it is padded), whether that was mirrored (0 or 1), height and width
 * of the decoded image. */
#define LEAT_GEOMETRY_COLUMNS 7

#define LEAT_MAX_SEGMENTS 63

/* The outputs that may end in images of open size: those with "stack"; all, because they are no part of a batch
 * (chain.c); all, because batches have one row. */
enum leat_open { LEAT_OPEN_STACKS = 0, LEAT_OPEN_ALONE, LEAT_OPEN_ROWS };

/* NULL `json` delivers every field that is not derived, as stored. Errors: INVALID (the JSON, an argument), TYPE (names
 * output and operator, and the right type), NOT_FOUND (field), NOMEM. `functions` of the user's, which operators
 * "Native" name by index, may be NULL; the table is copied. */
int leat_program_compile(const struct leat_field *fields, size_t n_fields, const char *json,
                         const struct leat_native *functions, size_t n_functions, enum leat_open open,
                         struct leat_program **out, struct leat_error *error);
void leat_program_free(struct leat_program *program);
size_t leat_program_outputs(const struct leat_program *program);
const struct leat_output *leat_program_output(const struct leat_program *program, size_t output);
size_t leat_program_chains(const struct leat_program *program);
const struct leat_program_chain *leat_program_chain(const struct leat_program *program, size_t chain);
/* Whether sizes are drawn per batch. If they are, or operators are for some epochs, the program is the variant whose
 * rows are the largest; its scratch serves all of them. */
bool leat_program_varies(const struct leat_program *program);
/* Whether batches have different programs: sizes are drawn per batch, or operators are for some epochs. */
bool leat_program_has_variants(const struct leat_program *program);
/* The variant for a batch, by its epoch and the key of its global batch's first row (leat_plan_key); the program itself
 * if it does not vary. Outputs differ in shape and strides alone. It lives as long as the program. */
const struct leat_program *leat_program_of_batch(const struct leat_program *program, uint64_t epoch, uint64_t key);
/* Whether some output is of open size although it does not say "stack" (LEAT_OPEN_ROWS): batches must have one row. */
bool leat_program_has_single_rows(const struct leat_program *program);
/* A hash of the program's computation: operators, arguments, instances, output names. Without calls. */
uint64_t leat_program_hash(const struct leat_program *program);
/* The table of functions that it was compiled with. */
const struct leat_native *leat_program_functions(const struct leat_program *program, size_t *n);

/* faces.c: its outputs as JSON, freed with leat_free (NULL: NOMEM), and a program that has these outputs and computes
 * nothing, for batches that another process makes. FORMAT: the text describes none. */
char *leat_program_faces(const struct leat_program *program);
int leat_program_of_faces(const char *text, struct leat_program **out, struct leat_error *error);

/* The identity of a stored value, for those that share its decoded form (decoded.h): a source of the data set, the
 * sample and the field in it. Source NULL: there is none. */
struct leat_value_id {
    const void *source;
    uint64_t sample;
    uint64_t field;
};

/* One row to make. */
struct leat_row {
    const void *data;            /* the stored value */
    uint64_t length;             /* its bytes */
    uint64_t key;                /* the row's random key (plan/plan.h) */
    int64_t sample;              /* sample id, for functions of the user's */
    struct leat_value_info info; /* of an encoded value; `rows` points to the row index or is NULL */
    struct leat_value_id value;  /* of a value that others may decode, too */
    bool scan_to_end;            /* decode to the end even if the crop does not need it, to learn whether it is whole */
};

/* To decode its value. */
static inline struct leat_decode_request leat_row_request(const struct leat_row *row, const void *wish, bool lenient)
{
    return (struct leat_decode_request){.data = row->data,
                                        .length = row->length,
                                        .form = row->info.form,
                                        .rows = row->info.rows,
                                        .rows_length = row->info.rows ? row->info.rows_length : 0,
                                        .wish = wish,
                                        .lenient = lenient,
                                        .scan_to_end = row->scan_to_end};
}

/* Memory of one thread: about leat_program_scratch_bytes, more for large photos. */
struct leat_scratch *leat_scratch_new(const struct leat_program *program);
void leat_scratch_free(struct leat_scratch *scratch);
uint64_t leat_program_scratch_bytes(const struct leat_program *program);
/* About the most memory that decoding a row takes, with whole images between its operators, or restoring one that is
 * delivered as it came, from the value's header; `piece`: the number of its sample among those of the row. For decoded
 * values, LEAT_DECODE_BYTES of it are in leat_program_scratch_bytes; the excess is given back when the row is made.
 */
uint64_t leat_program_decode_bytes(const struct leat_program *program, size_t output, const struct leat_row *row,
                                   unsigned piece);

/* Makes rows [0, n) of a dense output: row i is written at dst + i * row_bytes, every byte of it. Returns the number
 * made before the first failure (n if none failed); `error` has LEAT_E_DECODE, or LEAT_E_OPERATOR for a function of the
 * user's, and the reason; the caller may go on with the row after it. For rows of an in_place output that does not
 * grow, `data` may be mapped memory: the call then runs inside leat_guarded, and takes no lock and allocates nothing
 * while it touches that; functions of the user's get a copy. */
size_t leat_program_apply(const struct leat_program *program, size_t output, struct leat_scratch *scratch,
                          const struct leat_row *rows, size_t n, void *dst, struct leat_error *error);
/* Whether rows of the output are the bytes of values, as they are stored in their ORIGINAL form. */
bool leat_program_copies(const struct leat_program *program, size_t output);
/* An output that the same call makes beside this one (labels of tokens), or SIZE_MAX. leat_program_apply_both makes
 * both, row i of the other one at `beside` + i * its row_bytes. The other one is_beside, and may be made by itself too.
 */
size_t leat_program_beside(const struct leat_program *program, size_t output);
bool leat_program_is_beside(const struct leat_program *program, size_t output);
size_t leat_program_apply_both(const struct leat_program *program, size_t output, struct leat_scratch *scratch,
                               const struct leat_row *rows, size_t n, void *dst, void *beside,
                               struct leat_error *error);
/* Ragged: the number of bytes that a value of `length` bytes (leat_value_bytes) becomes, and the conversion itself. */
uint64_t leat_program_ragged_bytes(const struct leat_program *program, size_t output, uint64_t length);
/* The same of a value of which `info` is known, and whose stored bytes are `length`: of one that is decoded to an array
 * its size says it. */
uint64_t leat_program_value_bytes(const struct leat_program *program, size_t output, const struct leat_value_info *info,
                                  uint64_t length);
int leat_program_apply_ragged(const struct leat_program *program, size_t output, struct leat_scratch *scratch,
                              const struct leat_row *row, void *dst, struct leat_error *error);
/* The same with the ragged output that is made in the same call (leat_program_beside), into `beside`. */
int leat_program_apply_list(const struct leat_program *program, size_t output, struct leat_scratch *scratch,
                            const struct leat_row *row, void *dst, void *beside, struct leat_error *error);
/* The steps of the last row that one of these made, if its output is bounded. */
uint64_t leat_scratch_steps(const struct leat_scratch *scratch);

/* Bytes of masks of instances, of one row: more of them are a broken sample, on each machine alike. */
#define LEAT_MOST_DRAWN (UINT64_C(1) << 32)

/* Memory for an image of open size, asked for once per row and output, when its size is known. Any other result than
 * LEAT_OK is that of the row. The scratch calls `take` that it was given last. */
struct leat_room {
    int (*take)(struct leat_room *room, size_t output, uint64_t bytes, void **memory, struct leat_error *error);
};
void leat_scratch_give_room(struct leat_scratch *scratch, struct leat_room *room);

/* The most samples that a row is made of, and how many the row of this key is made of: the further ones are for the
 * chains with `pieces` above 1. */
#define LEAT_MAX_PIECES 4
unsigned leat_program_pieces(const struct leat_program *program);
unsigned leat_program_row_pieces(const struct leat_program *program, uint64_t row_key);

/* Makes one row of each output of a tuple's chain. values[i]: of the chain's field i, all with the same key, and if the
 * row is made of several samples, values[p * n_fields + i] of sample p; dst[o]: room
 * for a row of its output o, for a ragged one as many bytes as leat_program_ragged_bytes says of its value; not used
 * for an open one. steps[o]: for a ragged one the steps of its first dimension that were made, at most as many as fit
 * there, else 1. No value may be mapped memory: it is copied first. Errors: DECODE, and *failed is the index in
 * `values` of the one at fault, n_fields if each is good by itself; NOMEM. The answers of leat_scratch_rows and
 * leat_scratch_health are about the value at fault, else the canvas. */
int leat_program_apply_tuple(const struct leat_program *program, size_t chain, struct leat_scratch *scratch,
                             const struct leat_row *values, void *const *dst, uint64_t *steps, size_t *failed,
                             struct leat_error *error);

/* Whether operators are to see whole batches (MixUp), and that: called once the rows of a batch are made and those left
 * out are gone. dst[o]: the start of the values of output o; keys: of the rows. Shapes do not change. Any thread, one
 * at a time per batch; allocates nothing. */
bool leat_program_has_batch_stage(const struct leat_program *program);
void leat_program_finish_batch(const struct leat_program *program, void *const *dst, uint64_t rows,
                               const uint64_t *keys);

/* Time spent by this scratch in each step of each output: steps are fused groups, named as a person would
 * ("Decode", "RandomResizedCrop+RandomHorizontalFlip", "Normalize"). */
struct leat_step_time {
    const char *output, *step;
    uint64_t ns, rows;
};
size_t leat_scratch_times(const struct leat_scratch *scratch, struct leat_step_time *times, size_t room);

/* The store in which rows of photos are looked up before they are decoded, and kept for others: decoded.h. It must stay
 * until another one, or NULL, is given. */
struct leat_decoded;
void leat_scratch_share(struct leat_scratch *scratch, struct leat_decoded *decoded);
/* Whether another thread decodes this value there just now: making a row of it would have to wait for that. */
bool leat_scratch_would_wait(const struct leat_scratch *scratch, const struct leat_value_id *value);

/* The receiver of each step that this scratch has made, as it ends: its name, which lives as long as the program, its
 * start, its duration, and the part of that for decoding, which goes on in between (measured on each photo, then).
 * `step` NULL: nobody. */
struct leat_watch {
    void (*step)(void *user, const char *name, int64_t begin_ns, uint64_t ns, uint64_t decode_ns);
    void *user;
};
void leat_scratch_watch(struct leat_scratch *scratch, struct leat_watch watch);

/* The faults that lenient decoding has passed (leat_decoder_warnings) in values since the last call, and their names,
 * ended by NULL. */
unsigned leat_scratch_warnings(struct leat_scratch *scratch, const char *const **names);

/* The result of decoding the value of the last row, whatever the operators made of it: BROKEN; GOOD, if it was made
 * with `scan_to_end` and would have been found so without leniency, too; else UNCHECKED. */
enum leat_health leat_scratch_health(const struct leat_scratch *scratch);

/* The row index (codec/jpeg/rows.h) that the last row made with `scan_to_end` has left: NULL if it was no photo of the
 * kind that has one, or failed. Valid until the next row is made. */
const uint8_t *leat_scratch_rows(const struct leat_scratch *scratch, size_t *length);

#endif
