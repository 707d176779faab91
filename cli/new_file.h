/*
 * A file that appears under its name only when it is complete. Until then it has a temporary name beside it. A target
 * that is no regular file (a pipe, a device, a link to nothing) is written in place.
 */
#ifndef LEAT_CLI_NEW_FILE_H
#define LEAT_CLI_NEW_FILE_H

#include <stdio.h>

/* 0, or the errno with which writing there would fail, as far as that is known before. Leaves nothing behind. */
int cli_new_file_probe(const char *path);
/* Writes the output of `write`, and replaces the file of that name. Returns 0, or an errno, which `write` may return
 * too: then the old file stays and nothing is left of the new one. */
int cli_new_file_write(const char *path, int (*write)(FILE *out, const void *user), const void *user);

#endif
