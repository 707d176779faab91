/*
 * An operator of one's own, in C: cutout (DeVries and Taylor, 2017), which paints a square of an image over at a random
 * place.
 *
 *     cc -O3 -shared -fPIC -I"$(python -c 'import leat; print(leat.get_include())')" native_op.c -o libnative_op.so
 *
 *     chain = [leat.ops.Decode(), leat.ops.Resize((224, 224)),
 *              leat.ops.Native("./libnative_op.so:cutout", args=[64, 127])]
 *
 * args: the side of the square in pixels, and the value that it gets.
 */
#include <stdio.h>
#include <string.h>

#include <leat/leat.h>

/* Random bits number `i` of a row: the same for the same key, whichever thread asks (splitmix64, Steele et al.,
 * 2014). */
static uint64_t draw(uint64_t key, uint64_t i)
{
    uint64_t x = key + (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* What is wrong, for the user; the number itself is of no meaning, but 0 is. */
static int refuse(struct leat_native_call *call, const char *why)
{
    snprintf(call->message, call->message_room, "%s", why);
    return 1;
}

LEAT_API int cutout(struct leat_native_call *call);
int cutout(struct leat_native_call *call)
{
    const struct leat_native_type *type = call->in_type;
    if (type->dtype != LEAT_U8 || type->layout != LEAT_LAYOUT_HWC || call->out_type->bytes != type->bytes)
        return refuse(call,
                      "cutout takes a uint8 image as HWC and gives one: put it behind Resize and before Normalize");
    if (call->n_numbers != 2 || call->numbers[0] < 1 || call->numbers[0] > 65535)
        return refuse(call, "cutout takes args=[side, value], with a side from 1 to 65535");
    int64_t height = type->shape[0], width = type->shape[1], channels = type->shape[2];
    int64_t side_x = least((int64_t)call->numbers[0], width), side_y = least((int64_t)call->numbers[0], height);
    int64_t left = (int64_t)(draw(call->key, 0) % (uint64_t)(width - side_x + 1));
    int64_t top = (int64_t)(draw(call->key, 1) % (uint64_t)(height - side_y + 1));
    uint8_t *out = call->out;
    memcpy(out, call->in, type->bytes);
    for (int64_t y = top; y < top + side_y; y++)
        memset(out + (y * width + left) * channels, (int)call->numbers[1], (size_t)(side_x * channels));
    return 0;
}
