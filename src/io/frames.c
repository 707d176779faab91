/* A compressed file of frames that decode by themselves: frames.h. */
#include "io/frames.h"

#include "base/alloc.h"
#include "base/error.h"
#include "io/blocks.h"

/* The user of a file of blocks. */
struct frames {
    struct leat_io_file *file;
    leat_frame_decoder decode;
    uint64_t *ins, *outs;
};

static void close_frames(void *user)
{
    struct frames *f = user;
    leat_io_release(f->file);
    leat_free(f->ins);
    leat_free(f->outs);
    leat_free(f);
}

static int decode_block(void *user, size_t block, uint8_t *to, struct leat_error *error)
{
    const struct frames *f = user;
    const size_t n = (size_t)(f->ins[block + 1] - f->ins[block]);
    uint8_t *bytes = leat_alloc(n + 1);
    if (!bytes)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to decode %s", f->file->path);
    int rc = leat_io_read(f->file, f->ins[block], n, bytes, error);
    if (!rc)
        rc = f->decode(f->file, f->ins[block], bytes, n, to, (size_t)(f->outs[block + 1] - f->outs[block]), error);
    leat_free(bytes);
    return rc;
}

int leat_frames_open(struct leat_io_file *file, const struct leat_frame *frames, size_t n, leat_frame_decoder decode,
                     struct leat_io_file **out, struct leat_error *error)
{
    struct frames *f = leat_new(struct frames);
    *out = NULL;
    if (!f || !(f->ins = leat_new_array(n + 1, sizeof *f->ins)) ||
        !(f->outs = leat_new_array(n + 1, sizeof *f->outs))) {
        if (f)
            close_frames(f);
        return leat_fail(error, LEAT_E_NOMEM, "no memory to open %s", file->path);
    }
    for (size_t i = 0; i <= n; i++) {
        f->ins[i] = frames[i].in;
        f->outs[i] = frames[i].out;
    }
    f->decode = decode;
    f->file = leat_io_retain(file);
    int rc = leat_blocks_open(
        &(struct leat_blocks){
            .path = file->path, .n = n, .starts = f->outs, .decode = decode_block, .close = close_frames, .user = f},
        out, error);
    if (rc)
        close_frames(f);
    return rc;
}
