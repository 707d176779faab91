/*
 * Masks of instances (codec/shapes.h) in the chain of a tuple. Each is drawn as large as the image of its row, as a
 * photo of pixels, and goes through the stages of a mask, so that every operator moves it as it moves those. Only the
 * instances that are left are drawn, and only for an output that was requested. As many rows as there are boxes (or
 * steps of another array): by these the output is sized before the masks are read.
 */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/role.h"
#include "codec/photo/raw.h"
#include "codec/shapes.h"
#include "op/tuple_internal.h"

static int misfit(const struct leat_compiled *c, const char *why, struct leat_error *error)
{
    return leat_fail(error, LEAT_E_TYPE, "Masks of instances in output '%s' %s.", c->face.name, why);
}

/* The field with as many rows: boxes, or else the first array of varying length. */
static const struct leat_compiled *find_companion(const struct leat_program *program,
                                                  const struct leat_compiled_chain *chain)
{
    const struct leat_compiled *found = NULL;
    for (size_t i = 0; i < chain->face.n_fields; i++) {
        const struct leat_compiled *c = leat_tuple_member(program, chain, i);
        if (c->pixels || c->in.kind != LEAT_KIND_ARRAY || !c->in.ndim || c->in.shape[0] >= 0)
            continue;
        if (!found || (leat_role_is_boxes(c->role) && !leat_role_is_boxes(found->role)))
            found = c;
    }
    return found;
}

static int take_pad(const struct leat_compiled_chain *chain, struct leat_compiled *c, struct leat_error *error)
{
    int rc = LEAT_OK;
    for (size_t k = 0; !rc && k < chain->n_uses; k++)
        if (chain->uses[k].op->class->pad)
            rc = leat_compiled_pad(c, chain->uses[k].op, error);
    return rc;
}

/* Masks of open size are numbers as images of open size are, of several masks. Each is made between stages and copied.
 */
static void settle_open(struct leat_compiled *c)
{
    leat_stages_last(c->stages, c->n_stages)->open = false;
    c->face.instances = true;
}

int leat_instances_settle(const struct leat_program *program, const struct leat_compiled_chain *chain,
                          struct leat_compiled *c, struct leat_error *error)
{
    const struct leat_compiled *with = find_companion(program, chain);
    struct leat_output *face = &c->face;
    if (!with)
        return misfit(c, "need boxes, or another array with a row for each, in their tuple", error);
    c->stored = face->field;
    face->field = with->face.field;
    c->in_bytes = with->in_bytes;
    int rc = take_pad(chain, c, error);
    if (rc)
        return rc;
    if (face->open) {
        settle_open(c);
        return LEAT_OK;
    }
    face->drawn = true;
    face->ndim = 3;
    memmove(face->shape + 1, face->shape, 2 * sizeof *face->shape);
    memmove(face->strides + 1, face->strides, 2 * sizeof *face->strides);
    face->shape[0] = -1;
    face->strides[0] = (int64_t)face->row_bytes;
    face->ragged = !c->pad_steps;
    face->bounded = face->ragged && (c->follows || c->gathers);
    if (!c->pad_steps)
        return LEAT_OK;
    face->shape[0] = (int64_t)c->pad_steps;
    if (!leat_mul_u64(face->row_bytes, c->pad_steps, &face->row_bytes) || face->row_bytes > UINT64_C(1) << 40)
        return leat_fail(error, LEAT_E_INVALID, "A row of output '%s' has more than 2^40 bytes.", face->name);
    return LEAT_OK;
}

int leat_instances_count(const struct leat_row *value, uint64_t *n, struct leat_error *error)
{
    struct leat_shapes shapes;
    int rc = leat_shapes_open(value->data, (size_t)value->length, &shapes, error);
    *n = shapes.n;
    return rc;
}

