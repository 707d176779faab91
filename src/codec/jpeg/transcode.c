/*
 * libjpeg as reader of all coefficients, and as writer of arithmetic scans.
 *
 * The reader treats libjpeg's warnings as errors, as the decoder does (op/decode_libjpeg.c), so that exactly the photos
 * that decode are taken apart. The writer is given the scans, the conditioning and the restart interval of the file;
 * libjpeg makes padding blocks of its own, so a file whose encoder made others does not come out the same, which the
 * caller finds by comparing.
 */
#include "codec/jpeg/transcode.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "codec/jpeg/libjpeg.h"

#include <jerror.h>

/* ---- reading --------------------------------------------------------------------------------- */

struct reader {
    struct jpeg_decompress_struct cinfo;
    struct leat_jpeg_trouble trouble;
    struct leat_jpeg_input input;
    const uint8_t *data;
    size_t length;
};

static int read_failed(const struct reader *r, struct leat_error *error)
{
    const struct leat_jpeg_trouble *t = &r->trouble;
    if (leat_jpeg_trouble_is_memory(t))
        return leat_fail(error, LEAT_E_NOMEM, "JPEG: memory to take apart a photo of %u x %u could not be had",
                         r->cinfo.image_width, r->cinfo.image_height);
    if (t->errors.msg_code == JERR_SOF_UNSUPPORTED || t->errors.msg_code == JERR_BAD_PRECISION)
        return leat_fail(error, LEAT_E_UNSUPPORTED, "JPEG: %s", t->words);
    if (!r->input.source.next_input_byte)
        return leat_fail(error, LEAT_E_DECODE, "JPEG: %s; the photo is damaged: replace it, or leave it out", t->words);
    int64_t offset = r->input.source.next_input_byte - r->data;
    leat_fail(error, LEAT_E_DECODE,
              "JPEG: %s, at about byte %lld of %zu; the photo is damaged: replace it, or leave it out", t->words,
              (long long)offset, r->length);
    leat_error_at_file(error, NULL, offset);
    return LEAT_E_DECODE;
}

static void copy_out(struct reader *r, jvirt_barray_ptr *arrays, struct leat_jpeg_coefficients *to)
{
    for (unsigned c = 0; c < to->frame.n_components; c++) {
        const struct leat_jpeg_component *component = &to->frame.component[c];
        size_t row = (size_t)component->blocks_w * 64;
        for (uint32_t y = 0; y < component->blocks_h; y++) {
            JBLOCKARRAY from = r->cinfo.mem->access_virt_barray((j_common_ptr)&r->cinfo, arrays[c], y, 1, FALSE);
            memcpy(to->of[c] + y * row, from[0], row * sizeof(int16_t));
        }
    }
}

/* The usual photo goes through our own decoder; one that it does not know, or finds a fault in, through libjpeg. False:
 * scans are missing. */
static bool read_coefficients(struct reader *r, struct leat_jpeg_huffman *huffman, struct leat_jpeg_coefficients *to)
{
    if (leat_jpeg_huffman_knows(huffman, &r->cinfo, &to->frame) && leat_jpeg_huffman_read_all(huffman, to->of))
        return true;
    jvirt_barray_ptr *arrays = jpeg_read_coefficients(&r->cinfo);
    if (!leat_jpeg_is_finished(&r->cinfo))
        return false;
    copy_out(r, arrays, to);
    return leat_jpeg_frame_of(&r->cinfo, &to->frame); /* tables of quantisation may have been defined between scans */
}

