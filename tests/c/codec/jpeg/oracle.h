/* What libjpeg reads from photos: coefficients, in the order of this library; and kinds of photos for rows of tests. */
#ifndef LEAT_TESTS_JPEG_ORACLE_H
#define LEAT_TESTS_JPEG_ORACLE_H

#include <dirent.h>
#include <setjmp.h>

#include "../photo/photos.h"

#include <jerror.h>

#include "codec/jpeg/frame.h"

/* Kinds that a row of tests goes through. */
static const struct photo_style photo_styles[] = {
    {.name = "gray", .in = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE, .h = {1}, .v = {1}},
    {.name = "gray, factors 2 x 2", .in = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE, .h = {2}, .v = {2}},
    {.name = "4:4:4", .in = JCS_RGB, .stored = JCS_YCbCr, .h = {1, 1, 1}, .v = {1, 1, 1}},
    {.name = "4:2:2", .in = JCS_RGB, .stored = JCS_YCbCr, .h = {2, 1, 1}, .v = {1, 1, 1}},
    {.name = "4:2:0", .in = JCS_RGB, .stored = JCS_YCbCr, .h = {2, 1, 1}, .v = {2, 1, 1}},
    {.name = "4:4:0", .in = JCS_RGB, .stored = JCS_YCbCr, .h = {1, 1, 1}, .v = {2, 1, 1}},
    {.name = "4:1:1", .in = JCS_RGB, .stored = JCS_YCbCr, .h = {4, 1, 1}, .v = {1, 1, 1}},
    {.name = "4:1:0", .in = JCS_RGB, .stored = JCS_YCbCr, .h = {4, 1, 1}, .v = {2, 1, 1}},
    {.name = "chroma finer than luma", .in = JCS_RGB, .stored = JCS_YCbCr, .h = {1, 2, 1}, .v = {2, 2, 1}},
    {.name = "RGB", .in = JCS_RGB, .stored = JCS_RGB, .h = {1, 1, 1}, .v = {1, 1, 1}},
    {.name = "CMYK", .in = JCS_CMYK, .stored = JCS_CMYK, .h = {1, 1, 1, 1}, .v = {1, 1, 1, 1}},
    {.name = "YCCK 4:2:0", .in = JCS_CMYK, .stored = JCS_YCCK, .h = {2, 1, 1, 2}, .v = {2, 1, 1, 2}},
};
#define PHOTO_STYLES (sizeof photo_styles / sizeof photo_styles[0])

/* ---- libjpeg --------------------------------------------------------------------------------- */

struct photo_errors {
    struct jpeg_error_mgr base;
    jmp_buf out;
};

static void photo_error_exit(j_common_ptr cinfo)
{
    longjmp(((struct photo_errors *)cinfo->err)->out, 1);
}

/* Warnings are counted. That libjpeg does not know the JFIF revision is none. */
static void photo_error_emit(j_common_ptr cinfo, int level)
{
    if (level < 0 && cinfo->err->msg_code != JWRN_JFIF_MAJOR)
        cinfo->err->num_warnings++;
}

/* Reads a header. False: libjpeg has an error or a warning. jpeg_destroy_decompress follows in any case. */
static inline bool photo_header(struct jpeg_decompress_struct *d, struct photo_errors *errors, const uint8_t *data,
                                size_t length)
{
    d->err = jpeg_std_error(&errors->base);
    errors->base.error_exit = photo_error_exit;
    errors->base.emit_message = photo_error_emit;
    jpeg_create_decompress(d);
    if (setjmp(errors->out))
        return false;
    jpeg_mem_src(d, data, length);
    jpeg_read_header(d, TRUE);
    return !errors->base.num_warnings;
}

/* Allocates the blocks of a frame, aligned to 64 bytes, with values that no decoder leaves. The caller frees it. */
static inline int16_t *photo_blocks(const struct leat_jpeg_frame *frame, int16_t *of[LEAT_JPEG_MAX_COMPONENTS],
                                    size_t *bytes)
{
    size_t blocks = 0;
    for (unsigned c = 0; c < frame->n_components; c++)
        blocks += (size_t)frame->component[c].blocks_w * frame->component[c].blocks_h;
    *bytes = blocks * 128;
    int16_t *all = aligned_alloc(64, *bytes + 128), *at = all;
    assert_non_null(all);
    memset(all, 0x5a, *bytes);
    for (unsigned c = 0; c < frame->n_components; c++) {
        of[c] = at;
        at += (size_t)64 * frame->component[c].blocks_w * frame->component[c].blocks_h;
    }
    return all;
}

/* libjpeg's coefficients of the photo whose header `d` has read. False: it has an error or a warning. */
static inline bool photo_coefficients(struct jpeg_decompress_struct *d, const struct leat_jpeg_frame *frame,
                                      int16_t *const of[LEAT_JPEG_MAX_COMPONENTS])
{
    struct photo_errors *errors = (struct photo_errors *)d->err;
    if (setjmp(errors->out))
        return false;
    jvirt_barray_ptr *arrays = jpeg_read_coefficients(d);
    for (unsigned c = 0; c < frame->n_components; c++)
        for (uint32_t y = 0; y < frame->component[c].blocks_h; y++) {
            JBLOCKARRAY row = d->mem->access_virt_barray((j_common_ptr)d, arrays[c], y, 1, FALSE);
            memcpy(of[c] + (size_t)64 * y * frame->component[c].blocks_w, row[0],
                   (size_t)128 * frame->component[c].blocks_w);
        }
    jpeg_finish_decompress(d);
    return errors->base.num_warnings == 0;
}

/* Calls `visit` with the files under a folder that begin as a JPEG does, or with one of so many (test_takes). Returns
 * their number. */
static inline unsigned photo_each(const char *folder, unsigned one_of,
                                  void (*visit)(const char *name, const uint8_t *data, size_t length))
{
    unsigned n = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        char path[4096];
        if (entry->d_name[0] == '.')
            continue;
        assert_true(snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) < (int)sizeof path);
        if (entry->d_type == DT_DIR) {
            n += photo_each(path, one_of, visit);
        } else if (test_takes(path, one_of)) {
            size_t length;
            uint8_t *data = photo_file(folder, entry->d_name, &length);
            if (length > 2 && data[0] == 0xff && data[1] == 0xd8) {
                visit(path, data, length);
                n++;
            }
            free(data);
        }
    }
    closedir(dir);
    return n;
}

#endif
