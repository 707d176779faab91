/*
 * How fast plain entropy decoding of photos is on this machine: the roof of `leat pack` with its check. Reads every JPEG
 * under a folder into memory, then decodes each to its end with jpeg_skip_scanlines on n threads, which is libjpeg-turbo
 * doing its entropy decoding and little else.
 *
 *     bench_entropy FOLDER [THREADS] [ROUNDS]
 *     579 photos, 62.6 MB, 2 threads: 3456 photos/s, 373.6 MB/s (median of 5 rounds)
 */
#include <fts.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <jpeglib.h>

struct photo {
    unsigned char *data;
    size_t length;
};

static struct photo *photos;
static size_t n_photos, room;
static size_t total_bytes;
static atomic_size_t next_photo, n_failed;

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

static int skim(struct jpeg_decompress_struct *cinfo, const struct photo *photo)
{
    struct failure *failure = (struct failure *)cinfo->err;
    if (setjmp(failure->out)) {
        jpeg_abort_decompress(cinfo);
        return -1;
    }
    jpeg_mem_src(cinfo, photo->data, photo->length);
    jpeg_read_header(cinfo, TRUE);
    cinfo->out_color_space = cinfo->jpeg_color_space;
    jpeg_start_decompress(cinfo);
    /* Asked to skip all of it, libjpeg-turbo would decode nothing: one row is read, all others are skipped. */
    if (cinfo->output_height > 1)
        jpeg_skip_scanlines(cinfo, cinfo->output_height - 1);
    JSAMPARRAY row =
        cinfo->mem->alloc_sarray((j_common_ptr)cinfo, JPOOL_IMAGE, cinfo->output_width * (JDIMENSION)cinfo->output_components, 1);
    jpeg_read_scanlines(cinfo, row, 1);
    jpeg_finish_decompress(cinfo);
    return 0;
}

static void *work(void *unused)
{
    struct jpeg_decompress_struct cinfo;
    struct failure failure;
    (void)unused;
    cinfo.err = jpeg_std_error(&failure.errors);
    failure.errors.error_exit = on_error;
    failure.errors.emit_message = on_message;
    jpeg_create_decompress(&cinfo);
    for (size_t i; (i = atomic_fetch_add(&next_photo, 1)) < n_photos;)
        if (skim(&cinfo, &photos[i]))
            atomic_fetch_add(&n_failed, 1);
    jpeg_destroy_decompress(&cinfo);
    return NULL;
}

static void read_photo(const char *path, size_t length)
{
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

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: bench_entropy FOLDER [THREADS] [ROUNDS]\n");
        return 2;
    }
    long threads = argc > 2 ? atol(argv[2]) : sysconf(_SC_NPROCESSORS_ONLN), rounds = argc > 3 ? atol(argv[3]) : 5;
    threads = threads < 1 ? 1 : threads > 256 ? 256 : threads;
    rounds = rounds < 1 ? 1 : rounds > 99 ? 99 : rounds;
    FTS *tree = fts_open((char *[]){argv[1], NULL}, FTS_LOGICAL | FTS_NOCHDIR, NULL);
    for (FTSENT *entry; tree && (entry = fts_read(tree));)
        if (entry->fts_info == FTS_F)
            read_photo(entry->fts_path, (size_t)entry->fts_statp->st_size);
    if (tree)
        fts_close(tree);
    if (!n_photos) {
        fprintf(stderr, "%s: no JPEG there\n", argv[1]);
        return 2;
    }
    double seconds[99];
    for (long r = 0; r < rounds; r++) {
        pthread_t ids[256];
        struct timespec a, b;
        long started = 0;
        atomic_store(&next_photo, 0);
        clock_gettime(CLOCK_MONOTONIC, &a);
        while (started < threads && !pthread_create(&ids[started], NULL, work, NULL))
            started++;
        for (long t = 0; t < started; t++)
            pthread_join(ids[t], NULL);
        clock_gettime(CLOCK_MONOTONIC, &b);
        seconds[r] = (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) * 1e-9;
    }
    qsort(seconds, (size_t)rounds, sizeof *seconds, by_value);
    const double median = seconds[rounds / 2];
    printf("%zu photos, %.1f MB, %ld threads: %.0f photos/s, %.1f MB/s (median of %ld rounds)", n_photos, (double)total_bytes * 1e-6,
           threads, (double)n_photos / median, (double)total_bytes * 1e-6 / median, rounds);
    if (n_failed)
        printf(", %zu broken", n_failed / (size_t)rounds);
    putchar('\n');
    return 0;
}
