/* NVRTC, CUDA's compiler for use at run time, loaded when a kernel is first needed. */
#ifndef LEAT_DEVICE_NVRTC_H
#define LEAT_DEVICE_NVRTC_H

#include <stddef.h>

#include "leat/leat.h"

enum { LEAT_KERNEL_DEFINES = 4 };

/* A kernel's text and the headers that it includes, as they stand in src/device/kernels (kernels.c.in). */
struct leat_kernel_source {
    const char *name, *function, *text;
    const char *defines[LEAT_KERNEL_DEFINES]; /* the numbers that it leaves open, or NULL */
    int n_headers;
    const char *const *headers, *const *header_names;
};
extern const struct leat_kernel_source leat_kernel_convert_pixels, leat_kernel_gather_rows;
/* In the order in which a batch of photos goes through them (kernels/photo.h): leat_photo_rows ... leat_photo_down. */
enum { LEAT_KERNELS_PHOTO = 9 };
extern const struct leat_kernel_source leat_kernel_photo[LEAT_KERNELS_PHOTO];

/* Compiles for the architecture major.minor, or, if the compiler does not know that, for the newest one below it that
 * it knows, as PTX, which the driver translates. `defines`: "-DNAME=VALUE", n of them. `path`: of the library, NULL: it
 * is looked for. *image and *log (may be NULL) are to be freed with leat_free; with `log` the compiler says what
 * registers and memory the kernel takes. Any thread.
 * Errors: UNSUPPORTED (no NVRTC, or one that knows no such card), INVALID (a fault of the kernel's text), NOMEM. */
int leat_nvrtc_compile(const char *path, const struct leat_kernel_source *source, int major, int minor,
                       const char *const *defines, int n, void **image, size_t *bytes, char **log,
                       struct leat_error *error);

#endif
