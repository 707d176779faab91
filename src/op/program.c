/*
 * Applying a compiled program: rows of one output at a time, each path its loop. The path of a photo is
 * leat_stage_run, once per stage; the paths of arrays are kernels over all rows of the call at once.
 */
#include "op/program.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "kernels/values.h"
#include "op/program_internal.h"

/* The decoder's part of a stage's time is measured on every 16th photo: reading the clock for each row of each photo
 * would cost as much as normalising it. */
#define DETAIL_EVERY 16
/* Steps on one value that take less than so many ns: reading the clock would be a good part of them. */
#define SHORT_NS 1000
#define SHORT_PASSED 16 /* that are not measured behind one, on average */

struct step_time {
    uint64_t ns, rows;
    uint64_t detail_ns, detail_decode_ns; /* of the rows measured in detail */
    uint32_t passed, passes;              /* rows since the last that was measured, and how many there will be */
};

struct leat_scratch {
    const struct leat_program *program;
    struct leat_stage_work work;
    struct step_time *times;
    uint64_t photos, steps; /* steps: of the last row of a bounded list */
    struct leat_watch watch;
    struct leat_tuple_work *tuples;
    uint8_t *native,
        *buffers[2]; /* between functions of the user's and other operators: one block, and its aligned halves */
};

size_t leat_program_outputs(const struct leat_program *program)
{
    return program->n_outputs;
}

size_t leat_program_chains(const struct leat_program *program)
{
    return program->n_chains;
}

const struct leat_program_chain *leat_program_chain(const struct leat_program *program, size_t chain)
{
    return &program->chains[chain].face;
}

struct leat_stage_work *leat_scratch_stages(struct leat_scratch *scratch)
{
    return &scratch->work;
}

struct leat_tuple_work *leat_scratch_tuples(struct leat_scratch *scratch)
{
    return scratch->tuples;
}

const struct leat_output *leat_program_output(const struct leat_program *program, size_t output)
{
    return &program->outputs[output].face;
}

uint64_t leat_program_hash(const struct leat_program *program)
{
    return program->hash;
}

const struct leat_native *leat_program_functions(const struct leat_program *program, size_t *n)
{
    *n = program->n_functions;
    return program->functions;
}

/* ---- scratch ---- */

static size_t count_variants(const struct leat_program *program)
{
    return program->variants ? leat_variants_count(program->variants) : 1;
}

static const struct leat_program *variant_of(const struct leat_program *program, size_t variant)
{
    return program->variants ? leat_variants_get(program->variants, variant) : program;
}

static bool make_buffers(struct leat_scratch *scratch, uint64_t bytes)
{
    uint64_t each = leat_align64(bytes);
    scratch->native = leat_alloc(2 * each + 64);
    if (!scratch->native)
        return false;
    scratch->buffers[0] = scratch->native + (-(uintptr_t)scratch->native & 63);
    scratch->buffers[1] = scratch->buffers[0] + each;
    return true;
}

struct leat_scratch *leat_scratch_new(const struct leat_program *program)
{
    struct leat_scratch *scratch = leat_new(struct leat_scratch);
    if (!scratch)
        return NULL;
    scratch->program = program;
    scratch->work.kernels = program->kernels;
    scratch->times = leat_new_array(program->n_times + 1, sizeof *scratch->times);
    bool good = scratch->times != NULL;
    for (size_t c = 0; good && c < program->n_chains && !scratch->tuples; c++)
        if (program->chains[c].face.tuple)
            good = (scratch->tuples = leat_tuple_work_new(program)) != NULL;
    if (good && program->native_bytes)
        good = make_buffers(scratch, program->native_bytes);
    for (size_t v = 0; good && v < count_variants(program); v++)
        good = leat_program_reserve(variant_of(program, v), &scratch->work);
    if (good)
        return scratch;
    leat_scratch_free(scratch);
    return NULL;
}

void leat_scratch_free(struct leat_scratch *scratch)
{
    if (!scratch)
        return;
    leat_stage_work_destroy(&scratch->work);
    leat_tuple_work_free(scratch->tuples);
    leat_free(scratch->native);
    leat_free(scratch->times);
    leat_free(scratch);
}

