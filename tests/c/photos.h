/* A folder of small JPEGs, made for a test and removed after it. */
#ifndef LEAT_TESTS_PHOTOS_H
#define LEAT_TESTS_PHOTOS_H

#include "test.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jpeglib.h>

static char photos_root[64]; /* holds photos/cat and photos/dog, ten photos in each */

static inline void make_photo(const char *path, unsigned width, unsigned height, unsigned tint)
{
    struct jpeg_compress_struct cinfo;
    struct jpeg_error_mgr errors;
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    cinfo.err = jpeg_std_error(&errors);
    jpeg_create_compress(&cinfo);
    jpeg_stdio_dest(&cinfo, file);
    cinfo.image_width = width;
    cinfo.image_height = height;
    cinfo.input_components = 3;
    cinfo.in_color_space = JCS_RGB;
    jpeg_set_defaults(&cinfo);
    jpeg_start_compress(&cinfo, TRUE);
    uint8_t *row = malloc((size_t)width * 3);
    assert_non_null(row);
    while (cinfo.next_scanline < height) {
        for (unsigned x = 0; x < width * 3; x++)
            row[x] = (uint8_t)(x * 2 + cinfo.next_scanline + tint);
        jpeg_write_scanlines(&cinfo, &row, 1);
    }
    free(row);
    jpeg_finish_compress(&cinfo);
    jpeg_destroy_compress(&cinfo);
    assert_int_equal(fclose(file), 0);
}

static inline int photos_setup(void **state)
{
    char path[128];
    strcpy(photos_root, "/tmp/leat-photos-XXXXXX");
    if (!mkdtemp(photos_root))
        return 1;
    for (unsigned c = 0; c < 2; c++) {
        snprintf(path, sizeof path, "%s/photos", photos_root);
        mkdir(path, 0777);
        snprintf(path, sizeof path, "%s/photos/%s", photos_root, c ? "dog" : "cat");
        mkdir(path, 0777);
        for (unsigned i = 0; i < 10; i++) {
            snprintf(path, sizeof path, "%s/photos/%s/%u.jpg", photos_root, c ? "dog" : "cat", i);
            make_photo(path, 80 + 7 * i, 90, 40 * c + i);
        }
    }
    return 0;
}

static inline int photos_teardown(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", photos_root);
    return system(command);
}

/* Runs a command; *last (may be NULL) is the last line that it printed. Returns its exit code. */
static inline int run_command(const char *command, char *last, size_t room)
{
    char line[512];
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    if (last)
        last[0] = 0;
    while (fgets(line, sizeof line, pipe))
        if (last)
            snprintf(last, room, "%s", line);
    const int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#endif
