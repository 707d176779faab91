/*
 * A file that appears under its name only when it is whole: until then its bytes go to a temporary name beside it. What
 * is no regular file (a pipe, a device, a link to nothing) is written where it is.
 */
#ifndef LEAT_CLI_NEW_FILE_H
#define LEAT_CLI_NEW_FILE_H

#include <stdio.h>

/* 0, or the errno for which a file could not be written there, as far as can be told before. Leaves nothing behind. */
int cli_new_file_probe(const char *path);
/* Writes what `write` prints, and replaces what had the name. 0 or an errno; then nothing is left of it, and what had
 * the name stays. */
int cli_new_file_write(const char *path, void (*write)(FILE *out, const void *user), const void *user);

#endif
