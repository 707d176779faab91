/*
 * The memory of a program: that of a thread for all rows, and that of one row beside it, for which the engine asks the
 * budget before the row is made.
 */
#include "base/alloc.h"
#include "op/program_internal.h"

/* ---- memory of a thread ---- */

static const struct leat_type *first_type(const struct leat_compiled *c)
{
    return c->gather ? &c->gather->out : &c->in;
}

/* The needs of images of known size, so that making them allocates nothing. */
static bool reserve(const struct leat_compiled *c, struct leat_stage_work *work)
{
    if (c->path != LEAT_PATH_IMAGE || c->face.decodes || c->idle || leat_type_is_open(first_type(c)))
        return true;
    return !leat_stages_reserve(c->stages, c->n_stages, work, (uint32_t)leat_type_width(first_type(c)),
                                (uint32_t)leat_type_height(first_type(c)));
}

bool leat_program_reserve(const struct leat_program *program, struct leat_stage_work *work)
{
    bool good = true;
    for (size_t i = 0; good && i < program->n_outputs; i++) {
        const struct leat_compiled *c = &program->outputs[i];
        good = (!c->face.decodes || leat_decoders_get(&work->decoders, c->codec)) && reserve(c, work);
        for (size_t k = 0; good && k < c->n_parts; k++)
            good = reserve(&c->parts[k], work);
    }
    return good;
}

static uint64_t image_bytes(const struct leat_compiled *c)
{
    if (c->path != LEAT_PATH_IMAGE || c->idle)
        return 0;
    const uint64_t kept = c->n_stages * (uint64_t)LEAT_KEEP_BYTES;
    if (c->gather) /* a canvas and the images between its stages, and those of each sample */
        return (1 + c->gather->op->class->views + c->gather->op->class->overlays + 2 * c->gather->op->class->pastes +
                2 * c->n_stages) *
                   leat_type_bytes(&c->gather->out) +
               c->parts->n_stages * LEAT_KEEP_BYTES;
    if (c->face.decodes || leat_type_is_open(&c->in))
        return kept - LEAT_KEEP_BYTES;
    const uint64_t known =
        leat_stages_room(c->stages, c->n_stages, (uint32_t)leat_type_width(&c->in), (uint32_t)leat_type_height(&c->in));
    return known + (c->face.grows ? kept : 0);
}

/* A mask of an instance, as large as an image of known size. */
static uint64_t drawn_bytes(const struct leat_program *program, const struct leat_compiled *c)
{
    if (c->role != LEAT_ROLE_MASKS)
        return 0;
    const struct leat_compiled *image = &program->outputs[program->chains[c->face.chain].canvas];
    const struct leat_type *canvas = &image->in;
    if (image->face.decodes)
        return 0;
    return (uint64_t)leat_type_width(canvas) * (uint64_t)leat_type_height(canvas);
}

uint64_t leat_program_images_bytes(const struct leat_program *program)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < program->n_outputs; i++) {
        const struct leat_compiled *c = &program->outputs[i];
        bytes += image_bytes(c) + drawn_bytes(program, c);
        for (size_t k = 0; k < c->n_parts; k++)
            bytes += image_bytes(&c->parts[k]);
    }
    return bytes;
}

/* ---- lists ---- */

uint64_t leat_use_count(const struct leat_use *use, uint64_t n)
{
    const struct leat_op_class *class = use->op->class;
    if (!class->count) /* an image, too, of which there are as many as values: masks of instances */
        return n;
    const bool fixed = use->in.ndim && use->in.shape[0] >= 0; /* whatever the list was that it was made of */
    return class->count(use->op->args, fixed ? (uint64_t)use->in.shape[0] : n);
}

uint64_t leat_compiled_count(const struct leat_compiled *c, uint64_t n)
{
    for (size_t k = 0; k < c->n_uses; k++)
        n = leat_use_count(&c->uses[k], n);
    return n;
}

uint64_t leat_value_size(const struct leat_type *type, uint64_t n)
{
    const uint64_t bytes = leat_type_bytes(type);
    return bytes == UINT64_MAX ? n * leat_type_step(type) : bytes;
}

uint64_t leat_list_bytes(const struct leat_compiled *c, uint64_t length)
{
    uint64_t n = length / leat_type_step(&c->in), most = 0, last = 0; /* the last value is the row itself */
    for (size_t k = 0; k < c->n_parts; k++) {
        const struct leat_compiled *part = &c->parts[k];
        if (!part->idle) {
            most = last > most ? last : most;
            last = leat_value_size(&part->out, n);
        }
        if (part->native) {
            n = leat_use_count(part->native, n);
            most = last > most ? last : most;
            last = leat_value_size(&part->native->out, n);
        }
    }
    return c->pad_steps && last > most ? last : most;
}

