/*
 * Chains outside of a loader: a program of one output over one field, and the scratch of the one thread that uses it.
 * Each result is in memory of its own, because nobody knows beforehand how large an image of open size is.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "op/program_internal.h"

struct leat_chain {
    struct leat_program *program;
    const struct leat_compiled *compiled;
    struct leat_scratch *scratch;
    struct leat_chain_result result;
    struct leat_move *moves; /* [n_aims] of the value */
};

static void describe(const struct leat_compiled *c, struct leat_chain_result *r)
{
    const struct leat_output *face = &c->face;
    const struct leat_type *t = &c->out;
    r->kind = face->kind;
    r->dtype = face->dtype;
    r->ndim = face->ndim;
    memcpy(r->shape, face->shape, sizeof r->shape);
    r->layout = t->layout;
    if (!c->n_uses || !leat_type_is_image(t))
        goto strides;
    r->layout = t->ask == LEAT_ASK_NHWC ? LEAT_LAYOUT_HWC : LEAT_LAYOUT_CHW;
    r->open = leat_type_height(t) < 0 || leat_type_width(t) < 0;
    if (r->open && t->ask == LEAT_ASK_CHANNELS_LAST) { /* strides say nothing if sides are open: the layout is that of
                                                        * the memory */
        r->layout = LEAT_LAYOUT_HWC;
        r->shape[0] = r->shape[1] = -1;
        r->shape[2] = leat_type_channels(t);
    }
strides:
    if (!r->open)
        memcpy(r->strides, face->strides, sizeof r->strides);
}

int leat_chain_open(const struct leat_field *field, const char *program, const struct leat_native *functions,
                    size_t n_functions, struct leat_chain **out, struct leat_error *error)
{
    *out = NULL;
    struct leat_chain *chain = leat_new(struct leat_chain);
    if (!chain)
        return leat_fail(error, LEAT_E_NOMEM, "No memory for a chain.");
    int rc = leat_program_compile(field, 1, program, functions, n_functions, LEAT_OPEN_ALONE, &chain->program, error);
    if (!rc && leat_program_outputs(chain->program) != 1)
        rc = leat_fail(error, LEAT_E_INVALID, "A chain is a program of one output, not of %zu.",
                       leat_program_outputs(chain->program));
    if (!rc && !(chain->scratch = leat_scratch_new(chain->program)))
        rc = leat_fail(error, LEAT_E_NOMEM, "No memory for a chain.");
    if (!rc && !(chain->moves = leat_new_array(chain->program->n_aims + 1, sizeof *chain->moves)))
        rc = leat_fail(error, LEAT_E_NOMEM, "No memory for a chain.");
    if (rc) {
        leat_chain_free(chain);
        return rc;
    }
    chain->compiled = &chain->program->outputs[0];
    describe(chain->compiled, &chain->result);
    chain->result.moves = chain->program->n_aims * sizeof *chain->moves;
    *out = chain;
    return LEAT_OK;
}

void leat_chain_free(struct leat_chain *chain)
{
    if (!chain)
        return;
    leat_scratch_free(chain->scratch);
    leat_free(chain->moves);
    leat_program_free(chain->program);
    leat_free(chain);
}

void leat_chain_describe(const struct leat_chain *chain, struct leat_chain_result *out)
{
    *out = chain->result;
}

uint64_t leat_chain_bytes(const struct leat_chain *chain, uint64_t length)
{
    const struct leat_output *face = &chain->compiled->face;
    return face->ragged && !face->bounded ? leat_program_ragged_bytes(chain->program, 0, length) : 0;
}

/* Memory for the result; one byte if there is none, so that the value owns something. */
static int make_room(struct leat_value *out, uint64_t bytes, struct leat_error *error)
{
    out->length = bytes;
    out->data = out->owned = leat_alloc(bytes ? bytes : 1);
    return out->data
               ? LEAT_OK
               : leat_fail(error, LEAT_E_NOMEM, "No memory for a value of %llu bytes.", (unsigned long long)bytes);
}

static int apply_dense(struct leat_chain *chain, const struct leat_row *row, struct leat_value *out,
                       struct leat_error *error)
{
    const struct leat_output *face = &chain->compiled->face;
    uint64_t wanted = leat_type_bytes(&chain->compiled->in);
    if (wanted != UINT64_MAX && row->length != wanted)
        return leat_fail(error, LEAT_E_INVALID, "a value of output '%s' has %llu bytes, and its type %llu", face->name,
                         (unsigned long long)row->length, (unsigned long long)wanted);
    int rc = make_room(out, face->row_bytes, error);
    if (!rc && leat_program_apply(chain->program, 0, chain->scratch, row, 1, out->owned, error) < 1)
        rc = error && error->code ? error->code : LEAT_E_DECODE;
    return rc;
}

/* Several images of one, or operators that draw samples together: a tuple of one (parse_output). */
static int apply_gathered(struct leat_chain *chain, const struct leat_row *row, struct leat_value *out,
                          struct leat_error *error)
{
    const struct leat_compiled_chain *only = &chain->program->chains[0];
    if (only->face.pieces > 1)
        return leat_fail(error, LEAT_E_INVALID, "output '%s' is made of several samples, and a chain takes one value",
                         chain->compiled->face.name);
    uint64_t steps[1];
    size_t failed;
    void *dst[1];
    int rc = make_room(out, chain->compiled->face.row_bytes, error);
    dst[0] = out->owned;
    return rc ? rc : leat_program_apply_tuple(chain->program, 0, chain->scratch, row, dst, steps, &failed, error);
}