uint64_t leat_program_scratch_bytes(const struct leat_program *program)
{
    uint64_t bytes = sizeof(struct leat_scratch) + program->n_times * sizeof(struct step_time), most = 0;
    if (program->decodes)
        bytes += LEAT_DECODE_BYTES;
    if (program->native_bytes)
        bytes += 2 * leat_align64(program->native_bytes) + 64;
    for (size_t v = 0; v < count_variants(program); v++) {
        uint64_t images = leat_program_images_bytes(variant_of(program, v));
        most = images > most ? images : most;
    }
    return bytes + most;
}

unsigned leat_scratch_warnings(struct leat_scratch *scratch, const char *const **names)
{
    unsigned warnings = scratch->work.warnings;
    scratch->work.warnings = 0;
    *names = scratch->work.decoder ? scratch->work.decoder->codec->warning_names : NULL;
    return warnings;
}

enum leat_health leat_scratch_health(const struct leat_scratch *scratch)
{
    return scratch->work.health;
}

const uint8_t *leat_scratch_rows(const struct leat_scratch *scratch, size_t *length)
{
    *length = 0;
    return scratch->work.decoder ? leat_decoder_rows(scratch->work.decoder, length) : NULL;
}

/* ---- the loops ---- */

/* In blocks that stay in the first-level cache. */
void leat_map_elements(const struct leat_compiled *c, enum leat_dtype from, const uint8_t *src, uint8_t *dst,
                       uint64_t n)
{
    enum { BLOCK = 512 };
    if (c->stages[0].dense) {
        leat_stage_store(&c->stages[0], src, n, dst);
        return;
    }
    uint64_t a[BLOCK], b[BLOCK];
    size_t in = leat_dtype_size(from), out = leat_dtype_size(c->out.dtype);
    for (uint64_t done = 0; done < n; done += BLOCK) {
        size_t some = n - done < BLOCK ? (size_t)(n - done) : BLOCK;
        const void *values = src + done * in;
        for (size_t s = 0; s < c->n_stages; s++)
            values = leat_stage_map(&c->stages[s], 0, values, some, a, b);
        memcpy(dst + done * out, values, some * out);
    }
}

static void convert_elements(const struct leat_compiled *c, const void *src, void *dst, uint64_t n)
{
    if (c->convert)
        c->convert(src, dst, n);
    else
        leat_values_convert(c->in.dtype, c->out.dtype, src, dst, n);
}

void leat_scratch_share(struct leat_scratch *scratch, struct leat_decoded *decoded)
{
    scratch->work.decoded = decoded;
}

bool leat_scratch_would_wait(const struct leat_scratch *scratch, const struct leat_value_id *value)
{
    return scratch->work.decoded && leat_decoded_is_busy(scratch->work.decoded, value);
}

void leat_scratch_watch(struct leat_scratch *scratch, struct leat_watch watch)
{
    scratch->watch = watch;
}

/* The time at which a step on one value begins. 0: it is one of many short ones, of which not each is measured. */
static int64_t begin_step(const struct leat_scratch *scratch, const struct step_time *time)
{
    return time->passed < time->passes && !scratch->watch.step ? 0 : leat_clock_ns();
}

/* How many steps pass behind one that took so long: a number that differs, as rows may come in turns. */
static uint32_t passes_behind(uint64_t ns, uint64_t rows)
{
    const uint32_t drawn = (uint32_t)(rows * UINT64_C(0x9e3779b97f4a7c15) >> 32);
    return ns < SHORT_NS ? SHORT_PASSED / 2 + drawn % SHORT_PASSED : 0;
}

/* Counts a step that began at `begin_ns` and has just ended, and tells the watch of it. One that is measured stands for
 * those before it that were not. */
static uint64_t end_step(struct leat_scratch *scratch, struct step_time *time, const char *name, int64_t begin_ns,
                         uint64_t rows, uint64_t decode_ns)
{
    time->rows += rows;
    if (!begin_ns) {
        time->passed++;
        return 0;
    }
    const uint64_t ns = (uint64_t)(leat_clock_ns() - begin_ns);
    time->ns += ns * (1 + time->passed);
    time->passed = 0;
    time->passes = rows == 1 ? passes_behind(ns, time->rows) : 0;
    if (scratch->watch.step)
        scratch->watch.step(scratch->watch.user, name, begin_ns, ns, decode_ns);
    return ns;
}

