/*
 * Files that are opened as one, for the text of an error about their folder: the pattern that names them.
 */
#ifndef LEAT_FORMAT_TOGETHER_H
#define LEAT_FORMAT_TOGETHER_H

#include <stdbool.h>
#include <stddef.h>

/* "; what lies there opens by name: \"FOLDER/s-{000..002}.tar\" (3 files as one; a list does it, too)", for the files
 * of a known format that a folder holds, or the first folder in it that has some: those of the most, by the shape of
 * their names. False: it holds none, or the names do not fit into `out`, which is "" then. */
bool leat_together_hint(const char *folder, char *out, size_t room);

#endif