int leat_jpeg_transcode_read(struct leat_jpeg_huffman *huffman, const void *data, size_t length, bool by_rows,
                             struct leat_jpeg_coefficients *coefficients, struct leat_error *error)
{
    struct reader r;
    memset(&r, 0, sizeof r);
    r.data = data;
    r.length = length;
    r.cinfo.err = leat_jpeg_trouble_begin(&r.trouble, false);
    int rc;
    if (setjmp(r.trouble.jump)) {
        rc = read_failed(&r, error);
        goto out;
    }
    jpeg_create_decompress(&r.cinfo);
    leat_jpeg_input_begin(&r.input, &r.cinfo, data, length);
    jpeg_read_header(&r.cinfo, TRUE);
    struct leat_jpeg_frame frame;
    if (!leat_jpeg_frame_of(&r.cinfo, &frame)) {
        rc = leat_fail(error, LEAT_E_UNSUPPORTED,
                       "JPEG: components or sampling factors that only libjpeg-turbo decodes");
        goto out;
    }
    if (leat_jpeg_promises_too_much(&r.cinfo, length)) {
        rc = leat_fail(
            error, LEAT_E_DECODE,
            "JPEG: the file ends before the photo does, at byte %zu; the photo is damaged: replace it, or leave it out",
            length);
        goto out;
    }
    struct leat_jpeg_source *source = NULL;
    if (by_rows && leat_jpeg_huffman_knows(huffman, &r.cinfo, &frame))
        (void)leat_jpeg_huffman_begin(huffman, NULL, 0, &source);
    rc = leat_jpeg_coefficients_reserve(coefficients, &frame, source);
    if (rc == LEAT_E_UNSUPPORTED)
        leat_fail(error, rc, "JPEG: its coefficients take more than %u MiB",
                  (unsigned)(LEAT_JPEG_MAX_COEFFICIENT_BYTES >> 20));
    else if (rc)
        leat_fail(error, rc, "memory for the coefficients of a photo of %u x %u could not be had", frame.width,
                  frame.height);
    else if (!source && !read_coefficients(&r, huffman, coefficients))
        rc = leat_fail(error, LEAT_E_UNSUPPORTED,
                       "JPEG: scans of a progressive photo are missing, and libjpeg smooths what they left open");
out:
    jpeg_destroy_decompress(&r.cinfo);
    return rc;
}

/* ---- writing --------------------------------------------------------------------------------- */

struct writer {
    struct jpeg_compress_struct cinfo;
    struct leat_jpeg_trouble trouble;
    struct leat_jpeg_output output;
    jpeg_scan_info scans[LEAT_JPEG_MAX_SCANS];
    unsigned n_scans;
};

/* Before its first scan is written, libjpeg wants to know all of them. */
static bool collect_scans(struct writer *w, const struct leat_jpeg_walk *first, const struct leat_jpeg_frame *frame)
{
    struct leat_jpeg_walk walk = *first;
    enum leat_jpeg_met met = LEAT_JPEG_MET_SCAN;
    for (; met == LEAT_JPEG_MET_SCAN && w->n_scans < LEAT_JPEG_MAX_SCANS; met = leat_jpeg_walk_next(&walk, frame)) {
        jpeg_scan_info *to = &w->scans[w->n_scans++];
        to->comps_in_scan = walk.scan.n;
        for (unsigned i = 0; i < walk.scan.n; i++) {
            to->component_index[i] = walk.scan.component[i];
            jpeg_component_info *component = &w->cinfo.comp_info[walk.scan.component[i]];
            if (!walk.progressive || (!walk.scan.ss && !walk.scan.ah)) /* others name a table that they do not use */
                component->dc_tbl_no = walk.scan.dc[i] & 3;
            if (!walk.progressive || walk.scan.ss)
                component->ac_tbl_no = walk.scan.ac[i] & 3;
        }
        to->Ss = walk.progressive ? walk.scan.ss : 0;
        to->Se = walk.progressive ? walk.scan.se : DCTSIZE2 - 1;
        to->Ah = walk.progressive ? walk.scan.ah : 0;
        to->Al = walk.progressive ? walk.scan.al : 0;
    }
    return met == LEAT_JPEG_MET_END;
}

static void describe(struct writer *w, const struct leat_jpeg_walk *walk, const struct leat_jpeg_frame *frame)
{
    static const J_COLOR_SPACE spaces[] = {JCS_GRAYSCALE, JCS_YCbCr, JCS_RGB, JCS_CMYK, JCS_YCCK};
    j_compress_ptr c = &w->cinfo;
    c->image_width = frame->width;
    c->image_height = frame->height;
    c->input_components = frame->n_components;
    c->in_color_space = spaces[frame->colour];
    jpeg_set_defaults(c);
    jpeg_set_colorspace(c, spaces[frame->colour]);
    for (unsigned i = 0; i < frame->n_components; i++) {
        c->comp_info[i].h_samp_factor = frame->component[i].h;
        c->comp_info[i].v_samp_factor = frame->component[i].v;
    }
    c->arith_code = walk->arithmetic;
    c->restart_interval = walk->restart;
    for (unsigned i = 0; i < NUM_ARITH_TBLS; i++) {
        c->arith_dc_L[i] = walk->arith_dc[i] & 15;
        c->arith_dc_U[i] = walk->arith_dc[i] >> 4;
        c->arith_ac_K[i] = walk->arith_ac[i];
    }
}