void leat_scratch_count(struct leat_scratch *scratch, const struct leat_compiled *c, int64_t begin_ns)
{
    struct step_time *time = &scratch->times[c->first_time + leat_compiled_decodes(c)];
    const bool detail = scratch->photos++ % DETAIL_EVERY == 0 || scratch->watch.step;
    const uint64_t decode_ns = detail ? (uint64_t)(leat_clock_ns() - begin_ns) : 0;
    const uint64_t ns = end_step(scratch, time, c->stages->label, begin_ns, 1, decode_ns);
    time->detail_ns += detail ? ns : 0;
    time->detail_decode_ns += decode_ns;
}

/* One photo or image field through its stages; *result: the last one's. */
static int run_stages(const struct leat_compiled *c, struct leat_scratch *scratch, const struct leat_row *row,
                      void *dst, struct leat_image *result, struct leat_error *error)
{
    struct leat_stage_work *work = &scratch->work;
    struct leat_image image, target = {0};
    const struct leat_type *in = c->gather ? &c->gather->out : &c->in;
    bool planar = in->layout == LEAT_LAYOUT_CHW, decodes = leat_compiled_decodes(c);
    if (!decodes) /* read only: the base loses its const in the common type of sources and targets */
        leat_image_packed(&image, in, planar, leat_type_is_open(in) ? row->info.size[0] : (uint32_t)leat_type_width(in),
                          leat_type_is_open(in) ? row->info.size[1] : (uint32_t)leat_type_height(in),
                          (void *)(uintptr_t)row->data);
    int rc = LEAT_OK;
    unsigned buffer = 0;
    bool delivered = false;
    for (size_t s = 0; !rc && s < c->n_stages; s++) {
        if ((delivered && c->stages[s].copies) || leat_stage_skips(&c->stages[s], row->key))
            continue;
        const size_t straight = leat_stages_straight(c->stages, c->n_stages, s, row->key);
        const struct leat_stage *stage = &c->stages[straight];
        struct step_time *time = &scratch->times[c->first_time + decodes + straight];
        const bool delivers = stage->last || stage->delivers || straight != s;
        delivered |= delivers;
        s = straight;
        if (delivers)
            leat_image_packed(&target, &stage->out, stage->planar, (uint32_t)leat_type_width(&stage->out),
                              (uint32_t)leat_type_height(&stage->out), dst);
        work->detail = stage->decode && (scratch->photos++ % DETAIL_EVERY == 0 || scratch->watch.step);
        work->decode_ns = 0;
        int64_t begin = leat_clock_ns();
        rc = leat_stage_run(stage, work, row, s || !decodes ? &image : NULL, &buffer, &target, error);
        const char *name = *stage->label ? stage->label : stage->decode ? "Decode" : "ToLayout";
        uint64_t ns = end_step(scratch, time, name, begin, 1, work->decode_ns);
        if (work->detail) {
            time->detail_ns += ns;
            time->detail_decode_ns += work->decode_ns;
        }
        image = target;
    }
    *result = image; /* without stages, the input */
    return rc;
}

static int apply_image(const struct leat_compiled *c, struct leat_scratch *scratch, const struct leat_row *row,
                       void *dst, struct leat_error *error)
{
    struct leat_image result;
    int rc = run_stages(c, scratch, row, dst, &result, error);
    if (c->face.decodes || c->face.grows)
        leat_stage_work_trim(&scratch->work);
    return rc;
}

void leat_scratch_give_room(struct leat_scratch *scratch, struct leat_room *room)
{
    scratch->work.room = room;
}

bool leat_program_has_single_rows(const struct leat_program *program)
{
    return program->single;
}

int leat_program_apply_part(const struct leat_program *program, size_t output, struct leat_scratch *scratch,
                            const struct leat_row *row, struct leat_image *image, struct leat_error *error)
{
    return run_stages(&program->outputs[output].parts[0], scratch, row, NULL, image, error);
}

int leat_program_apply_open(const struct leat_program *program, size_t output, struct leat_scratch *scratch,
                            const struct leat_row *row, struct leat_image *image, struct leat_error *error)
{
    scratch->work.output = output;
    return run_stages(&program->outputs[output], scratch, row, NULL, image, error);
}

void leat_scratch_trim(struct leat_scratch *scratch)
{
    leat_stage_work_trim(&scratch->work);
}

