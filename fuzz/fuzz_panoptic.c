/* The PNG of a panoptic file: opening never crashes, and the masks that were made of it can be drawn. If PNGs of class
 * ids are requested, each is as large as the one that it was made of. */
#include <sys/stat.h>

#include "codec/image.h"
#include "fuzz_annotated.h"

static const char json[] =
    "{\"images\": [{\"id\": 1, \"file_name\": \"a.png\"}], \"categories\": [{\"id\": 1, \"name\": \"x\"}], "
    "\"annotations\": [{\"image_id\": 1, \"file_name\": \"a.png\", \"segments_info\": ["
    "{\"id\": 1, \"category_id\": 1, \"bbox\": [0, 0, 1, 1]}, {\"id\": 256, \"category_id\": 1, \"bbox\": [0, 0, 1, "
    "1]}, "
    "{\"id\": 1, \"category_id\": 1, \"bbox\": [0, 0, 1, 1]}]}]}";

static void put(const char *path, const void *data, size_t size)
{
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    close(fd);
}

/* The mask of class ids can be decoded to its end. */
static void check_mask(struct leat_source *s)
{
    static struct leat_decoder *decoder;
    struct leat_extent extent;
    struct leat_error error;
    size_t field = 0, failed;
    const uint64_t sample = 0;
    uint32_t w, h;
    if (!decoder && !(decoder = leat_decoder_new(leat_codec_of(LEAT_KIND_IMAGE))))
        abort();
    while (s->fields[field].role != LEAT_ROLE_MASK)
        field++;
    struct leat_io_file *file;
    if (s->v->extents(s, field, &sample, 1, &extent, &failed, &error) || s->v->file(s, extent.file, &file, &error))
        abort();
    uint8_t *png = malloc(extent.length);
    if (!png || leat_io_read(file, extent.offset, extent.length, png, &error))
        abort();
    leat_io_release(file);
    const struct leat_decode_request request = {.data = png,
                                                .length = extent.length,
                                                .wish = &(struct leat_image_wish){.gray = true, .ids = true},
                                                .scan_to_end = true};
    if (leat_image_open(decoder, &request, &w, &h, &error) || leat_decoder_begin(decoder, 1, 0, 0, w, h, &error))
        abort();
    for (uint32_t y = 0; y < h; y++) {
        const uint8_t *row;
        if (leat_decoder_row(decoder, &row, &error))
            abort();
        for (uint32_t x = 0; x < w; x++)
            if (row[x] != 0 && row[x] != 255)
                abort();
    }
    if (leat_decoder_end(decoder, &error))
        abort();
    free(png);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char folder[] = "/tmp/leat-fuzz-XXXXXX", path[64];
    struct leat_open_options options = LEAT_OPEN_OPTIONS_INIT;
    struct leat_source *s = NULL;
    struct leat_error error;
    if (!*path) {
        if (!mkdtemp(folder))
            abort();
        snprintf(path, sizeof path, "%s/p", folder);
        mkdir(path, 0700);
        snprintf(path, sizeof path, "%s/p.json", folder);
        put(path, json, sizeof json - 1);
    }
    options.annotations = path;
    options.recheck = LEAT_RECHECK_NEVER;
    char png[64];
    snprintf(png, sizeof png, "%s/p/a.png", folder);
    put(png, data, size);
    if (!leat_format_coco.open(fuzz_folder(), &options, &s, &error))
        fuzz_read(s);
    leat_source_close(s);
    s = NULL;
    options.format = "masks";
    if (!leat_format_coco.open(fuzz_folder(), &options, &s, &error)) {
        fuzz_read(s);
        check_mask(s);
    }
    leat_source_close(s);
    return 0;
}