static void write_all(struct writer *w, const struct leat_jpeg_coefficients *from)
{
    j_compress_ptr c = &w->cinfo;
    jvirt_barray_ptr arrays[LEAT_JPEG_MAX_COMPONENTS];
    for (unsigned i = 0; i < from->frame.n_components; i++) {
        const struct leat_jpeg_component *component = &from->frame.component[i];
        arrays[i] = c->mem->request_virt_barray((j_common_ptr)c, JPOOL_IMAGE, TRUE, component->blocks_w,
                                                component->blocks_h, component->v);
    }
    leat_jpeg_write_coefficients(c, arrays);
    for (unsigned i = 0; i < from->frame.n_components; i++) {
        const struct leat_jpeg_component *component = &from->frame.component[i];
        size_t row = (size_t)component->blocks_w * 64;
        for (uint32_t y = 0; y < component->blocks_h; y++) {
            JBLOCKARRAY to = c->mem->access_virt_barray((j_common_ptr)c, arrays[i], y, 1, TRUE);
            memcpy(to[0], from->of[i] + y * row, row * sizeof(int16_t));
        }
    }
    jpeg_finish_compress(c);
}

int leat_jpeg_transcode_write(const struct leat_jpeg_walk *walk, const struct leat_jpeg_coefficients *coefficients,
                              size_t limit, uint8_t **out, size_t *out_length, struct leat_error *error)
{
    struct writer *w = leat_new(struct writer);
    if (!w)
        return leat_fail(error, LEAT_E_NOMEM, "memory to put a photo together could not be had");
    w->cinfo.err = leat_jpeg_trouble_begin(&w->trouble, false);
    int rc = LEAT_OK;
    if (setjmp(w->trouble.jump)) {
        rc = leat_jpeg_trouble_is_memory(&w->trouble)
                 ? leat_fail(error, LEAT_E_NOMEM, "memory to put a photo together could not be had")
                 : leat_fail(error, LEAT_E_CORRUPT, "a photo's arithmetic scans cannot be made again: %s",
                             w->trouble.words);
        goto out;
    }
    jpeg_create_compress(&w->cinfo);
    leat_jpeg_output_begin(&w->output, &w->cinfo,
                           limit > SIZE_MAX / 2 ? limit : limit + 65536); /* libjpeg's own markers */
    describe(w, walk, &coefficients->frame);
    if (!collect_scans(w, walk, &coefficients->frame)) {
        rc = leat_fail(error, LEAT_E_CORRUPT, "the markers of a photo make no sense");
        goto out;
    }
    w->cinfo.scan_info = w->scans;
    w->cinfo.num_scans = (int)w->n_scans;
    write_all(w, coefficients);
    *out = w->output.bytes;
    *out_length = w->output.length;
    w->output.bytes = NULL;
out:
    jpeg_destroy_compress(&w->cinfo);
    leat_free(w->output.bytes);
    leat_free(w);
    return rc;
}

static bool copy_symbols(const JHUFF_TBL *from, struct leat_jpeg_symbols *to)
{
    memset(to, 0, sizeof *to);
    if (!from)
        return false;
    to->set = true;
    memcpy(to->count + 1, from->bits + 1, 16);
    unsigned n = 0;
    for (unsigned i = 1; i <= 16; i++)
        n += from->bits[i];
    memcpy(to->symbol, from->huffval, n <= 256 ? n : 256);
    return n <= 256;
}

bool leat_jpeg_transcode_default_symbols(struct leat_jpeg_symbols dc[2], struct leat_jpeg_symbols ac[2])
{
    struct jpeg_compress_struct c;
    struct leat_jpeg_trouble t;
    memset(&c, 0, sizeof c);
    c.err = leat_jpeg_trouble_begin(&t, false);
    bool good = false;
    if (!setjmp(t.jump)) {
        jpeg_create_compress(&c);
        c.in_color_space = JCS_GRAYSCALE;
        c.input_components = 1;
        jpeg_set_defaults(&c);
        good = copy_symbols(c.dc_huff_tbl_ptrs[0], &dc[0]) && copy_symbols(c.dc_huff_tbl_ptrs[1], &dc[1]) &&
               copy_symbols(c.ac_huff_tbl_ptrs[0], &ac[0]) && copy_symbols(c.ac_huff_tbl_ptrs[1], &ac[1]);
    }
    jpeg_destroy_compress(&c);
    return good;
}