/* The operators between two functions, for one value: n elements, if it is a list of any length. */
static int apply_part(const struct leat_compiled *part, struct leat_scratch *scratch, const struct leat_row *row,
                      uint64_t n, void *dst, struct leat_error *error)
{
    if (part->path == LEAT_PATH_IMAGE)
        return apply_image(part, scratch, row, dst, error);
    const uint64_t elements = part->elements ? part->elements : n;
    const int64_t begin = begin_step(scratch, &scratch->times[part->first_time]);
    size_t channels = part->path == LEAT_PATH_TURN ? (size_t)leat_type_channels(&part->in) : 0;
    bool planes = part->in.layout == LEAT_LAYOUT_CHW;
    if (channels)
        leat_values_transpose(leat_dtype_size(part->in.dtype), row->data, dst,
                              planes ? channels : part->elements / channels,
                              planes ? part->elements / channels : channels);
    else if (part->path == LEAT_PATH_CONVERT)
        convert_elements(part, row->data, dst, elements);
    else
        leat_map_elements(part, part->in.dtype, row->data, dst, elements);
    end_step(scratch, &scratch->times[part->first_time], channels ? "ToLayout" : "ToDtype", begin, 1, 0);
    return LEAT_OK;
}

bool leat_program_copies(const struct leat_program *program, size_t output)
{
    const struct leat_compiled *c = &program->outputs[output];
    return c->path == LEAT_PATH_COPY && !c->pad_steps && !c->codec;
}

size_t leat_program_beside(const struct leat_program *program, size_t output)
{
    const struct leat_compiled *labels = program->outputs[output].labels;
    return labels ? labels->index : SIZE_MAX;
}

bool leat_program_is_beside(const struct leat_program *program, size_t output)
{
    return program->outputs[output].beside;
}

/* Of a list of *n elements, which becomes the number of those made. `labels`: of the output that is made in the same
 * call, into `beside`; or NULL. */
static int call_native(const struct leat_compiled *part, struct leat_scratch *scratch, const struct leat_row *row,
                       void *dst, const struct leat_use *labels, void *beside, uint64_t *n, struct leat_error *error)
{
    struct step_time *time = &scratch->times[part->first_time + part->n_stages + part->face.decodes];
    const struct leat_use *use = part->native;
    const struct leat_op_class *class = use->op->class;
    const int64_t begin = begin_step(scratch, time);
    int rc = labels ? class->call_both(use, labels, part->face.name, row, row->data, row->length, dst, beside, error)
             : class->call ? class->call(use, part->face.name, row, row->data, row->length, dst, error)
                           : class->call_some(use, part->face.name, row, row->data, row->length, dst, n, error);
    if (labels || class->call)
        *n = leat_use_count(use, *n);
    end_step(scratch, time, class->label(use->op->args), begin, 1, 0);
    return rc;
}

/* A value in the fast form that is not decoded: the bytes that came, to be ended with leat_free. A fault of its bytes
 * is the sample's fault. */
static int restore(const struct leat_compiled *c, const struct leat_row *row, uint8_t **out, size_t *length,
                   struct leat_error *error)
{
    *out = NULL;
    *length = 0;
    int rc = c->codec->restore(row->data, row->length, out, length, error);
    if (rc != LEAT_E_CORRUPT)
        return rc;
    if (error)
        error->code = LEAT_E_DECODE;
    return LEAT_E_DECODE;
}

/* One value through parts and functions: in turns through the two buffers, the last step into `dst`, or if that is
 * NULL into a buffer, too. *result: the last step's, of a list of scratch->steps elements. `beside`: where the labels
 * of a list go, or NULL. */
