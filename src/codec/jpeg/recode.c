/* libjpeg's own defaults for both ways, which are those of Pillow and torchvision: exact transforms, smooth chroma. The
 * encoded photo lies in memory of libjpeg's. */
#include "codec/jpeg/recode.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "codec/jpeg/libjpeg.h"

struct recoding {
    struct leat_jpeg_trouble trouble;
    struct jpeg_compress_struct writer;
    struct jpeg_decompress_struct reader;
    unsigned char *data;
    unsigned long length;
    const uint8_t *in;
    uint8_t *out;
    size_t in_row, out_row;
    bool done;
};

static void write_photo(struct recoding *r, uint32_t w, uint32_t h, unsigned channels, int quality)
{
    jpeg_mem_dest(&r->writer, &r->data, &r->length);
    r->writer.image_width = w;
    r->writer.image_height = h;
    r->writer.input_components = (int)channels;
    r->writer.in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&r->writer);
    jpeg_set_quality(&r->writer, quality, TRUE);
    jpeg_start_compress(&r->writer, TRUE);
    while (r->writer.next_scanline < h) {
        JSAMPROW row = (JSAMPROW)(uintptr_t)(r->in + r->writer.next_scanline * r->in_row); /* it is only read */
        jpeg_write_scanlines(&r->writer, &row, 1);
    }
    jpeg_finish_compress(&r->writer);
}

static void read_photo(struct recoding *r)
{
    jpeg_mem_src(&r->reader, r->data, r->length);
    jpeg_read_header(&r->reader, TRUE);
    jpeg_start_decompress(&r->reader);
    while (r->reader.output_scanline < r->reader.output_height) {
        JSAMPROW row = r->out + r->reader.output_scanline * r->out_row;
        jpeg_read_scanlines(&r->reader, &row, 1);
    }
    jpeg_finish_decompress(&r->reader);
}

int leat_jpeg_recode(const uint8_t *in, size_t in_row, uint8_t *out, size_t out_row, uint32_t w, uint32_t h,
                     unsigned channels, int quality, struct leat_error *error)
{
    struct recoding r = {.in = in, .out = out, .in_row = in_row, .out_row = out_row};
    r.writer.err = r.reader.err = leat_jpeg_trouble_begin(&r.trouble, false);
    if (!setjmp(r.trouble.jump)) {
        jpeg_create_compress(&r.writer);
        jpeg_create_decompress(&r.reader);
        write_photo(&r, w, h, channels, quality);
        read_photo(&r);
        r.done = true;
    }
    jpeg_destroy_compress(&r.writer);
    jpeg_destroy_decompress(&r.reader);
    free(r.data);
    if (r.done)
        return LEAT_OK;
    return leat_fail(error, leat_jpeg_trouble_is_memory(&r.trouble) ? LEAT_E_NOMEM : LEAT_E_INVALID,
                     "An image of %u x %u as a JPEG: %s", w, h, r.trouble.words);
}
