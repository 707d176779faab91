/*
 * A file that appears only when it is complete. The temporary file lies beside it, because rename(2) does not move
 * files between file systems. A link is followed first, so that it stays a link.
 */
#include "new_file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The destination of the bytes of `path`. */
struct place {
    char *target; /* links followed */
    bool direct;  /* it exists and is no regular file: it is opened as it is */
    mode_t mode;
};

static mode_t mode_of_new_files(void)
{
    const mode_t mask = umask(0);
    umask(mask);
    return 0666 & ~mask;
}

static int find_place(const char *path, struct place *place)
{
    struct stat st;
    *place = (struct place){.mode = mode_of_new_files()};
    if (stat(path, &st)) {
        place->target = errno == ENOENT ? strdup(path) : NULL;
        if (!place->target)
            return errno;
        place->direct = !lstat(path, &st); /* a link to nothing: opening creates its target */
        return 0;
    }
    if (S_ISDIR(st.st_mode))
        return EISDIR;
    if (access(path, W_OK))
        return errno;
    place->direct = !S_ISREG(st.st_mode);
    place->mode = st.st_mode & 07777;
    place->target = realpath(path, NULL);
    return place->target ? 0 : errno;
}

/* A new file beside the target: its descriptor, or -1 with errno set. *name is freed with free. */
static int open_beside(const struct place *place, char **name)
{
    if (asprintf(name, "%s.XXXXXX", place->target) < 0) {
        *name = NULL;
        errno = ENOMEM;
        return -1;
    }
    return mkstemp(*name);
}

int cli_new_file_probe(const char *path)
{
    struct place place;
    char *name = NULL;
    int why = find_place(path, &place);
    if (!why && !place.direct) {
        const int fd = open_beside(&place, &name);
        if (fd < 0) {
            why = errno;
        } else {
            unlink(name);
            close(fd);
        }
    }
    free(name);
    free(place.target);
    return why;
}

/* Closes `out`. */
static int fill(FILE *out, int (*write)(FILE *out, const void *user), const void *user)
{
    errno = 0;
    int why = write(out, user);
    if (!why && (fflush(out) || ferror(out)))
        why = errno ? errno : EIO;
    if (fclose(out) && !why)
        why = errno;
    return why;
}

int cli_new_file_write(const char *path, int (*write)(FILE *out, const void *user), const void *user)
{
    struct place place;
    char *name = NULL;
    FILE *out = NULL;
    int fd = -1, why = find_place(path, &place);
    if (why)
        goto out;
    if (place.direct)
        out = fopen(place.target, "w");
    else if ((fd = open_beside(&place, &name)) >= 0 && !fchmod(fd, place.mode))
        out = fdopen(fd, "w");
    why = out ? fill(out, write, user) : errno;
    if (!out && fd >= 0)
        close(fd);
    if (!why && name && rename(name, place.target))
        why = errno;
    if (why && fd >= 0)
        unlink(name);
out:
    free(name);
    free(place.target);
    return why;
}
