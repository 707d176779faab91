/* Pad: rows and columns added on each side, or cut off if there are fewer than none. */
#include "base/error.h"
#include "op/operator.h"
#include "op/program.h"

struct pad_args {
    int64_t sides[4]; /* left, top, right, bottom */
    enum leat_padding padding;
    struct leat_fill fill;
};

static void parse(void *into, struct leat_args *json)
{
    struct pad_args *args = into;
    if (!leat_args_padding(json, -LEAT_MAX_SIDE, args->sides, &args->padding))
        leat_args_wrong(json, "padding", "given");
    leat_args_fill(json, 0, &args->fill);
}

static bool fits(int64_t side)
{
    return side >= 1 && side <= LEAT_MAX_SIDE;
}

static int infer(const void *from, const struct leat_place *place, struct leat_type *type, struct leat_effect *effect,
                 struct leat_error *error)
{
    const struct pad_args *args = from;
    int64_t w = leat_type_width(type), h = leat_type_height(type);
    int64_t out_w = w < 0 ? w : w + args->sides[0] + args->sides[2],
            out_h = h < 0 ? h : h + args->sides[1] + args->sides[3];
    if ((w >= 0 && !fits(out_w)) || (h >= 0 && !fits(out_h)))
        return leat_op_misfit(place, type, "an image whose sides stay between 1 and 65535 with the padding", error);
    int rc = leat_effect_pads(&args->fill, place, type, effect, error);
    effect->padding = args->padding;
    leat_type_resize(type, out_h, out_w);
    return rc;
}

static int move_pixels(const void *from, uint64_t key, uint32_t w, uint32_t h, struct leat_move *move,
                       struct leat_error *error)
{
    const struct pad_args *args = from;
    move->x = -args->sides[0];
    move->y = -args->sides[1];
    move->w = w + args->sides[0] + args->sides[2];
    move->h = h + args->sides[1] + args->sides[3];
    if (!fits(move->w) || !fits(move->h))
        return leat_fail(error, LEAT_E_DECODE,
                         "Pad cannot bring a photo of %u x %u to %lld x %lld: sides stay between 1 and 65535.", w, h,
                         (long long)move->w, (long long)move->h);
    move->out_w = (uint32_t)move->w;
    move->out_h = (uint32_t)move->h;
    move->crops = true;
    return LEAT_OK;
}

const struct leat_op_class leat_op_pad = {.type = "Pad",
                                          .input = LEAT_INPUT_IMAGE,
                                          .args_bytes = sizeof(struct pad_args),
                                          .parse = parse,
                                          .infer = infer,
                                          .move = move_pixels};