static int apply_ragged(struct leat_chain *chain, const struct leat_row *row, struct leat_value *out,
                        struct leat_error *error)
{
    uint64_t bytes = leat_program_value_bytes(chain->program, 0, &row->info, row->length),
             step = chain->compiled->face.row_bytes;
    int rc = make_room(out, bytes, error);
    if (!rc)
        rc = leat_program_apply_ragged(chain->program, 0, chain->scratch, row, out->owned, error);
    if (!rc && chain->compiled->face.bounded)
        out->length = bytes = leat_scratch_steps(chain->scratch) * step;
    out->shape[0] = step ? (int64_t)(bytes / step) : 0;
    return rc;
}

static int apply_open(struct leat_chain *chain, const struct leat_row *row, struct leat_value *out,
                      struct leat_error *error)
{
    struct leat_image image;
    int rc = leat_program_apply_open(chain->program, 0, chain->scratch, row, &image, error);
    if (!rc)
        rc = make_room(out, (uint64_t)image.w * image.h * image.channels * leat_dtype_size(out->dtype), error);
    if (!rc) {
        bool last = chain->result.layout == LEAT_LAYOUT_HWC; /* packed, and in the requested order */
        memcpy(out->owned, image.base, out->length);
        const bool plane = out->ndim == 2; /* a mask has no axis for its one channel */
        out->shape[0] = last || plane ? image.h : image.channels;
        out->shape[1] = last || plane ? image.w : image.h;
        out->shape[2] = plane ? 0 : last ? image.channels : image.w;
    }
    leat_scratch_trim(chain->scratch);
    return rc;
}

int leat_chain_apply(struct leat_chain *chain, const void *data, uint64_t length, uint64_t key, int64_t sample,
                     struct leat_value *out, struct leat_error *error)
{
    if (!chain->program->n_aims)
        return leat_chain_apply_image(chain, data, length, 0, 0, NULL, 0, key, sample, out, error);
    memset(out, 0, sizeof *out);
    return leat_fail(error, LEAT_E_INVALID, "output '%s' is drawn by boxes, which a chain for single values lacks",
                     chain->compiled->face.name);
}

/* Whether an image agrees with its type and the moves. */
static int check_image(const struct leat_chain *chain, uint64_t length, uint32_t height, uint32_t width,
                       const void *moves, uint64_t n_moves, struct leat_error *error)
{
    const struct leat_type *in = &chain->compiled->in;
    if (moves && n_moves != chain->result.moves)
        return leat_fail(error, LEAT_E_INVALID, "there are moves for other operators than those of output '%s'",
                         chain->compiled->face.name);
    if (leat_type_is_open(in) &&
        (!height || !width || height > LEAT_MAX_SIDE || width > LEAT_MAX_SIDE ||
         length != (uint64_t)height * width * (uint64_t)leat_type_channels(in) * leat_dtype_size(in->dtype)))
        return leat_fail(error, LEAT_E_INVALID, "an image of output '%s' has %llu bytes, which are not %u x %u pixels",
                         chain->compiled->face.name, (unsigned long long)length, width, height);
    return LEAT_OK;
}

/* The facts of an encoded value, in whatever form a loader delivers it. The row has room for an array by its size; the
 * size of an image follows from decoding it. */
static int find_facts(const struct leat_codec *codec, const void *data, uint64_t length, struct leat_value_info *info,
                      struct leat_error *error)
{
    struct leat_value raw = {.data = data, .length = length};
    const enum leat_form form = codec->form_of ? codec->form_of(data, length) : LEAT_FORM_ORIGINAL;
    int rc = LEAT_OK;
    if (!codec->image && form == LEAT_FORM_ORIGINAL)
        rc = codec->probe(data, length, info, error);
    else if (!codec->image && !(rc = codec->view(&raw, error)))
        info->size[0] = (uint32_t)raw.shape[0];
    info->form = (uint8_t)form;
    return rc;
}

int leat_chain_apply_image(struct leat_chain *chain, const void *data, uint64_t length, uint32_t height, uint32_t width,
                           const void *moves, uint64_t n_moves, uint64_t key, int64_t sample, struct leat_value *out,
                           struct leat_error *error)
{
    struct leat_error unwanted;
    struct leat_row row = {.data = data, .length = length, .key = key, .sample = sample, .scan_to_end = true};
    memset(out, 0, sizeof *out);
    int rc = check_image(chain, length, height, width, moves, n_moves, error);
    if (rc)
        return rc;
    if (leat_type_is_open(&chain->compiled->in)) {
        row.info.size[1] = height;
        row.info.size[0] = width;
    }
    if (moves)
        memcpy(chain->moves, moves, n_moves);
    leat_scratch_stages(chain->scratch)->aims = moves ? chain->moves : NULL;
    const struct leat_codec *codec = leat_codec_of(chain->compiled->in.kind);
    if (codec && (rc = find_facts(codec, data, length, &row.info, error)))
        return rc;
    out->dtype = chain->result.dtype;
    out->ndim = chain->result.ndim;
    memcpy(out->shape, chain->result.shape, sizeof out->shape);
    bool ragged = chain->compiled->face.ragged;
    rc = (chain->compiled->gather ? apply_gathered
          : chain->result.open    ? apply_open
          : ragged                ? apply_ragged
                                  : apply_dense)(chain, &row, out, error ? error : &unwanted);
    if (rc)
        leat_value_clear(out);
    return rc;
}