/* ---- memory of a row ---- */

/* Those that take the stored value. */
static const struct leat_compiled *first_part(const struct leat_compiled *c)
{
    return c->path == LEAT_PATH_NATIVE || c->gather ? &c->parts[0] : c;
}

/* Samples of decoded photos have 16 bits. */
static bool decodes_wide(const struct leat_compiled *c)
{
    return c->n_stages && c->stages[0].decode && c->stages[0].in.dtype == LEAT_U16;
}

/* Whether the images of its canvas are as large as the masks of instances of a tuple. */
static const struct leat_compiled_chain *drawing_chain(const struct leat_program *program,
                                                       const struct leat_compiled *c)
{
    const struct leat_compiled_chain *chain = &program->chains[c->face.chain];
    return chain->face.tuple && chain->draws && chain->canvas == c->index ? chain : NULL;
}

/* Between the stages of an image of w x h, or of masks that are drawn as large. */
static uint64_t between_bytes(const struct leat_program *program, const struct leat_compiled *c, uint64_t row_key,
                              unsigned piece, uint32_t w, uint32_t h)
{
    const struct leat_compiled *first = first_part(c);
    const bool gathers = c->gather && c->gather->op->class->gathers;
    const struct leat_compiled_chain *chain = drawing_chain(program, c);
    uint64_t most = leat_stages_bytes(first->stages, first->n_stages,
                                      gathers ? leat_piece_key(row_key, piece) : row_key, w, h),
             one;
    if (c->gather) {
        one = leat_stages_bytes(c->stages, c->n_stages, row_key, (uint32_t)leat_type_width(&c->gather->out),
                                (uint32_t)leat_type_height(&c->gather->out));
        most = one > most ? one : most;
    }
    for (size_t i = 0; chain && i < chain->face.n_fields; i++) {
        const struct leat_compiled *masks = leat_tuple_member(program, chain, i);
        if (masks->role != LEAT_ROLE_MASKS)
            continue;
        const struct leat_compiled *drawn = first_part(masks);
        one = (uint64_t)w * h + leat_stages_bytes(drawn->stages, drawn->n_stages,
                                                  gathers ? leat_piece_key(row_key, piece) : row_key, w, h);
        most = one > most ? one : most;
    }
    return most;
}

uint64_t leat_program_decode_bytes(const struct leat_program *program, size_t output, const struct leat_row *row,
                                   unsigned piece)
{
    const struct leat_compiled *c = &program->outputs[output], *first = first_part(c);
    if (leat_compiled_is_list(c)) {
        const uint64_t longest = leat_list_bytes(c, row->length);
        return longest > program->native_bytes ? 2 * leat_align64(longest) + 64 : 0;
    }
    if (c->face.grows)
        return between_bytes(program, c, row->key, piece, (uint32_t)leat_type_width(&c->in),
                             (uint32_t)leat_type_height(&c->in));
    if (!c->face.decodes)
        return c->codec && row->info.form == LEAT_FORM_FAST ? c->codec->restore_bytes(row->data, row->length) : 0;
    if (c->path == LEAT_PATH_SLICES)
        return c->codec->decode_bytes(row->data, row->length, &row->info, false);
    struct leat_value_info info = row->info;
    uint64_t bytes =
        c->codec->decode_bytes(row->data, row->length, &row->info, c->face.turns) * (decodes_wide(first) ? 2 : 1);
    if ((first->n_stages < 2 && !decodes_wide(first) && !c->gather && !drawing_chain(program, c)) ||
        (info.form == LEAT_FORM_ORIGINAL && c->codec->probe(row->data, row->length, &info, NULL)))
        return bytes;
    if (info.size[0] > LEAT_MAX_SIDE || info.size[1] > LEAT_MAX_SIDE) /* an index says so: decoding will not */
        return bytes;
    uint64_t between = between_bytes(program, c, row->key, piece, info.size[0], info.size[1]);
    if (c->face.turns && info.size[0] != info.size[1]) {
        uint64_t turned = between_bytes(program, c, row->key, piece, info.size[1], info.size[0]);
        between = turned > between ? turned : between;
    }
    return bytes + between;
}