static int run_native(const struct leat_compiled *c, struct leat_scratch *scratch, const struct leat_row *given,
                      void *dst, void *beside, const void **result, struct leat_error *error)
{
    struct leat_row row = *given;                     /* the input of the next step */
    uint64_t n = row.length / leat_type_step(&c->in); /* of a list */
    unsigned turn = 0;
    int rc = LEAT_OK;
    for (size_t k = 0; !rc && k < c->n_parts; k++) {
        const struct leat_compiled *part = &c->parts[k];
        uint8_t *to = part->native || !dst ? scratch->buffers[turn] : dst;
        if (part->idle && !k && c->face.in_place && !leat_compiled_is_list(c) && part->native)
            memcpy(to, row.data, row.length = leat_type_bytes(&part->in)); /* bytes that may fault are copied */
        else if (part->idle)
            to = NULL;
        else if (!(rc = apply_part(part, scratch, &row, n, to, error)))
            row.length = leat_value_size(&part->out, n);
        if (to) {
            row.data = to;
            turn ^= 1;
        }
        if (rc || !part->native)
            break;
        bool end = k + 2 == c->n_parts && c->parts[k + 1].idle;
        to = end && dst ? dst : scratch->buffers[turn];
        rc = call_native(part, scratch, &row, to, end && beside ? c->labels->parts[k].native : NULL, beside, &n, error);
        row.data = to;
        if (end)
            break;
        row.length = leat_value_size(&part->native->out, n);
        turn ^= 1;
    }
    *result = row.data;
    scratch->steps = n;
    return rc;
}

/* A list of any length, as it is or as the first steps of a row whose length PadTo has fixed. */
static int run_list(const struct leat_compiled *c, struct leat_scratch *scratch, const struct leat_row *given,
                    void *dst, void *beside, struct leat_error *error)
{
    struct leat_row row = *given;
    const uint64_t most = leat_compiled_count(c, row.length / leat_type_step(&c->in));
    const bool longer = c->pad_steps && most > c->pad_steps;
    const void *result;
    int rc = longer && !c->bounded ? leat_pad_check(c, most, error) : LEAT_OK;
    row.data = row.length ? row.data : scratch->buffers[0]; /* an empty value may be NULL */
    rc = rc ? rc : run_native(c, scratch, &row, longer ? NULL : dst, beside, &result, error);
    if (rc || !c->pad_steps)
        return rc;
    const uint64_t n = c->bounded ? scratch->steps : most, kept = n < c->pad_steps ? n : c->pad_steps;
    rc = leat_pad_check(c, n, error);
    if (!rc && longer)
        memcpy(dst, result, kept * (c->face.row_bytes / c->pad_steps));
    if (!rc)
        leat_pad_fill(c, kept, dst);
    return rc;
}

/* The same, in buffers of its own if values between functions are longer than the thread's. */
static int apply_list(const struct leat_compiled *c, struct leat_scratch *scratch, const struct leat_row *row,
                      void *dst, void *beside, struct leat_error *error)
{
    const uint64_t longest = leat_list_bytes(c, row->length);
    if (row->length % leat_type_step(&c->in))
        return leat_fail(error, LEAT_E_DECODE,
                         "A value of output '%s' has %llu bytes, which is no multiple of the %llu bytes of a number.",
                         c->face.name, (unsigned long long)row->length, (unsigned long long)leat_type_step(&c->in));
    if (longest <= scratch->program->native_bytes)
        return run_list(c, scratch, row, dst, beside, error);
    uint8_t *const usual[] = {scratch->native, scratch->buffers[0], scratch->buffers[1]};
    int rc = make_buffers(scratch, longest)
                 ? run_list(c, scratch, row, dst, beside, error)
                 : leat_fail(error, LEAT_E_NOMEM, "No memory for a value of %llu bytes.", (unsigned long long)longest);
    leat_free(scratch->native);
    scratch->native = usual[0];
    scratch->buffers[0] = usual[1];
    scratch->buffers[1] = usual[2];
    return rc;
}

static int apply_native(const struct leat_compiled *c, struct leat_scratch *scratch, const struct leat_row *row,
                        void *dst, struct leat_error *error)
{
    const void *result;
    if (leat_compiled_is_list(c))
        return apply_list(c, scratch, row, dst, NULL, error);
    if (row->info.form != LEAT_FORM_FAST || c->parts[0].face.decodes)
        return run_native(c, scratch, row, dst, NULL, &result, error);
    struct leat_row restored = *row;
    uint8_t *bytes;
    size_t length;
    int rc = restore(c, row, &bytes, &length, error);
    if (rc)
        return rc;
    restored.data = bytes;
    restored.length = length;
    rc = run_native(c, scratch, &restored, dst, NULL, &result, error);
    leat_free(bytes);
    return rc;
}

