/* What the benchmarks of JPEG coding share: the photos of a folder in memory, and libjpeg-turbo's entropy decoding of
 * one. */
#ifndef LEAT_BENCH_JPEGS_H
#define LEAT_BENCH_JPEGS_H

#include <fts.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include <jpeglib.h>

struct photo {
    unsigned char *data;
    size_t length;
};
static struct photo *photos;
static size_t n_photos, total_bytes;

static void read_photo(const char *path, size_t length)
{
    static size_t room;
    FILE *file = fopen(path, "rb");
    unsigned char *data = file && length ? malloc(length) : NULL;
    if (data && fread(data, 1, length, file) == length && length > 2 && data[0] == 0xff && data[1] == 0xd8) {
        if (n_photos == room) {
            room = room ? 2 * room : 1024;
            photos = realloc(photos, room * sizeof *photos);
            if (!photos)
                exit(2);
        }
        photos[n_photos++] = (struct photo){data, length};
        total_bytes += length;
    } else {
        free(data);
    }
    if (file)
        fclose(file);
}

/* All JPEGs of a folder and below; none where there is no such folder. */
static void read_photos(char *folder)
{
    FTS *tree = fts_open((char *[]){folder, NULL}, FTS_LOGICAL | FTS_NOCHDIR, NULL);
    for (FTSENT *entry; tree && (entry = fts_read(tree));)
        if (entry->fts_info == FTS_F)
            read_photo(entry->fts_path, (size_t)entry->fts_statp->st_size);
    if (tree)
        fts_close(tree);
}

/* ---- libjpeg-turbo --------------------------------------------------------------------------- */

struct failure {
    struct jpeg_error_mgr errors;
    jmp_buf out;
};

static void on_error(j_common_ptr cinfo)
{
    longjmp(((struct failure *)cinfo->err)->out, 1);
}

static void on_message(j_common_ptr cinfo, int level)
{
    (void)cinfo;
    (void)level;
}

/* Ended with jpeg_destroy_decompress. */
static void create(struct jpeg_decompress_struct *cinfo, struct failure *failure)
{
    cinfo->err = jpeg_std_error(&failure->errors);
    failure->errors.error_exit = on_error;
    failure->errors.emit_message = on_message;
    jpeg_create_decompress(cinfo);
}

/* After the header: all rows, of which no pixel but the last row's is made. */
static void skim_rows(struct jpeg_decompress_struct *cinfo)
{
    cinfo->out_color_space = cinfo->jpeg_color_space;
    jpeg_start_decompress(cinfo);
    /* Asked to skip all of it, libjpeg-turbo would decode nothing: one row is read, all others are skipped. */
    if (cinfo->output_height > 1)
        jpeg_skip_scanlines(cinfo, cinfo->output_height - 1);
    JSAMPARRAY row = cinfo->mem->alloc_sarray((j_common_ptr)cinfo, JPOOL_IMAGE,
                                              cinfo->output_width * (JDIMENSION)cinfo->output_components, 1);
    jpeg_read_scanlines(cinfo, row, 1);
    jpeg_finish_decompress(cinfo);
}

/* -1: broken. */
static int skim(struct jpeg_decompress_struct *cinfo, const struct photo *photo)
{
    struct failure *failure = (struct failure *)cinfo->err;
    if (setjmp(failure->out)) {
        jpeg_abort_decompress(cinfo);
        return -1;
    }
    jpeg_mem_src(cinfo, photo->data, photo->length);
    jpeg_read_header(cinfo, TRUE);
    skim_rows(cinfo);
    return 0;
}

/* ---- time ------------------------------------------------------------------------------------ */

/* Seconds of this thread on a processor, so that others on the core do not count. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

#endif