static int draw(struct leat_walk *walk, size_t member, unsigned sample, const uint32_t *which, uint64_t n,
                leat_instance_fn use, void *context, struct leat_error *error)
{
    const struct leat_row *value = &walk->values[sample * walk->chain->face.n_fields + member];
    const uint32_t w = walk->samples.w[sample], h = walk->samples.h[sample];
    const size_t bytes = LEAT_RAW_HEADER + (size_t)w * h;
    const struct leat_raw_photo photo = {.width = w, .height = h, .channels = 1, .orientation = 1};
    struct leat_grown *drawn = &walk->work->drawn;
    struct leat_shapes shapes;
    int rc = leat_shapes_open(value->data, (size_t)value->length, &shapes, error);
    if (!rc && !leat_grown_room(drawn, bytes + LEAT_DECODE_PADDING))
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory to draw a mask");
    if (rc)
        return rc;
    leat_raw_photo_put(drawn->data, &photo);
    const struct leat_row row = {
        .data = drawn->data,
        .length = bytes,
        .key = walk->samples.keys[sample],
        .sample = value->sample,
        .info = {.size = {w, h}, .channels = 1, .health = LEAT_HEALTH_GOOD, .form = LEAT_FORM_RAW}};
    for (uint64_t i = 0, k = 0; k < n && !rc; i++) {
        const uint8_t *record;
        size_t length;
        rc = leat_shapes_next(&shapes, &record, &length, error);
        if (rc || i != (which[k] & ((1u << LEAT_INSTANCE_BITS) - 1)))
            continue;
        rc = leat_shapes_draw(&shapes, record, length, w, h, drawn->data + LEAT_RAW_HEADER, error);
        rc = rc ? rc : use(context, k, &row, error);
        k++;
    }
    return rc;
}

/* The image's decoder is asked about it afterwards: masks have decoders of their own. */
int leat_instances_draw(struct leat_walk *walk, struct leat_scratch *scratch, size_t member, unsigned sample,
                        const uint32_t *which, uint64_t n, leat_instance_fn use, void *context,
                        struct leat_error *error)
{
    struct leat_stage_work *stages = leat_scratch_stages(scratch);
    const struct leat_decoders decoders = stages->decoders;
    struct leat_decoder *decoder = stages->decoder;
    const enum leat_health health = stages->health;
    const unsigned warnings = stages->warnings;
    stages->decoders = walk->work->decoders;
    int rc = n ? draw(walk, member, sample, which, n, use, context, error) : LEAT_OK;
    if (walk->work->drawn.room > LEAT_KEEP_BYTES) {
        leat_free(walk->work->drawn.data);
        walk->work->drawn = (struct leat_grown){0};
    }
    walk->work->decoders = stages->decoders;
    stages->decoders = decoders;
    stages->decoder = decoder;
    stages->health = health;
    stages->warnings = warnings;
    return rc;
}

/* The destination of the masks of a row. */
struct putting {
    struct leat_walk *walk;
    struct leat_scratch *scratch;
    const struct leat_compiled *c;
    unsigned sample;
    uint8_t *to;
    uint32_t w, h;
};

/* A mask of open size, copied out of the buffer between two stages. */
static int copy_open(const struct putting *p, const struct leat_row *row, uint8_t *to, struct leat_error *error)
{
    struct leat_image image;
    int rc = leat_program_apply_open(p->walk->program, p->c->index, p->scratch, row, &image, error);
    if (!rc && (image.w != p->w || image.h != p->h))
        rc = leat_fail(error, LEAT_E_DECODE, "'%s' ends in masks of %u x %u pixels, and its image in %u x %u",
                       p->c->field, image.w, image.h, p->w, p->h);
    for (uint32_t y = 0; !rc && y < p->h; y++)
        memcpy(to + (size_t)y * p->w, image.base + y * image.row, p->w);
    return rc;
}

