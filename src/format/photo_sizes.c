/*
 * Photos beside the sizes that annotations say: photo_sizes.h.
 *
 * A photo may have an EXIF orientation that exchanges its sides, as those of telephones have. Tools that annotate it
 * either show it as it is stored, or turned. Both are right: the boxes are those of Decode(), or of Decode(exif=True).
 */
#include "format/photo_sizes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "codec/codec.h"

enum { HEAD = 1 << 16, LOOKED_AT = 64, EXAMPLES = 3 };

struct check {
    uint64_t looked_at, other, turned, shown;
    char examples[640];
};

static void add_example(struct check *c, const char *text)
{
    if (c->other <= EXAMPLES)
        c->shown += leat_add_example(c->examples, sizeof c->examples, text);
}

int leat_photo_sizes_check(struct leat_annotated *a, const struct leat_said_size *said,
                           void (*where)(const struct leat_annotated *, uint64_t, const struct leat_said_size *, char *,
                                         size_t),
                           struct leat_error *error)
{
    const struct leat_listing *l = &a->photos.listing;
    const uint64_t count = l->n_files, n = a->options->check_sizes || count < LOOKED_AT ? count : LOOKED_AT;
    struct check c = {.examples = ""};
    int rc = LEAT_OK;
    uint8_t *head = n ? leat_alloc(HEAD) : NULL;
    if (n && !head)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to look at photos");
    for (uint64_t i = 0; i < n && !rc; i++) {
        const uint64_t sample = n == count ? i : i * (count / n) + i * (count % n) / n;
        const struct leat_said_size *one = &said[sample];
        struct leat_value_info info = {0};
        char place[256], text[512];
        if ((rc = leat_annotated_ask(a, i, n, error)) || !one->width)
            continue;
        const size_t length = leat_photo_files_head(&a->photos, sample, head, HEAD);
        if (!length || leat_codec_of(LEAT_KIND_IMAGE)->probe(head, length, &info, NULL) || !info.width)
            continue;
        c.looked_at++;
        if (info.width == one->width && info.height == one->height)
            continue;
        if (info.width == one->height && info.height == one->width && leat_photo_orientation(head, length) > 4) {
            c.turned++;
            continue;
        }
        c.other++;
        where(a, sample, one, place, sizeof place);
        snprintf(text, sizeof text, "%s is %" PRIu32 " x %" PRIu32 ", and %s says %" PRIu32 " x %" PRIu32,
                 l->names + l->files[sample].name, info.width, info.height, place, one->width, one->height);
        add_example(&c, text);
        if (a->on_bad == LEAT_BAD_RAISE) {
            rc = leat_fail(error, LEAT_E_CORRUPT, "%s (with \"skip\", that is a warning)", text);
            leat_error_at_file(error, a->path, LEAT_NO_OFFSET);
        }
    }
    leat_free(head);
    if (c.other)
        leat_note(&a->notes,
                  "%" PRIu64 " of %" PRIu64
                  " photos that were looked at have another size than the annotations say, so "
                  "boxes in pixels are probably wrong there: %s%s",
                  c.other, c.looked_at, c.examples, c.other > c.shown ? "; ..." : "");
    if (c.turned)
        leat_note(&a->notes,
                  "%" PRIu64 " of %" PRIu64 " photos that were looked at are annotated as their EXIF orientation turns "
                  "them: decode them by Decode(exif=True)",
                  c.turned, c.looked_at);
    return rc;
}