/* Rows that are some kilobytes apart anywhere in a mapping: the next one is asked for while this one is made. */
static inline void prefetch_row(const struct leat_row *rows, size_t i, size_t n, uint64_t bytes)
{
    if (i + 1 >= n)
        return;
    const uint8_t *p = rows[i + 1].data;
    for (uint64_t k = 0; k < bytes && k < 1024; k += 64)
        __builtin_prefetch(p + k);
}

/* Rows that follow each other in memory, and whose numbers are all converted in the same way. */
static size_t neighbours(const struct leat_compiled *c, const struct leat_row *rows, size_t n)
{
    size_t run = 1;
    if (c->path != LEAT_PATH_CONVERT && c->stages[0].passes > 1)
        return run;
    while (run < n && (const uint8_t *)rows[run].data == (const uint8_t *)rows[0].data + run * c->in_bytes)
        run++;
    return run;
}

static int check_steps(const struct leat_compiled *c, const struct leat_row *row, struct leat_error *error)
{
    if (c->in_bytes ? row->length % c->in_bytes : row->length)
        return leat_fail(
            error, LEAT_E_DECODE,
            "A value of output '%s' has %llu bytes, which is no multiple of the %llu bytes of one of its rows.",
            c->face.name, (unsigned long long)row->length, (unsigned long long)c->in_bytes);
    return LEAT_OK;
}

int leat_pad_check(const struct leat_compiled *c, uint64_t n, struct leat_error *error)
{
    if (n > c->pad_steps && !c->pad_cuts)
        return leat_fail(
            error, LEAT_E_DECODE,
            "'%s' has %llu rows, and PadTo makes %llu: give it a larger n, or say cut=True to drop what is above",
            c->field, (unsigned long long)n, (unsigned long long)c->pad_steps);
    return LEAT_OK;
}

void leat_pad_fill(const struct leat_compiled *c, uint64_t n, uint8_t *dst)
{
    const size_t size = leat_dtype_size(c->out.dtype);
    for (uint64_t i = n * c->elements; i < c->pad_steps * c->elements; i++)
        memcpy(dst + i * size, c->pad_fill, size);
}

int leat_padded_row(const struct leat_compiled *c, uint64_t key, const void *data, uint64_t n, void *dst,
                    struct leat_error *error)
{
    uint64_t kept = n < c->pad_steps ? n : c->pad_steps, made = kept * c->elements;
    int rc = leat_pad_check(c, n, error);
    if (rc)
        return rc;
    if (c->path == LEAT_PATH_COPY && made)
        memcpy(dst, data, made * leat_dtype_size(c->out.dtype));
    else if (c->path == LEAT_PATH_CONVERT)
        convert_elements(c, data, dst, made);
    else if (c->path == LEAT_PATH_MAP)
        leat_map_elements(c, c->in.dtype, data, dst, made);
    leat_pad_fill(c, kept, dst);
    return LEAT_OK;
}

/* A value that is decoded to an array. */
static int apply_slices(const struct leat_compiled *c, struct leat_scratch *scratch, const struct leat_row *row,
                        void *dst, struct leat_error *error)
{
    int64_t begin = leat_clock_ns();
    int rc = leat_slices_apply(c, &scratch->work, row, dst, error);
    end_step(scratch, &scratch->times[c->first_time], "Decode", begin, 1, 0);
    return rc;
}

/* A value whose length is not that of its row. */
static int apply_padded(const struct leat_compiled *c, const struct leat_row *row, void *dst, struct leat_error *error)
{
    int rc = check_steps(c, row, error);
    return rc ? rc : leat_padded_row(c, row->key, row->data, row->length / c->in_bytes, dst, error);
}

