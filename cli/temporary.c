/* A folder for temporary files: temporary.h. */
#include "temporary.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int cli_temporary_make(const char *what, char folder[CLI_FOLDER], struct leat_error *error)
{
    const char *base = getenv("TMPDIR");
    if (!base || !*base)
        base = "/tmp";
    errno = ENAMETOOLONG;
    if (snprintf(folder, CLI_FOLDER, "%s/leat-%s-XXXXXX", base, what) < CLI_FOLDER && mkdtemp(folder))
        return LEAT_OK;
    *error =
        (struct leat_error){.code = LEAT_E_IO, .sys_errno = errno, .sample = LEAT_NO_SAMPLE, .offset = LEAT_NO_OFFSET};
    snprintf(error->message, sizeof error->message,
             "%.400s: no folder for temporary files can be made there: %s. TMPDIR names another place.", base,
             strerror(errno));
    folder[0] = 0;
    return LEAT_E_IO;
}

bool cli_temporary_failed(const char *folder, struct leat_error *error)
{
    if (!*folder || error->code != LEAT_E_IO || strncmp(error->file, folder, strlen(folder)) != 0)
        return false;
    snprintf(error->message, sizeof error->message, "writing a temporary file failed: %s: TMPDIR names another place",
             strerror(error->sys_errno));
    return true;
}

void cli_temporary_remove(const char *folder)
{
    DIR *dir = *folder ? opendir(folder) : NULL;
    const struct dirent *entry;
    if (!dir)
        return;
    while ((entry = readdir(dir)))
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
    rmdir(folder);
}