static int put_one(void *context, uint64_t i, const struct leat_row *photo, struct leat_error *error)
{
    struct putting *p = context;
    struct leat_row row = *photo;
    uint8_t *to = p->to + i * (size_t)p->w * p->h, *canvas = p->walk->work->placed.data;
    int rc = LEAT_OK;
    if (p->c->gather) {
        const size_t pixels = (size_t)leat_type_bytes(&p->c->gather->out);
        const uint8_t *cover = p->sample ? NULL : p->walk->samples.cover;
        struct leat_image image;
        rc = leat_program_apply_part(p->walk->program, p->c->index, p->scratch, photo, &image, error);
        if (rc)
            return rc;
        memset(canvas, 0, pixels);
        leat_gather_place(p->walk, p->c, p->sample, &image, canvas);
        for (size_t k = 0; cover && k < pixels; k++)
            canvas[k] = cover[k] ? 0 : canvas[k];
        row.data = canvas;
        row.key = p->walk->values[0].key;
    }
    if (p->c->face.open)
        return copy_open(p, &row, to, error);
    if (leat_program_apply(p->walk->program, p->c->index, p->scratch, &row, 1, to, error) < 1)
        rc = error && error->code ? error->code : LEAT_E_DECODE;
    return rc;
}

/* Memory for n masks of open size. */
static int take_open(struct leat_room *room, const struct putting *p, uint64_t n, void **memory,
                     struct leat_error *error)
{
    const uint64_t each = (uint64_t)p->w * p->h;
    if (each && n > LEAT_MOST_DRAWN / each)
        return leat_fail(error, LEAT_E_DECODE,
                         "masks of its %" PRIu64 " instances, of %u x %u pixels each, take more than the %" PRIu64
                         " bytes that a sample may take: ask for them smaller, or leave '%s' out",
                         n, p->h, p->w, LEAT_MOST_DRAWN, p->c->field);
    return room->take(room, p->c->index, n * each, memory, error);
}

int leat_instances_put(struct leat_walk *walk, struct leat_scratch *scratch, size_t member,
                       const struct leat_target_part *part, const int64_t *size, uint8_t *dst, struct leat_error *error)
{
    const struct leat_compiled *c = leat_tuple_member(walk->program, walk->chain, member);
    const uint32_t *left = (const uint32_t *)(const void *)part->data;
    struct leat_room *room = leat_scratch_stages(scratch)->room;
    struct putting p = {.walk = walk, .scratch = scratch, .c = c};
    p.h = (uint32_t)(c->face.open ? size[0] : leat_type_height(&c->out));
    p.w = (uint32_t)(c->face.open ? size[1] : leat_type_width(&c->out));
    const size_t each = (size_t)p.h * p.w;
    if (c->pad_steps && part->n > c->pad_steps && !c->pad_cuts)
        return leat_fail(error, LEAT_E_DECODE,
                         "'%s' has %llu rows, and PadTo makes %llu: give it a larger n, or say cut=True to drop what "
                         "is above",
                         c->field, (unsigned long long)part->n, (unsigned long long)c->pad_steps);
    const uint64_t n = c->pad_steps && part->n > c->pad_steps ? c->pad_steps : part->n,
                   all = c->pad_steps ? c->pad_steps : n;
    void *memory = dst;
    int rc = c->face.open ? take_open(room, &p, all, &memory, error) : LEAT_OK;
    if (!rc && c->gather && !leat_grown_room(&walk->work->placed, (size_t)leat_type_bytes(&c->gather->out)))
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory to draw a mask");
    for (uint64_t i = 0, some; !rc && i < n; i += some) { /* those of one sample stand together */
        p.sample = left[i] >> LEAT_INSTANCE_BITS;
        p.to = (uint8_t *)memory + i * each;
        for (some = 1; i + some < n && left[i + some] >> LEAT_INSTANCE_BITS == p.sample; some++)
            ;
        rc = leat_instances_draw(walk, scratch, member, p.sample, left + i, some, put_one, &p, error);
    }
    if (!rc && n < all)
        memset((uint8_t *)memory + n * each, c->pad_fill[0], (size_t)(all - n) * each);
    return rc;
}