size_t leat_program_apply(const struct leat_program *program, size_t output, struct leat_scratch *scratch,
                          const struct leat_row *rows, size_t n, void *dst, struct leat_error *error)
{
    const struct leat_compiled *c = &program->outputs[output];
    uint64_t row_bytes = c->face.row_bytes;
    uint8_t *to = dst;
    if (c->path == LEAT_PATH_IMAGE || c->path == LEAT_PATH_NATIVE || c->path == LEAT_PATH_SLICES) {
        for (size_t i = 0; i < n; i++)
            if ((c->path == LEAT_PATH_IMAGE    ? apply_image
                 : c->path == LEAT_PATH_NATIVE ? apply_native
                                               : apply_slices)(c, scratch, &rows[i], to + i * row_bytes, error))
                return i;
        return n;
    }
    int64_t begin = leat_clock_ns();
    for (size_t i = 0; i < n && c->pad_steps; i++)
        if (apply_padded(c, &rows[i], to + i * row_bytes, error))
            return i;
    if (c->path == LEAT_PATH_COPY)
        program->kernels->gather(&rows->data, sizeof *rows, n, row_bytes, dst);
    for (size_t i = 0, run; i < n && c->path != LEAT_PATH_COPY && !c->pad_steps; i += run) {
        run = neighbours(c, rows + i, n - i);
        prefetch_row(rows, i + run - 1, n, c->in_bytes);
        if (c->path == LEAT_PATH_CONVERT)
            convert_elements(c, rows[i].data, to + i * row_bytes, run * c->elements);
        else
            leat_map_elements(c, c->in.dtype, rows[i].data, to + i * row_bytes, run * c->elements);
    }
    end_step(scratch, &scratch->times[c->first_time], "copy", begin, n, 0);
    return n;
}

size_t leat_program_apply_both(const struct leat_program *program, size_t output, struct leat_scratch *scratch,
                               const struct leat_row *rows, size_t n, void *dst, void *beside, struct leat_error *error)
{
    const struct leat_compiled *c = &program->outputs[output], *part = c->parts;
    const struct leat_op_class *class = part->native->op->class;
    struct step_time *time = &scratch->times[part->first_time + part->n_stages + part->face.decodes];
    const int64_t begin = leat_clock_ns();
    size_t i = 0;
    for (; i < n; i++) { /* nothing is done before or after the function, which is the library's */
        prefetch_row(rows, i, n, leat_type_bytes(&c->in));
        if (class->call_both(part->native, c->labels->parts->native, c->face.name, &rows[i], rows[i].data,
                             rows[i].length, (uint8_t *)dst + i * c->face.row_bytes,
                             (uint8_t *)beside + i * c->labels->face.row_bytes, error))
            break;
    }
    end_step(scratch, time, class->label(part->native->op->args), begin, i + (i < n), 0);
    return i;
}

uint64_t leat_program_ragged_bytes(const struct leat_program *program, size_t output, uint64_t length)
{
    const struct leat_compiled *c = &program->outputs[output];
    return c->in_bytes ? leat_compiled_count(c, length / c->in_bytes) * c->face.row_bytes : 0;
}

uint64_t leat_program_value_bytes(const struct leat_program *program, size_t output, const struct leat_value_info *info,
                                  uint64_t length)
{
    const struct leat_compiled *c = &program->outputs[output];
    return c->path == LEAT_PATH_SLICES ? info->size[0] * c->face.row_bytes
                                       : leat_program_ragged_bytes(program, output, leat_value_bytes(info, length));
}

/* A value in the fast form that is delivered as it came. */
static int apply_restored(const struct leat_compiled *c, const struct leat_row *row, void *dst,
                          struct leat_error *error)
{
    uint8_t *bytes;
    size_t length;
    uint64_t said = leat_value_bytes(&row->info, row->length);
    int rc = restore(c, row, &bytes, &length, error);
    if (!rc && length != said)
        rc = leat_fail(error, LEAT_E_DECODE,
                       "The value had %zu bytes and not the %llu that its index says: pack the file again.", length,
                       (unsigned long long)said);
    else if (!rc)
        memcpy(dst, bytes, length);
    leat_free(bytes);
    return rc;
}

int leat_program_apply_ragged(const struct leat_program *program, size_t output, struct leat_scratch *scratch,
                              const struct leat_row *row, void *dst, struct leat_error *error)
{
    const struct leat_compiled *c = &program->outputs[output];
    int rc = c->path == LEAT_PATH_SLICES ? apply_slices(c, scratch, row, dst, error) : check_steps(c, row, error);
    if (rc || c->path == LEAT_PATH_SLICES)
        return rc;
    if (c->path == LEAT_PATH_NATIVE)
        return apply_native(c, scratch, row, dst, error);
    scratch->steps = c->in_bytes ? row->length / c->in_bytes : 0; /* bounded are then other variants of the program */
    const int64_t begin = begin_step(scratch, &scratch->times[c->first_time]);
    uint64_t n = row->length / leat_dtype_size(c->in.dtype);
    if (row->info.form == LEAT_FORM_FAST)
        rc = apply_restored(c, row, dst, error);
    else if (c->path == LEAT_PATH_COPY)
        memcpy(dst, row->length ? row->data : dst, row->length);
    else if (c->path == LEAT_PATH_CONVERT)
        convert_elements(c, row->data, dst, n);
    else
        leat_map_elements(c, c->in.dtype, row->data, dst, n);
    end_step(scratch, &scratch->times[c->first_time], "copy", begin, 1, 0);
    return rc;
}

int leat_program_apply_list(const struct leat_program *program, size_t output, struct leat_scratch *scratch,
                            const struct leat_row *row, void *dst, void *beside, struct leat_error *error)
{
    return apply_list(&program->outputs[output], scratch, row, dst, beside, error);
}

uint64_t leat_scratch_steps(const struct leat_scratch *scratch)
{
    return scratch->steps;
}

/* ---- times ---- */

static size_t add_stage_times(const struct leat_scratch *scratch, const struct leat_compiled *c,
                              struct leat_step_time *times, size_t used, size_t room)
{
    const struct step_time *t = &scratch->times[c->first_time];
    for (size_t s = 0; s < c->n_stages; s++) {
        const struct leat_stage *stage = &c->stages[s];
        const struct step_time *st = &t[s + leat_compiled_decodes(c)];
        uint64_t decode =
            st->detail_ns ? (uint64_t)((double)st->ns * (double)st->detail_decode_ns / (double)st->detail_ns) : 0;
        if (stage->decode && used < room)
            times[used++] = (struct leat_step_time){c->face.name, "Decode", decode, st->rows};
        if (used < room)
            times[used++] = (struct leat_step_time){c->face.name, *stage->label ? stage->label : "ToLayout",
                                                    st->ns - decode, st->rows};
    }
    return used;
}

static size_t variant_times(const struct leat_scratch *scratch, const struct leat_program *program,
                            struct leat_step_time *times, size_t room)
{
    size_t used = 0;
    for (size_t i = 0; i < program->n_outputs; i++) {
        const struct leat_compiled *c = &program->outputs[i];
        const struct step_time *t = &scratch->times[c->first_time];
        if (c->face.called)
            continue;
        const bool slices = c->path == LEAT_PATH_SLICES;
        if ((slices || !c->n_stages) && !c->n_parts && used < room)
            times[used++] = (struct leat_step_time){c->face.name, slices ? "Decode" : "copy", t->ns, t->rows};
        if (!slices)
            used = add_stage_times(scratch, c, times, used, room);
        for (size_t k = 0; k < c->n_parts; k++) {
            const struct leat_compiled *part = &c->parts[k];
            used = add_stage_times(scratch, part, times, used, room);
            if (part->path == LEAT_PATH_TURN && used < room) /* the last part: it has this place for itself */
                times[used++] = (struct leat_step_time){c->face.name, "ToLayout", scratch->times[part->first_time].ns,
                                                        scratch->times[part->first_time].rows};
            t = &scratch->times[part->first_time + part->n_stages + part->face.decodes];
            if (part->native && used < room)
                times[used++] = (struct leat_step_time){
                    c->face.name, part->native->op->class->label(part->native->op->args), t->ns, t->rows};
        }
    }
    return used;
}

size_t leat_scratch_times(const struct leat_scratch *scratch, struct leat_step_time *times, size_t room)
{
    const struct leat_variants *v = scratch->program->variants;
    if (!v)
        return variant_times(scratch, scratch->program, times, room);
    size_t used = 0, each = leat_variants_count(v) / leat_variants_phases(v);
    for (size_t phase = 0; phase < leat_variants_phases(v); phase++) { /* steps of one name are one */
        size_t n = variant_times(scratch, leat_variants_get(v, phase * each), times + used, room - used), begin = used;
        for (size_t i = begin; i < begin + n; i++) {
            size_t same = 0;
            while (same < begin &&
                   (strcmp(times[same].output, times[i].output) || strcmp(times[same].step, times[i].step)))
                same++;
            if (same == begin && times[i].rows) {
                times[used++] = times[i];
            } else if (same < begin) {
                times[same].ns += times[i].ns;
                times[same].rows += times[i].rows;
            }
        }
    }
    return used;
}
